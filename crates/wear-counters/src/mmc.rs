//! The life time estimates and the health report of an eMMC chip.
//!
//! Source: JESD84-B51, EXT_CSD bytes 267 to 301, from debugfs, or without it the attributes
//! `life_time` and `pre_eol_info` of sysfs (Linux 4.11). Limits: the estimates have steps of 10 %,
//! too coarse for one workload; chips before eMMC 5.0 have none; the vendor's report is shown and
//! not decoded.

use flashfit_device::SystemRoots;
use flashfit_device::declared::ext_csd_text;
use flashfit_device::registers::ExtCsd;
use flashfit_device::registers::ext_csd::PreEol;

use crate::counter::{WearCounter, WearQuantity};
use crate::reading::{Answer, NoAnswer, SourceReport};

/// The estimates of both areas: tenths of the life, 1 for the first tenth, 11 for exceeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LifeTenths {
    pub a: Option<u8>,
    pub b: Option<u8>,
}

pub(crate) fn read(system: &SystemRoots, disk: &str) -> Answer {
    match ext_csd_text(system, disk) {
        Some(text) => from_register(&text),
        None => from_sysfs(system, disk),
    }
}

/// Decodes the text of the register.
fn from_register(text: &str) -> Answer {
    let register = ExtCsd::parse(text).map_err(|error| NoAnswer::failed(error.to_string()))?;
    let tenths = LifeTenths { a: register.life_used_a, b: register.life_used_b };
    let fields = ["EXT_CSD, DEVICE_LIFE_TIME_EST_TYP_A", "EXT_CSD, DEVICE_LIFE_TIME_EST_TYP_B"];
    let mut report = with_lives(tenths, fields);
    if let Some(pre_eol) = register.pre_eol {
        report.add_fact("spare blocks", pre_eol.text(), "EXT_CSD, PRE_EOL_INFO");
    }
    if let Some(bytes) = &register.vendor_health {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let source = "EXT_CSD, VENDOR_PROPRIETARY_HEALTH_REPORT";
        report.add_fact("vendor report", text, source);
    }
    if report.counters.is_empty() && report.facts.is_empty() {
        let reason = match register.revision {
            0..7 => format!("it is older than eMMC 5.0 (EXT_CSD revision {})", register.revision),
            _ => "its life time estimates are not defined".to_owned(),
        };
        return Err(NoAnswer::nothing(reason));
    }
    Ok(report)
}

fn from_sysfs(system: &SystemRoots, disk: &str) -> Answer {
    let folder = system.block(disk).join("device");
    let attribute = |name: &str| system.attribute(&folder.join(name));
    let tenths = life_tenths(&attribute("life_time").unwrap_or_default());
    let mut report = with_lives(tenths, ["sysfs, life_time, first", "sysfs, life_time, second"]);
    let pre_eol = attribute("pre_eol_info").and_then(|text| hexadecimal(&text));
    if let Some(pre_eol) = pre_eol.and_then(PreEol::from_code) {
        report.add_fact("spare blocks", pre_eol.text(), "sysfs, pre_eol_info");
    }
    if report.counters.is_empty() && report.facts.is_empty() {
        return Err(NoAnswer::nothing("life_time and pre_eol_info are absent or not defined"));
    }
    Ok(report)
}

fn with_lives(tenths: LifeTenths, sources: [&str; 2]) -> SourceReport {
    SourceReport { counters: life_counters(tenths, "emmc", sources), ..SourceReport::default() }
}

/// The counters of two life time estimates, as eMMC and UFS have them.
pub(crate) fn life_counters(
    tenths: LifeTenths,
    prefix: &str,
    sources: [&str; 2],
) -> Vec<WearCounter> {
    let counter = |name: &str, measures, tenths: Option<u8>, source: &str| {
        let percent = u64::from(tenths?.checked_sub(1)?) * 10;
        let id = format!("{prefix}.{name}");
        Some(WearCounter::percent(&id, measures, (percent, 10, 100), source))
    };
    [
        counter("life_used_a", WearQuantity::LifeUsedA, tenths.a, sources[0]),
        counter("life_used_b", WearQuantity::LifeUsedB, tenths.b, sources[1]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Decodes the attribute `life_time`: `0x01 0x02`.
pub fn life_tenths(text: &str) -> LifeTenths {
    let mut words = text.split_whitespace().map(life_tenth);
    LifeTenths { a: words.next().flatten(), b: words.next().flatten() }
}

/// Decodes one estimate; `None` for values that the standard does not define.
pub(crate) fn life_tenth(text: &str) -> Option<u8> {
    hexadecimal(text).filter(|tenths| (1..=11).contains(tenths))
}

fn hexadecimal(text: &str) -> Option<u8> {
    u8::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::SourceOutcome;

    fn register(bytes: &[(usize, u8)]) -> String {
        let mut register = [0u8; 512];
        bytes.iter().for_each(|(index, value)| register[*index] = *value);
        register.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_tenth_of_the_life_is_a_step_of_ten_percent() {
        let report =
            from_register(&register(&[(192, 8), (267, 1), (268, 1), (269, 11), (275, 0xab)]));
        let report = report.unwrap();
        let [a, b] = &report.counters[..] else { panic!("{report:?}") };
        assert_eq!((a.value, a.step, a.is_saturated), (0, 10, false));
        assert_eq!((b.value, b.step, b.is_saturated), (100, 10, true));
        assert_eq!(report.facts[0].text, "less than 80 % used");
        assert!(report.facts[1].text.contains("ab"), "{:?}", report.facts[1]);
    }

    #[test]
    fn an_old_chip_reports_nothing() {
        let answer = from_register(&register(&[(192, 6), (268, 1)])).unwrap_err();
        assert_eq!(answer.outcome, SourceOutcome::ReportsNothing);
        assert!(answer.reason.contains("older than eMMC 5.0"));
        let answer = from_register(&register(&[(192, 8)])).unwrap_err();
        assert!(answer.reason.contains("not defined"));
        assert_eq!(from_register("00").unwrap_err().outcome, SourceOutcome::Failed);
    }

    #[test]
    fn sysfs_has_both_estimates_in_one_line() {
        assert_eq!(life_tenths("0x02 0x0b"), LifeTenths { a: Some(2), b: Some(11) });
        assert_eq!(life_tenths("0x00 0xff"), LifeTenths::default());
        assert_eq!(life_tenths(""), LifeTenths::default());
    }
}
