//! The findings as tables.

use crate::finding::{ColumnKind, ReportFinding};
use crate::markup::Element;

use super::parts::{cell, column_head, heading, number_cell, paragraph, row, scrolling, table};

pub(super) fn section(findings: &[ReportFinding]) -> Option<Element> {
    if findings.is_empty() {
        return None;
    }
    let section = Element::new("section").child(heading("findings", "Findings"));
    Some(findings.iter().fold(section, |section, finding| {
        section
            .child(Element::new("h3").text(&finding.title))
            .child(paragraph(&finding.explanation).class("scale"))
            .child(scrolling(&finding.title, finding_table(finding)))
    }))
}

fn finding_table(finding: &ReportFinding) -> Element {
    let heads: Vec<Element> = finding
        .columns
        .iter()
        .map(|(title, kind)| column_head(title, *kind == ColumnKind::Number))
        .collect();
    let rows = finding.rows.iter().map(|cells| {
        row(cells.iter().zip(&finding.columns).map(|(content, (_, kind))| match kind {
            ColumnKind::Name => cell(content).class("name"),
            ColumnKind::Number => number_cell(content),
            ColumnKind::Remark => cell(content).class("note"),
        }))
    });
    table(heads, rows.collect())
}
