//! The health log of an NVMe drive, its endurance group log and the OCP log, by `nvme -o json`.
//!
//! Source: NVM Express Base Specification 2.0, log pages 02h and 09h; OCP Datacenter NVMe SSD
//! Specification 2.0, log page C0h. Limits: only the first endurance group is read; a log page that
//! the drive does not list is asked for only on demand, because a drive counts a refused request as
//! an error.

use std::path::PathBuf;
use std::time::Duration;

use flashfit_host::{Program, ProgramError};
use flashfit_user_error::UserError;
use serde_json::Value;

use crate::counter::{WearCounter, WearQuantity};
use crate::json_number::counter;
use crate::reading::{Answer, NoAnswer, SourceOutcome, SourceReport, WearSources};

const TIMEOUT: Duration = Duration::from_secs(30);
/// A data unit of the health log: 1000 sectors of 512 bytes.
const DATA_UNIT_BYTES: u64 = 512_000;
/// A unit of the endurance group log.
const GROUP_UNIT_BYTES: u64 = 1_000_000_000;
/// Bit of CTRATT in the controller's identification: it has endurance groups.
const HAS_ENDURANCE_GROUPS: u128 = 1 << 4;
/// First version whose drives list their log pages.
const VERSION_WITH_LIST: u128 = 0x0002_0000;
const OCP_LOG: u64 = 0xc0;

/// Node of a whole disk.
pub(crate) fn node(disk: &str) -> String {
    PathBuf::from("/dev").join(disk).display().to_string()
}

/// Why a program gave nothing, in words.
pub(crate) fn no_program(error: &ProgramError) -> NoAnswer {
    let outcome = match error {
        ProgramError::Missing { .. } => SourceOutcome::ProgramMissing,
        _ => SourceOutcome::Failed,
    };
    let hint = error.hint().and_then(|hint| Some(format!(" ({})", hint.text()?)));
    NoAnswer::new(outcome, format!("{error}{}", hint.unwrap_or_default()))
}

fn ask(sources: &WearSources<'_>, arguments: &[&str]) -> Result<Value, NoAnswer> {
    let program = Program::new("nvme").args(arguments.iter().copied()).timeout(TIMEOUT);
    let program = program.args(["-o", "json"]);
    let outcome = sources.runner.run(&program).map_err(|error| no_program(&error))?;
    if !outcome.success() {
        let said = format!("{}\n{}", outcome.stderr, outcome.stdout);
        let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(NoAnswer::nothing(format!("nvme says: {}", line.trim())));
    }
    serde_json::from_slice(outcome.stdout.as_bytes())
        .map_err(|error| NoAnswer::failed(format!("nvme prints no JSON: {error}")))
}

/// The health log, which every drive has.
pub(crate) fn read_health(sources: &WearSources<'_>, disk: &str) -> Answer {
    if !sources.is_root {
        return Err(NoAnswer::needs_root());
    }
    let log = ask(sources, &["smart-log", &node(disk)])?;
    Ok(decode_health(&log, "nvme smart-log"))
}

/// The other logs, if the drive has them.
pub(crate) fn read_logs(sources: &WearSources<'_>, disk: &str) -> Vec<(&'static str, Answer)> {
    if !sources.is_root {
        return Vec::new();
    }
    let node = node(disk);
    let controller = ask(sources, &["id-ctrl", &node]);
    let field = |name: &str| controller.as_ref().ok().and_then(|object| counter(object, name));
    let group = if field("ctratt").unwrap_or(0) & HAS_ENDURANCE_GROUPS == 0 {
        Err(NoAnswer::nothing("the drive has no endurance groups"))
    } else {
        ask(sources, &["endurance-log", &node, "-g", "1"]).map(|log| decode_group(&log))
    };
    let lists_logs = field("ver").unwrap_or(0) >= VERSION_WITH_LIST;
    let listed = lists_logs.then(|| ask(sources, &["supported-log-pages", &node]));
    let is_listed = listed.and_then(Result::ok).is_some_and(|list| lists(&list, OCP_LOG));
    let ocp = if is_listed || sources.unlisted_logs {
        ask(sources, &["ocp", "smart-add-log", &node]).map(|log| decode_ocp(&log))
    } else {
        let reason = "the drive does not list log page C0h";
        Err(NoAnswer::new(SourceOutcome::NotAsked, reason))
    };
    vec![("nvme endurance-log", group), ("nvme ocp smart-add-log", ocp)]
}

/// Whether a list of log pages has that page.
fn lists(list: &Value, page: u64) -> bool {
    let entries = list.as_array().into_iter().flatten();
    let nested = list.as_object().into_iter().flat_map(serde_json::Map::values);
    let nested = nested.filter_map(Value::as_array).flatten();
    entries.chain(nested).any(|entry| {
        ["lid", "Lid", "LID"].iter().any(|key| match entry.get(key) {
            Some(Value::Number(number)) => number.as_u64() == Some(page),
            Some(Value::String(text)) => {
                let digits = text.trim_start_matches("0x");
                u64::from_str_radix(digits, 16).ok() == Some(page)
            }
            _ => false,
        })
    })
}

/// Decodes the health log as nvme-cli or, under other names, smartctl prints it.
pub(crate) fn decode_health(log: &Value, program: &str) -> SourceReport {
    let first = |names: &[&str]| names.iter().find_map(|name| counter(log, name));
    let source = |field: &str| format!("{program}, {field}");
    let units = |id: &str, measures, field: &str| {
        WearCounter::bytes(id, measures, counter(log, field)?, DATA_UNIT_BYTES, &source(field))
    };
    let percent = |id: &str, measures, value: u128, field: &str| {
        let value = u64::try_from(value).ok().filter(|value| *value <= 255)?;
        Some(WearCounter::percent(id, measures, (value, 1, 255), &source(field)))
    };
    let count = |id: &str, measures, field: &str| {
        WearCounter::count(id, measures, counter(log, field)?, &source(field))
    };
    let threshold = first(&["spare_thresh", "available_spare_threshold"]);
    // A drive that reports neither has both at 0.
    let left = first(&["avail_spare", "available_spare"])
        .filter(|left| *left > 0 || threshold.is_some_and(|threshold| threshold > 0));
    let spare = left.and_then(|left| 100u128.checked_sub(left));
    let used = first(&["percent_used", "percentage_used"]);
    let mut report = SourceReport::default();
    report.counters.extend(
        [
            units("nvme.host_written", WearQuantity::HostWritten, "data_units_written"),
            units("nvme.host_read", WearQuantity::HostRead, "data_units_read"),
            used.and_then(|used| {
                percent("nvme.life_used", WearQuantity::LifeUsed, used, "percentage used")
            }),
            spare.and_then(|spare| {
                percent("nvme.spares_used", WearQuantity::SparesUsed, spare, "available spare")
            }),
            count("nvme.power_cycles", WearQuantity::PowerCycles, "power_cycles"),
            count("nvme.power_losses", WearQuantity::PowerLosses, "unsafe_shutdowns"),
            count("nvme.power_on_hours", WearQuantity::PowerOnHours, "power_on_hours"),
        ]
        .into_iter()
        .flatten(),
    );
    if let Some(warning) = counter(log, "critical_warning").filter(|bits| *bits != 0) {
        let text = format!("0x{warning:02x}: {}", warnings(warning));
        report.add_fact("critical warning", text, &source("critical_warning"));
    }
    report
}

/// The bits of the critical warning, in words.
fn warnings(bits: u128) -> String {
    let names = [
        "the spares are below their threshold",
        "the temperature is outside its limits",
        "the reliability is degraded",
        "the drive is read-only",
        "the backup of the volatile memory failed",
        "the persistent memory is read-only",
    ];
    let set = names.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

/// Decodes the endurance group log of nvme-cli.
pub(crate) fn decode_group(log: &Value) -> SourceReport {
    let source = |field: &str| format!("nvme endurance-log, {field}");
    let units = |id: &str, measures, field: &str| {
        WearCounter::bytes(id, measures, counter(log, field)?, GROUP_UNIT_BYTES, &source(field))
    };
    let counters = [
        units("nvme.group_flash_written", WearQuantity::FlashWritten, "media_units_written"),
        units("nvme.group_host_written", WearQuantity::HostWritten, "data_units_written"),
    ];
    let counters = counters.into_iter().flatten().collect();
    SourceReport { counters, ..SourceReport::default() }
}

/// Decodes the OCP log of nvme-cli, whose counter is in bytes.
pub(crate) fn decode_ocp(log: &Value) -> SourceReport {
    let names = ["Physical media units written", "physical_media_units_written"];
    let raw = names.iter().find_map(|name| counter(log, name));
    let source = "nvme ocp smart-add-log, physical media units written";
    let written = raw.and_then(|raw| {
        WearCounter::bytes("nvme.ocp_flash_written", WearQuantity::FlashWritten, raw, 1, source)
    });
    SourceReport { counters: written.into_iter().collect(), ..SourceReport::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::counter::CounterUnit;

    fn value(report: &SourceReport, id: &str) -> u64 {
        report.counters.iter().find(|counter| counter.id == id).unwrap().value
    }

    fn log(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn nvme_cli_writes_counters_as_strings() {
        let text = include_str!("../tests/data/recorded-qemu-nvme-smart-log.json");
        let report = decode_health(&log(text), "nvme");
        assert_eq!(value(&report, "nvme.host_written"), 103 * 512_000);
        assert_eq!(value(&report, "nvme.life_used"), 0);
        let has_spares = report.counters.iter().any(|one| one.id == "nvme.spares_used");
        assert!(!has_spares, "QEMU reports neither spares nor their threshold");
    }

    #[test]
    fn smartctl_uses_other_names_for_the_same_log() {
        let text = include_str!("../tests/data/recorded-qemu-nvme-smartctl.json");
        let document = log(text);
        let report = decode_health(&document["nvme_smart_health_information_log"], "smartctl");
        assert_eq!(value(&report, "nvme.host_written"), 103 * 512_000);
        assert_eq!(value(&report, "nvme.life_used"), 0);
    }

    #[test]
    fn a_worn_drive_says_so() {
        let text = include_str!("../tests/data/constructed-nvme-numbers.json");
        let report = decode_health(&log(text), "nvme");
        let used = report.counters.iter().find(|one| one.id == "nvme.life_used").unwrap();
        assert_eq!((used.value, used.unit, used.is_saturated), (255, CounterUnit::Percent, true));
        assert_eq!(value(&report, "nvme.spares_used"), 2);
        let warning = &report.facts[0].text;
        assert!(warning.contains("spares") && warning.contains("reliability"), "{warning}");
    }

    #[test]
    fn an_endurance_group_counts_in_thousand_millions() {
        let text = include_str!("../tests/data/constructed-nvme-endurance.json");
        let report = decode_group(&log(text));
        assert_eq!(value(&report, "nvme.group_flash_written"), 910_000_000_000);
        assert_eq!(report.counters[0].step, 1_000_000_000);
        assert_eq!(value(&report, "nvme.group_host_written"), 700_000_000_000);
    }

    #[test]
    fn the_ocp_log_counts_bytes() {
        let text = include_str!("../tests/data/constructed-nvme-ocp.json");
        assert_eq!(value(&decode_ocp(&log(text)), "nvme.ocp_flash_written"), 910_123_456_789);
        assert!(decode_ocp(&json!({})).counters.is_empty());
    }

    #[test]
    fn a_log_page_is_found_in_a_list() {
        assert!(lists(&json!([{"lid": 2}, {"lid": 192}]), OCP_LOG));
        assert!(lists(&json!({"supported_logs": [{"lid": "0xc0"}]}), OCP_LOG));
        assert!(!lists(&json!([{"lid": 2}]), OCP_LOG));
        assert!(!lists(&json!("0xc0"), OCP_LOG));
    }
}
