//! A check as text: what the device is, how it is built, the findings with the worst first.

use std::fmt::Write;
use std::path::Path;

use flashfit_check::{DeviceCheck, QuickReading, SkippedReading};
use flashfit_device::Bytes;
use flashfit_filesystem::Improvement;
use flashfit_filesystem::check::{CheckFinding, Repair, Replan, Severity};
use flashfit_geometry::{GeometryFinding, QuantityValue};
use flashfit_host::program::{quote, quote_path};
use flashfit_report::text::{plain, plain_command, wrap};
use flashfit_wear_counters::{SourceAnswer, SourceOutcome};
use schemars::JsonSchema;
use serde::Serialize;

use super::check_next::NextCommands;
use super::wear_counters::value;

const NAME_COLUMNS: usize = 12;
/// A finding in JSON.
#[derive(Debug, JsonSchema, Serialize)]
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
    pub fn of(finding: &CheckFinding, checked: &DeviceCheck) -> Self {
        Self {
            check: finding.check,
            subject: finding.subject.clone(),
            severity: finding.severity,
            evidence: finding.evidence.clone(),
            cost: finding.cost.clone(),
            repair: finding.repair.as_ref().map(|repair| command(repair, checked)),
        }
    }
}

/// All findings in JSON.
pub fn findings(checked: &DeviceCheck) -> Vec<FindingDocument> {
    checked.findings.iter().map(|finding| FindingDocument::of(finding, checked)).collect()
}

/// The command line of a repair of this device.
pub fn command(repair: &Repair, checked: &DeviceCheck) -> String {
    match repair {
        Repair::Command(command) => command.clone(),
        Repair::Improvement(improvement) => improvement_command(improvement),
        Repair::Replan(replan) => plan_command(replan, checked),
    }
}

/// The command, and what else makes it outlast a restart.
fn improvement_command(improvement: &Improvement) -> String {
    let more = match improvement {
        Improvement::MountOptions { .. } => "  # and in /etc/fstab",
        _ => "",
    };
    format!("{}{more}", improvement.command_line())
}

fn plan_command(replan: &Replan, checked: &DeviceCheck) -> String {
    let filesystem = match replan.kind.as_deref() {
        Some("vfat") => " --fs fat32".to_owned(),
        Some(kind) => format!(" --fs {kind}"),
        None => String::new(),
    };
    let flag = |name, bytes: Option<u64>| {
        bytes.map_or_else(String::new, |bytes| format!(" --{name} {}", size_argument(bytes)))
    };
    let units = match &checked.geometry_file {
        Some(file) => geometry_argument(file),
        None => {
            flag("erase-block", replan.erase_block_bytes)
                + &flag("write-unit", replan.write_unit_bytes)
        }
    };
    let loss = match replan.erased {
        1 => "erases it: save its files before".to_owned(),
        several => format!("erases all {several} partitions: save their files before"),
    };
    format!("flashfit plan {}{filesystem}{units}  # {loss}", quote(&replan.target))
}

/// The argument of `plan` and `tune` for a geometry in a file.
pub fn geometry_argument(file: &Path) -> String {
    format!(" --geometry {}", quote_path(file))
}

pub fn size_argument(bytes: u64) -> String {
    match bytes {
        _ if bytes % (1 << 20) == 0 => format!("{}MiB", bytes >> 20),
        _ if bytes % (1 << 10) == 0 => format!("{}KiB", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// The whole check, for a terminal of `width` columns.
pub fn text(checked: &DeviceCheck, next: &NextCommands, width: usize) -> String {
    let mut text = String::new();
    device(&mut text, checked, width);
    structure(&mut text, checked, width);
    wear(&mut text, checked, width);
    for finding in &checked.findings {
        text.push('\n');
        one(&mut text, finding, checked, width);
    }
    genuine(&mut text, checked, width);
    section(&mut text, "To improve it without losing data:", &next.keeps_data);
    section(&mut text, "To improve it after you saved its files elsewhere:", &next.erases);
    if !next.commands.is_empty() {
        text.push_str("\nNext:\n");
    }
    for command in &next.commands {
        writeln!(text, "  {}", plain_command(&command.line)).expect("a string takes any text");
        paragraph(&mut text, "      ", &command.price, width);
    }
    text.push('\n');
    text.push_str(match checked.verdict {
        Severity::Bad => "Verdict: something is wrong.\n",
        Severity::Advice => "Verdict: nothing is wrong; it could be better.\n",
        Severity::CannotTell => "Verdict: cannot tell everything; nothing wrong was found.\n",
        Severity::Fine => "Verdict: fine.\n",
    });
    text
}

fn device(text: &mut String, checked: &DeviceCheck, width: usize) {
    let (device, size) = (&checked.device, Bytes(checked.examined.capacity_bytes));
    let name = match device.identity.summary().as_str() {
        "unnamed" => String::new(),
        name => format!(" {name},"),
    };
    let head =
        format!("{}: {},{name} {size} ({})", checked.examined.target, device.kind, size.si());
    paragraph(text, "", &head, width);
    for volume in &checked.examined.volumes {
        let what = match (&volume.facts, &volume.unreadable) {
            (Some(facts), _) => facts.kind.clone(),
            (None, Some(reason)) => reason.clone(),
            (None, None) => "no known file system".to_owned(),
        };
        let size = Bytes(volume.size_bytes);
        paragraph(text, "  ", &format!("{}: {size}, {what}", volume.name), width);
    }
    for doubt in &checked.doubts {
        fact(text, "doubtful", doubt, width);
    }
}

/// How it is built.
fn structure(text: &mut String, checked: &DeviceCheck, width: usize) {
    text.push_str("\nHow it is built\n");
    match &checked.reading {
        QuickReading::Made { reads, elapsed_ns, findings, .. } => {
            fact(text, "erase block", &found(&findings.erase_block), width);
            fact(text, "write unit", &found(&findings.write_unit), width);
            let tenths = elapsed_ns / 100_000_000;
            let how = format!("{reads} reads in {}.{} s", tenths / 10, tenths % 10);
            fact(text, "measured by", &how, width);
        }
        QuickReading::Skipped { reason } => fact(text, "unmeasured", &why(reason), width),
    }
}

/// How worn it is, by its own report.
fn wear(text: &mut String, checked: &DeviceCheck, width: usize) {
    let Some(reading) = &checked.wear else { return };
    text.push_str("\nHow worn it is\n");
    let counters = reading.counters.iter().filter(|counter| counter.measures.is_wear());
    for counter in counters {
        let line = format!("{}: {} ({})", counter.measures.text(), value(counter), counter.source);
        paragraph(text, "  ", &line, width);
    }
    let needs_root = |asked: &SourceAnswer| asked.outcome == SourceOutcome::NeedsRoot;
    if !reading.reports_wear() {
        let reason = match reading.unanswered().next() {
            _ if reading.asked.iter().any(needs_root) => "not known without root".to_owned(),
            Some(asked) => format!("not known: {}", super::wear_counters::unanswered(asked)),
            None => "not known: the device reports nothing about the wear of its flash".to_owned(),
        };
        paragraph(text, "  ", &reason, width);
    }
}

fn found(finding: &GeometryFinding) -> String {
    match (finding.value, finding.confidence) {
        (Some(QuantityValue::Bytes(bytes)), Some(confidence)) => {
            let percent = (confidence * 100.0).floor().min(99.0);
            format!("{}, at least {percent} % sure: {}", Bytes(bytes), finding.reason)
        }
        _ => format!("not found by reading: {}", finding.reason),
    }
}

fn why(reason: &SkippedReading) -> String {
    match reason {
        SkippedReading::IsFile => {
            "this is a file on another disk; only that disk has erase blocks".to_owned()
        }
        SkippedReading::IsComposed => {
            "this device is composed of parts of others; only those have erase blocks".to_owned()
        }
        SkippedReading::Given => "the erase block was given".to_owned(),
        SkippedReading::TooSmall => "the device is too small to measure".to_owned(),
        SkippedReading::CannotOpen { message } => format!("{message}; run it as root"),
        SkippedReading::Unreadable { message } | SkippedReading::Failed { message } => {
            message.clone()
        }
    }
}

fn genuine(text: &mut String, checked: &DeviceCheck, width: usize) {
    if checked.is_file {
        return;
    }
    text.push_str("\nIs it genuine?\n");
    let unknown = "Not known. A fake (counterfeit) card has less memory than it states, and loses \
                  what is written beyond that. Only writing shows it: the test of the capacity is \
                  part of the probe below, and erases the device.";
    let answer = match checked.capacity() {
        None => unknown.to_owned(),
        Some(tested) if checked.loses_data() => format!("No: {}.", tested.evidence),
        Some(tested) => format!("It has its capacity: {}.", tested.evidence),
    };
    paragraph(text, "  ", &answer, width);
}

fn section(text: &mut String, title: &str, commands: &[String]) {
    if commands.is_empty() {
        return;
    }
    writeln!(text, "\n{title}").expect("a string takes any text");
    for command in commands {
        writeln!(text, "  {}", plain_command(command)).expect("a string takes any text");
    }
}

fn one(text: &mut String, finding: &CheckFinding, checked: &DeviceCheck, width: usize) {
    let head = format!("{}: {}, {}", finding.severity.name(), finding.check, finding.subject);
    paragraph(text, "", &head, width);
    fact(text, "seen", &finding.evidence, width);
    if !finding.cost.is_empty() {
        fact(text, "costs", &finding.cost, width);
    }
    if let Some(repair) = &finding.repair {
        writeln!(
            text,
            "  {:<NAME_COLUMNS$} {}",
            "repair",
            plain_command(&command(repair, checked))
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_typed_as_they_are_read() {
        for bytes in [0, 512, 4096, 12 << 20, 3 << 30, 1_000_000] {
            let text = size_argument(bytes);
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
        }
        assert_eq!(size_argument(12 << 20), "12MiB");
    }
}
