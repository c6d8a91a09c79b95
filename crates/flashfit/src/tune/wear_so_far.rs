//! What the trials of a run have cost the device so far: erases, and their share of its life.
//!
//! A simulated card counts its erases. Of other devices, only the bytes that were written are known
//! in time, and how many are programmed for them is a range. Trials count when they end. With
//! several devices, it is the mean over them.

use flashfit_check::{WearPrice, rated_erases};
use flashfit_target::{InspectedTarget, TargetSource};
use flashfit_tune::TrialRecord;
use flashfit_wear::device_life::{ASSUMED_AMPLIFICATION, erases_of_each_block};
use schemars::JsonSchema;
use serde::Serialize;

/// Erases of each erase block on average, with their share of the device's life.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct WearSoFar {
    #[serde(flatten)]
    wear: WearPrice,
    /// Whether all of it was counted by the device, and not estimated from what was written.
    is_counted: bool,
}

/// Adds up the wear of trials.
#[derive(Debug, Clone, Default)]
pub struct WearMeter {
    /// Of all devices of the run.
    capacity_bytes: u64,
    /// `None` for a file, which has no erase blocks.
    rated: Option<(u64, bool)>,
    erase_block_bytes: u64,
    /// What trials wrote that were counted, and what was erased.
    counted_bytes: u64,
    erased_bytes: u64,
}

impl WearMeter {
    /// A device of the run.
    pub fn add_device(&mut self, target: &InspectedTarget) {
        self.capacity_bytes = self.capacity_bytes.saturating_add(target.capacity().0);
        self.rated = rated_erases(target);
        if let TargetSource::Card(model) = &target.source {
            self.erase_block_bytes = model.erase_block_bytes();
        }
    }

    /// A trial that has ended.
    pub fn add_trial(&mut self, trial: &TrialRecord) {
        let Some(counters) = trial.counters.as_ref().filter(|_| self.erase_block_bytes > 0) else {
            return;
        };
        let written = trial.written.map_or(counters.host_written_bytes, |found| found.trial_bytes);
        self.counted_bytes = self.counted_bytes.saturating_add(written);
        let erased = counters.erases.saturating_mul(self.erase_block_bytes);
        self.erased_bytes = self.erased_bytes.saturating_add(erased);
    }

    /// After so much was written in all; `None` before, and for a file.
    pub fn wear(&self, written_bytes: u64) -> Option<WearSoFar> {
        let rated = self.rated.filter(|_| self.capacity_bytes > 0 && written_bytes > 0)?;
        let other = written_bytes.saturating_sub(self.counted_bytes);
        let most = other.saturating_mul(ASSUMED_AMPLIFICATION);
        let erases = [other, most].map(|programmed| {
            let bytes = self.erased_bytes.saturating_add(programmed);
            erases_of_each_block(bytes, self.capacity_bytes)
        });
        Some(WearSoFar { wear: WearPrice::of(erases, rated), is_counted: other == 0 })
    }
}

impl WearSoFar {
    /// `0.10 to 0.40 % of its life`.
    pub fn text(&self) -> String {
        let percent = self.wear.life_percent_thousandths.map(|thousandths| {
            let percent = thousandths as f64 / 1000.0;
            if percent < 0.1 { format!("{percent:.3}") } else { format!("{percent:.2}") }
        });
        match percent {
            [least, most] if least == most => format!("{most} % of its life"),
            [least, most] => format!("{least} to {most} % of its life"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wear_is_counted_or_a_range_of_what_was_written() {
        let target = InspectedTarget::card("sd-c4-block", None).unwrap();
        let mut meter = WearMeter::default();
        assert_eq!(meter.wear(1 << 30), None);
        meter.add_device(&target);
        assert_eq!(meter.wear(0), None);
        let capacity = target.capacity().0;
        // Estimated: a capacity of writes is 1 to 4 erases.
        let wear = meter.wear(capacity).unwrap();
        assert_eq!((wear.wear.erases_thousandths, wear.is_counted), ([1000, 4000], false));
        assert!(wear.text().contains(" to "), "{}", wear.text());
        // Counted: two erases of all blocks, although only half a capacity was written.
        meter.counted_bytes = capacity / 2;
        meter.erased_bytes = capacity * 2;
        let wear = meter.wear(capacity / 2).unwrap();
        assert_eq!((wear.wear.erases_thousandths, wear.is_counted), ([2000, 2000], true));
        assert!(!wear.text().contains(" to "), "{}", wear.text());
        // Trials of before a resumption are estimated.
        let wear = meter.wear(capacity * 3 / 2).unwrap();
        assert_eq!((wear.wear.erases_thousandths, wear.is_counted), ([3000, 6000], false));
    }
}
