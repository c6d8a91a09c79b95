//! Counters of the device itself around a workload: NVMe and SMART logs, and the eMMC register.
//!
//! Limits: only drives and chips that answer health commands at once are asked, so not USB bridges
//! and SD cards; the attributes of ATA drives are those of the built-in catalog; a counter with
//! coarse steps usually counts nothing in one trial.

use flashfit_device::{Device, DeviceKind, SystemRoots};
use flashfit_host::Runner;
use flashfit_wear_counters::difference::differences;
use flashfit_wear_counters::{
    AtaAttributes, CountSpan, CounterDifference, WearReading, WearSources,
};

use crate::TrialReport;

/// The counters of a device at one time; `None` for a device that is not asked.
pub(crate) fn read(device: &Device, runner: &dyn Runner) -> Option<WearReading> {
    if !matches!(device.kind, DeviceKind::Nvme | DeviceKind::Ssd | DeviceKind::Emmc) {
        return None;
    }
    let system = SystemRoots::default();
    let attributes = AtaAttributes::load(None).ok()?;
    let sources = WearSources {
        system: &system,
        runner,
        attributes: &attributes,
        is_root: rustix::process::geteuid().is_root(),
        smartctl_type: None,
        unlisted_logs: false,
    };
    let mut reading = sources.read(device);
    // What the kernel counts is recorded as bytes written.
    reading.counters.retain(|counter| counter.since == CountSpan::Made);
    Some(reading)
}

/// Records what the counters counted. A trial does not fail by its counters.
pub(crate) fn record(
    before: Option<WearReading>,
    after: Option<WearReading>,
    report: &mut TrialReport,
) {
    let (Some(before), Some(after)) = (before, after) else { return };
    match differences(&before, &after) {
        Ok(all) => report.wear = all.into_iter().filter(CounterDifference::is_moving).collect(),
        Err(error) => report.notes.push(format!("wear counters: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use flashfit_wear_counters::WearQuantity;
    use serde_json::json;

    use super::*;

    fn reading(written: u64, hours: u64) -> WearReading {
        let counter = |id: &str, measures: &str, value: u64| {
            json!({
                "id": id, "measures": measures, "value": value, "unit": "bytes", "step": 1,
                "since": "made", "source": "test", "is_saturated": false, "is_simulated": false,
            })
        };
        let value = json!({
            "device": "/dev/nvme0n1", "kind": "nvme", "facts": [], "asked": [],
            "counters": [
                counter("nvme.host_written", "host_written", written),
                counter("nvme.power_on_hours", "power_on_hours", hours),
                counter("nvme.host_read", "host_read", 5),
            ],
        });
        serde_json::from_value(value).expect("a reading")
    }

    #[test]
    fn what_moved_is_recorded() {
        let mut report = TrialReport::default();
        record(Some(reading(100, 1)), Some(reading(350, 2)), &mut report);
        let [written] = &report.wear[..] else { panic!("{:?}", report.wear) };
        assert_eq!((written.measures, written.counted), (WearQuantity::HostWritten, 250));
    }

    #[test]
    fn a_counter_that_runs_backwards_is_a_note() {
        let mut report = TrialReport::default();
        record(Some(reading(100, 1)), Some(reading(50, 1)), &mut report);
        assert!(report.wear.is_empty());
        assert!(report.notes[0].contains("ran backwards"), "{:?}", report.notes);
        record(None, Some(reading(50, 1)), &mut report);
        assert_eq!(report.notes.len(), 1);
    }
}
