//! The findings as tables.

use crate::finding::{ColumnKind, ReportFinding};
use crate::markup::Element;
use crate::text::count_of;

use super::parts::{cell, column_head, heading, number_cell, paragraph, row, scrolling, table};

/// Findings that are visible; of the others, only the titles are.
const SHOWN_FINDINGS: usize = 2;
/// Visible rows of a finding, at most; a single row is not folded.
const SHOWN_ROWS: usize = 5;

/// The matrix, if there is one, and the findings that no chart shows.
pub(super) fn section(
    matrix: Option<&ReportFinding>,
    findings: &[ReportFinding],
) -> Option<Element> {
    let matrix = matrix.filter(|matrix| !matrix.rows.is_empty());
    let mut shown =
        matrix.into_iter().chain(findings).filter(|finding| !finding.is_drawn).peekable();
    shown.peek()?;
    let section = Element::new("section").child(heading("findings", "Findings"));
    Some(shown.enumerate().fold(section, |section, (index, finding)| {
        let (first, rest) = split(finding);
        let explanation = paragraph(&finding.explanation).class("scale");
        let content = [
            (!finding.explanation.is_empty()).then_some(explanation),
            Some(scrolling(&finding.title, finding_table(finding, first))),
            folded(finding, rest),
        ];
        let content = content.into_iter().flatten();
        if index < SHOWN_FINDINGS {
            return section.child(Element::new("h3").text(&finding.title)).children(content);
        }
        let summary = Element::new("summary").text(&finding.title);
        section.child(Element::new("details").child(summary).children(content))
    }))
}

fn split(finding: &ReportFinding) -> (&[Vec<String>], &[Vec<String>]) {
    let most = finding.terminal_rows.clamp(3, SHOWN_ROWS);
    let whole = finding.terminal_rows == usize::MAX || finding.rows.len() <= most + 1;
    finding.rows.split_at(if whole { finding.rows.len() } else { most })
}

fn folded(finding: &ReportFinding, rows: &[Vec<String>]) -> Option<Element> {
    (!rows.is_empty()).then(|| {
        Element::new("details")
            .child(Element::new("summary").text(count_of(rows.len(), "more row")))
            .child(scrolling(&format!("{}: more", finding.title), finding_table(finding, rows)))
    })
}

fn finding_table(finding: &ReportFinding, rows: &[Vec<String>]) -> Element {
    let heads: Vec<Element> = finding
        .columns
        .iter()
        .map(|(title, kind)| column_head(title, *kind == ColumnKind::Number))
        .collect();
    let rows = rows.iter().map(|cells| {
        row(cells.iter().zip(&finding.columns).map(|(content, (_, kind))| match kind {
            ColumnKind::Name => cell(content).class("name"),
            ColumnKind::Number => number_cell(content),
            ColumnKind::Remark => cell(content).class("note"),
        }))
    });
    table(heads, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_findings_are_folded_and_drawn_ones_left_out() {
        let mut finding = ReportFinding::new("Ties", "", [("setup", ColumnKind::Name)], 4);
        finding.rows = (0..20).map(|row| vec![row.to_string()]).collect();
        let (shown, rest) = split(&finding);
        assert_eq!((shown.len(), rest.len()), (4, 16));
        finding.terminal_rows = usize::MAX;
        assert_eq!(split(&finding).1.len(), 0, "a matrix is shown whole");
        finding.is_drawn = true;
        assert!(section(None, &[finding]).is_none());
    }
}
