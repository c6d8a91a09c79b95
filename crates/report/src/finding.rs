//! Findings beside the verdict, as tables: setups that tie, what options do, what was measured how.

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// A name, which loses its middle where there is no room.
    Name,
    /// A number, at the right.
    Number,
    /// A remark, which loses its end where there is no room.
    Remark,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportFinding {
    /// What it is about.
    pub title: String,
    /// How to read it.
    pub explanation: String,
    /// The headings of its columns.
    pub columns: Vec<(String, ColumnKind)>,
    /// Its rows, the most important first; a cell a column.
    pub rows: Vec<Vec<String>>,
    /// How many rows the terminal shows; the report shows all.
    pub brief_rows: usize,
}

impl ReportFinding {
    /// A finding without rows.
    pub fn new<const N: usize>(
        title: &str,
        explanation: &str,
        columns: [(&str, ColumnKind); N],
        brief_rows: usize,
    ) -> Self {
        Self {
            title: title.to_owned(),
            explanation: explanation.to_owned(),
            columns: columns.map(|(heading, kind)| (heading.to_owned(), kind)).into(),
            rows: Vec::new(),
            brief_rows,
        }
    }
}
