//! Findings in addition to the verdict, as tables: ties, effects of options, conditions of trials.

/// The contents of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Shortened in the middle if it does not fit.
    Name,
    /// Aligned to the right.
    Number,
    /// Shortened at the end if it does not fit.
    Remark,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportFinding {
    pub title: String,
    /// How to read it.
    pub explanation: String,
    pub columns: Vec<(String, ColumnKind)>,
    /// The most important row first, with one cell for each column.
    pub rows: Vec<Vec<String>>,
    /// How many rows the terminal shows; the HTML report folds the others.
    pub terminal_rows: usize,
    /// Whether a chart of the HTML report has the same numbers, so that the page leaves it out.
    pub is_drawn: bool,
}

impl ReportFinding {
    /// A finding without rows.
    pub fn new<const N: usize>(
        title: &str,
        explanation: &str,
        columns: [(&str, ColumnKind); N],
        terminal_rows: usize,
    ) -> Self {
        Self {
            title: title.to_owned(),
            explanation: explanation.to_owned(),
            columns: columns.map(|(heading, kind)| (heading.to_owned(), kind)).into(),
            rows: Vec::new(),
            terminal_rows,
            is_drawn: false,
        }
    }
}
