//! Findings of a check as text: the worst first, each with what it costs and how to repair it.

use std::fmt::Write;

use flashfit_device::Bytes;
use flashfit_filesystem::check::{CheckFinding, ExaminedDevice, Repair, Replan, Severity, verdict};
use flashfit_host::program::quote;
use flashfit_report::text::{plain, plain_command, wrap};
use serde::Serialize;

const NAME_COLUMNS: usize = 12;

/// A finding in JSON.
#[derive(Debug, Serialize)]
pub struct FindingDocument {
    check: &'static str,
    subject: String,
    severity: Severity,
    evidence: String,
    /// Empty if it costs nothing.
    cost: String,
    /// The command that repairs it.
    #[serde(rename = "mend")]
    repair: Option<String>,
}

impl FindingDocument {
    pub fn of(finding: &CheckFinding) -> Self {
        Self {
            check: finding.check,
            subject: finding.subject.clone(),
            severity: finding.severity,
            evidence: finding.evidence.clone(),
            cost: finding.cost.clone(),
            repair: finding.repair.as_ref().map(command),
        }
    }
}

/// The command line of a repair.
fn command(repair: &Repair) -> String {
    match repair {
        Repair::Command(command) => command.clone(),
        Repair::Replan(replan) => plan_command(replan),
        Repair::GiveEraseBlock { target } => {
            format!("flashfit check {} --erase-block 4MiB", quote(target))
        }
    }
}

fn plan_command(replan: &Replan) -> String {
    let filesystem = match replan.kind.as_deref() {
        Some("vfat") => " --fs fat32".to_owned(),
        Some(kind) => format!(" --fs {kind}"),
        None => String::new(),
    };
    let flag = |name, bytes: Option<u64>| {
        bytes.map_or_else(String::new, |bytes| format!(" --{name} {}", size_argument(bytes)))
    };
    let units = flag("erase-block", replan.erase_block_bytes)
        + &flag("write-unit", replan.write_unit_bytes);
    let loss = match replan.erased {
        1 => "erases it: save its files before".to_owned(),
        several => format!("erases all {several} partitions: save their files before"),
    };
    format!("flashfit plan {}{filesystem}{units}  # {loss}", quote(&replan.target))
}

fn size_argument(bytes: u64) -> String {
    match bytes {
        _ if bytes % (1 << 20) == 0 => format!("{}MiB", bytes >> 20),
        _ if bytes % (1 << 10) == 0 => format!("{}KiB", bytes >> 10),
        _ => bytes.to_string(),
    }
}

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
            (None, None) => "no known file system".to_owned(),
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
    if let Some(repair) = &finding.repair {
        writeln!(text, "  {:<NAME_COLUMNS$} {}", "repair", plain_command(&command(repair)))
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
