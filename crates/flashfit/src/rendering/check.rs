//! Findings of a check as text: the worst first, each with what it costs and what would mend it.

use std::fmt::Write;

use flashfit_device::Bytes;
use flashfit_filesystem::check::{CheckFinding, ExaminedDevice, Severity, verdict};
use flashfit_report::text::{plain, plain_command, wrap};

const NAME_COLUMNS: usize = 12;

/// All findings, for a terminal of `width` columns.
pub fn text(examined: &ExaminedDevice, findings: &[CheckFinding], width: usize) -> String {
    let mut text = String::new();
    let size = Bytes(examined.capacity_bytes);
    writeln!(text, "{}, {size} ({})", plain(&examined.target), size.si())
        .expect("a string takes any text");
    for volume in &examined.volumes {
        let what = match (&volume.facts, &volume.unreadable) {
            (Some(facts), _) => facts.kind.clone(),
            (None, Some(reason)) => reason.clone(),
            (None, None) => "no file system that is known".to_owned(),
        };
        let size = Bytes(volume.size_bytes);
        paragraph(&mut text, "  ", &format!("{}: {size}, {what}", volume.name), width);
    }
    for finding in findings {
        text.push('\n');
        one(&mut text, finding, width);
    }
    text.push('\n');
    text.push_str(match verdict(findings) {
        Severity::Bad => "Verdict: bad.\n",
        Severity::Advice => "Verdict: nothing is wrong; it could be better.\n",
        Severity::CannotTell => "Verdict: cannot tell.\n",
        Severity::Fine => "Verdict: fine.\n",
    });
    text
}

fn one(text: &mut String, finding: &CheckFinding, width: usize) {
    let head = format!("{}: {}, {}", finding.severity.name(), finding.check, finding.subject);
    paragraph(text, "", &head, width);
    fact(text, "seen", &finding.evidence, width);
    if !finding.cost.is_empty() {
        fact(text, "costs", &finding.cost, width);
    }
    if let Some(mend) = &finding.repair {
        writeln!(text, "  {:<NAME_COLUMNS$} {}", "mend", plain_command(mend))
            .expect("a string takes any text");
    }
}

fn fact(text: &mut String, name: &str, value: &str, width: usize) {
    let lines = wrap(&plain(value), width.saturating_sub(NAME_COLUMNS + 3));
    for (index, line) in lines.iter().enumerate() {
        let name = if index == 0 { name } else { "" };
        writeln!(text, "  {name:<NAME_COLUMNS$} {line}").expect("a string takes any text");
    }
}

fn paragraph(text: &mut String, indent: &str, line: &str, width: usize) {
    for part in wrap(&plain(line), width.saturating_sub(indent.len())) {
        writeln!(text, "{indent}{part}").expect("a string takes any text");
    }
}
