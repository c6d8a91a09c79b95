//! Violations and the events around a power cut, as text.

use std::fmt::Write;

use flashfit_crash::model::Violation;
use flashfit_crash::timeline::{TimelineEvent, TimelineKind};
use flashfit_report::text::wrap;

/// One line for each violation.
pub fn violations(found: &[Violation], width: usize) -> String {
    if found.is_empty() {
        return "no violation\n".to_owned();
    }
    let mut text = String::new();
    for violation in found {
        let line = format!("{}: {}", violation.oracle.name(), violation.detail);
        for line in wrap(&line, width) {
            writeln!(text, "{line}").expect("a string takes any text");
        }
    }
    text
}

/// One line for each event; requests are indented below the operations.
pub fn events(events: &[TimelineEvent]) -> String {
    let mut text = String::new();
    for event in events {
        let TimelineEvent { position, text: what, .. } = event;
        let line = match event.kind {
            TimelineKind::Begins | TimelineKind::Returns => format!("{position:>6}  {what}"),
            TimelineKind::Kept => format!("{position:>6}      {what}"),
            TimelineKind::Lost => format!("{position:>6}      {what}: lost"),
            TimelineKind::Torn => format!("{position:>6}      {what}: torn"),
            TimelineKind::PowerCut => format!("{position:>6}  *** {what}"),
        };
        writeln!(text, "{line}").expect("a string takes any text");
    }
    text
}
