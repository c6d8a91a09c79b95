//! The health of SATA drives, of drives behind USB bridges, and of NVMe drives without nvme-cli, by
//! `smartctl --json`.
//!
//! Source: ACS-4, device statistics pages 1 and 7; attributes by name (`ata_attributes`);
//! smartctl(8). A drive that sleeps is not woken. Limits: the units of attributes are those of
//! smartctl's drive database, a guess for a drive that is not in it.

use std::time::Duration;

use flashfit_host::Program;
use serde_json::Value;

use crate::ata_attributes::{AtaAttributes, AttributeValue};
use crate::counter::{WearCounter, WearQuantity};
use crate::json_number::{counter, number};
use crate::nvme::{decode_health, no_program, node};
use crate::reading::{Answer, NoAnswer, SourceOutcome, SourceReport, WearSources};

const TIMEOUT: Duration = Duration::from_secs(60);
const DEFAULT_SECTOR_BYTES: u64 = 512;
/// Bits of the exit status after which there is nothing to decode: the command line is wrong, or
/// the device cannot be opened. The other bits are about the drive's health or about parts that
/// failed.
const FATAL_BITS: i32 = 0b11;
/// What smartctl is told to end with if the drive sleeps: both of these bits, which do not
/// otherwise come together.
const ASLEEP: i32 = FATAL_BITS;

pub(crate) fn read(sources: &WearSources<'_>, disk: &str) -> Answer {
    if !sources.is_root {
        return Err(NoAnswer::needs_root());
    }
    let mut program = Program::new("smartctl").timeout(TIMEOUT);
    let nocheck = format!("standby,{ASLEEP}");
    program = program.args(["--json", "-n", &nocheck, "-a", "-l", "devstat"]);
    if let Some(kind) = sources.smartctl_type {
        program = program.args(["-d", kind]);
    }
    let outcome =
        sources.runner.run(&program.arg(node(disk))).map_err(|error| no_program(&error))?;
    let code = outcome.code.ok_or_else(|| NoAnswer::failed("smartctl was killed"))?;
    decode(&outcome.stdout, code, sources.attributes)
}

/// Decodes the document that smartctl printed before it ended with `exit_code`.
pub(crate) fn decode(text: &str, exit_code: i32, attributes: &AtaAttributes) -> Answer {
    let document: Value = serde_json::from_slice(text.as_bytes())
        .map_err(|error| NoAnswer::failed(format!("smartctl prints no JSON: {error}")))?;
    let messages = messages(&document);
    if exit_code == ASLEEP {
        return Err(NoAnswer::new(SourceOutcome::Asleep, "the drive sleeps and was not woken"));
    }
    if exit_code & FATAL_BITS != 0 {
        let reason = messages.first().cloned().unwrap_or_else(|| format!("exit code {exit_code}"));
        return Err(NoAnswer::nothing(format!("smartctl says: {reason}")));
    }
    let mut report = match document.get("nvme_smart_health_information_log") {
        Some(log) => decode_health(log, "smartctl"),
        None => ata(&document, attributes),
    };
    add_verdict(&document, &mut report);
    if report.counters.is_empty() && report.facts.is_empty() {
        let reason = messages.first().cloned();
        let reason = reason.map_or_else(
            || "the drive reports no wear".to_owned(),
            |message| format!("smartctl says: {message}"),
        );
        return Err(NoAnswer::nothing(reason));
    }
    Ok(report)
}

fn messages(document: &Value) -> Vec<String> {
    let messages = document.pointer("/smartctl/messages").and_then(Value::as_array);
    let texts = messages.into_iter().flatten().filter_map(|message| message.get("string"));
    texts.filter_map(Value::as_str).map(|text| text.trim().to_owned()).collect()
}

/// The drive's judgment of itself, and whether its attributes are known.
fn add_verdict(document: &Value, report: &mut SourceReport) {
    if document.pointer("/smart_status/passed") == Some(&Value::Bool(false)) {
        report.add_fact("self-assessment", "FAILED", "smartctl, smart_status");
    }
    let has_attributes =
        report.counters.iter().any(|counter| counter.source.starts_with("smartctl, attribute"));
    if has_attributes && document.get("in_smartctl_database") == Some(&Value::Bool(false)) {
        let text = "the drive is not in smartctl's database, so the units of its attributes are a \
                    guess";
        report.add_fact("attributes", text, "smartctl, in_smartctl_database");
    }
}

fn ata(document: &Value, attributes: &AtaAttributes) -> SourceReport {
    let sector_bytes = document
        .get("logical_block_size")
        .and_then(Value::as_u64)
        .filter(|bytes| *bytes > 0)
        .unwrap_or(DEFAULT_SECTOR_BYTES);
    let mut counters = statistics(document, sector_bytes);
    let table = document.pointer("/ata_smart_attributes/table").and_then(Value::as_array);
    for entry in table.into_iter().flatten() {
        let Some(name) = entry.get("name").and_then(Value::as_str) else { continue };
        let value = AttributeValue {
            name,
            raw: entry.pointer("/raw/value").and_then(number),
            normalized: entry.get("value").and_then(Value::as_u64),
        };
        counters.extend(attributes.counter(value, sector_bytes));
    }
    let measured = |counters: &[WearCounter], quantity| {
        counters.iter().any(|counter| counter.measures == quantity)
    };
    // Newer versions of smartctl derive it from the sources above.
    let used = document.get("endurance_used").and_then(|used| counter(used, "current_percent"));
    if let Some(used) = used.filter(|_| !measured(&counters, WearQuantity::LifeUsed)) {
        counters.extend(percent_used("ata.endurance_used", used, "smartctl, endurance_used"));
    }
    let count = |place: &str, id, measures| {
        let raw = document.pointer(place).and_then(number)?;
        let source = format!("smartctl, {}", place.trim_start_matches('/').replace('/', "."));
        WearCounter::count(id, measures, raw, &source)
    };
    for (place, id, measures) in [
        ("/power_cycle_count", "ata.power_cycle_count", WearQuantity::PowerCycles),
        ("/power_on_time/hours", "ata.power_on_hours", WearQuantity::PowerOnHours),
    ] {
        if !measured(&counters, measures) {
            counters.extend(count(place, id, measures));
        }
    }
    SourceReport { counters, ..SourceReport::default() }
}

fn percent_used(id: &str, raw: u128, source: &str) -> Option<WearCounter> {
    let percent = u64::try_from(raw).ok().filter(|percent| *percent <= 255)?;
    Some(WearCounter::percent(id, WearQuantity::LifeUsed, (percent, 1, 255), source))
}

/// The device statistics: their pages and offsets are in the standard.
fn statistics(document: &Value, sector_bytes: u64) -> Vec<WearCounter> {
    let pages = document.pointer("/ata_device_statistics/pages").and_then(Value::as_array);
    let mut counters = Vec::new();
    for page in pages.into_iter().flatten() {
        let page_number = page.get("number").and_then(Value::as_u64);
        for entry in page.get("table").and_then(Value::as_array).into_iter().flatten() {
            if entry.pointer("/flags/valid") == Some(&Value::Bool(false)) {
                continue;
            }
            let offset = entry.get("offset").and_then(Value::as_u64);
            let Some(raw) = entry.get("value").and_then(number) else { continue };
            let (Some(page_number), Some(offset)) = (page_number, offset) else { continue };
            counters.extend(statistic(page_number, offset, raw, sector_bytes));
        }
    }
    counters
}

fn statistic(page: u64, offset: u64, raw: u128, sector_bytes: u64) -> Option<WearCounter> {
    let source = |name: &str| format!("smartctl, device statistics, {name}");
    let sectors =
        |id, measures, name| WearCounter::bytes(id, measures, raw, sector_bytes, &source(name));
    let count = |id, measures, name| WearCounter::count(id, measures, raw, &source(name));
    match (page, offset) {
        (1, 8) => count("devstat.power_cycles", WearQuantity::PowerCycles, "power-on resets"),
        (1, 16) => count("devstat.power_on_hours", WearQuantity::PowerOnHours, "power-on hours"),
        (1, 24) => sectors("devstat.written", WearQuantity::HostWritten, "sectors written"),
        (1, 40) => sectors("devstat.read", WearQuantity::HostRead, "sectors read"),
        (7, 8) => percent_used("devstat.life_used", raw, &source("percentage used")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str, exit_code: i32) -> Answer {
        decode(text, exit_code, &AtaAttributes::load(None).unwrap())
    }

    fn value(report: &SourceReport, id: &str) -> u64 {
        let counter = report.counters.iter().find(|counter| counter.id == id);
        counter.unwrap_or_else(|| panic!("no {id}: {report:#?}")).value
    }

    #[test]
    fn device_statistics_come_first() {
        let text = include_str!("../tests/data/constructed-sata-7.3.json");
        let report = answer(text, 4).unwrap();
        assert_eq!(report.counters[0].id, "devstat.power_cycles");
        assert_eq!(value(&report, "devstat.written"), 20_000_000_123 * 512);
        assert_eq!(value(&report, "devstat.life_used"), 3);
        assert_eq!(value(&report, "ata.total_lbas_written"), 20_000_000_000 * 512);
        assert_eq!(value(&report, "ata.wear_leveling_count"), 41);
        let ids: Vec<&str> = report.counters.iter().map(|counter| counter.id.as_str()).collect();
        assert!(!ids.contains(&"devstat.read"), "it is not valid");
        assert!(!ids.contains(&"ata.power_cycle_count"), "the statistics have it");
    }

    #[test]
    fn newer_versions_derive_the_life_themselves() {
        let report = answer(include_str!("../tests/data/constructed-sata-7.5.json"), 0).unwrap();
        assert_eq!(value(&report, "ata.endurance_used"), 12);
        assert_eq!(value(&report, "ata.host_writes_gib"), 900 << 30);
    }

    #[test]
    fn micron_counts_pages() {
        let report = answer(include_str!("../tests/data/constructed-micron.json"), 0).unwrap();
        assert_eq!(value(&report, "ata.host_program_page_count"), 50_000);
        assert_eq!(value(&report, "ata.percent_lifetime_remain"), 2);
    }

    #[test]
    fn units_of_an_unknown_drive_are_a_guess() {
        let text = include_str!("../tests/data/constructed-unknown-drive.json");
        let report = answer(text, 8).unwrap();
        let facts: Vec<&str> = report.facts.iter().map(|fact| fact.name.as_str()).collect();
        assert_eq!(facts, ["self-assessment", "attributes"]);
    }

    #[test]
    fn qemus_drive_has_power_counters_only() {
        let text = include_str!("../tests/data/recorded-qemu-ata-smartctl.json");
        let report = answer(text, 4).unwrap();
        let ids: Vec<&str> = report.counters.iter().map(|counter| counter.id.as_str()).collect();
        assert_eq!(ids, ["ata.power_cycle_count", "ata.power_on_hours"]);
    }

    #[test]
    fn the_exit_status_is_a_bit_mask() {
        let outcome = |text: &str, code| answer(text, code).unwrap_err().outcome;
        let unknown = r#"{"smartctl": {"messages": [{"string": "/dev/sdb: Unknown USB bridge"}]}}"#;
        assert_eq!(outcome(unknown, 1), SourceOutcome::ReportsNothing);
        assert!(answer(unknown, 2).unwrap_err().reason.contains("Unknown USB bridge"));
        assert_eq!(outcome("{}", ASLEEP), SourceOutcome::Asleep);
        assert_eq!(outcome("", 0), SourceOutcome::Failed);
        assert_eq!(outcome("{}", 64), SourceOutcome::ReportsNothing);
    }
}
