//! The result of a measurement: what each counter counted in a run, and the write amplification.
//!
//! The drive's own count of what the host wrote is held against the kernel's. If they differ by
//! more than a factor of two, the drive's unit is not what its name says, and none of its counters
//! of bytes is used.

use std::path::PathBuf;

use flashfit_device::{Bytes, DeviceKind, MeasuredDevice};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::counter::{CounterUnit, WearCounter, WearQuantity};
use crate::difference::CounterDifference;
use crate::interval::{CountInterval, as_f64, mean, ratio};
use crate::kernel::KERNEL_WRITTEN;
use crate::measure::{FEWEST_RUNS, MeasureBudget, RunDifferences};
use crate::needed_volume::{NeededVolume, VolumeBasis};
use crate::reading::{SourceAnswer, WearReading};

/// Largest factor between the drive's count and the kernel's.
const MOST_DISAGREEMENT: f64 = 2.0;
/// Steps below which a count cannot be held against another.
const COMPARABLE_STEPS: u64 = 4;

/// What the counters counted, run by run.
#[derive(Debug, Default)]
pub(crate) struct WearRuns(Vec<RunDifferences>);

impl WearRuns {
    pub(crate) fn add(&mut self, differences: RunDifferences) {
        self.0.push(differences);
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// What a counter counted in all runs.
    pub(crate) fn total(&self, id: &str) -> u64 {
        self.of(id).map(|one| one.counted).fold(0, u64::saturating_add)
    }

    /// Half the interval of what a counter counts in a run, as a share of it; `None` if it counted
    /// nothing, or for one run.
    pub(crate) fn relative_error(&self, counter: &WearCounter) -> Option<f64> {
        relative_error(&mean(&self.counts(&counter.id), counter.step)?)
    }

    fn of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a CounterDifference> {
        self.0.iter().flatten().filter(move |one| one.id == id)
    }

    fn counts(&self, id: &str) -> Vec<u64> {
        self.of(id).map(|one| one.counted).collect()
    }
}

fn relative_error(interval: &CountInterval) -> Option<f64> {
    let half = interval.high? - interval.middle;
    (interval.middle > 0.0).then(|| half / interval.middle)
}

/// Why a measurement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasurementEnd {
    Resolved,
    /// No more runs were allowed before enough steps and three runs.
    Runs,
    /// The steps are enough, but the runs differ by more than the error, and no more were allowed.
    Spread,
    /// Another run could write more than allowed.
    Volume,
    /// The runs that were left could not resolve the counter.
    Hopeless,
}

/// What a counter counted.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct MeasuredCounter {
    pub id: String,
    pub measures: WearQuantity,
    pub unit: CounterUnit,
    pub step: u64,
    pub source: String,
    pub is_simulated: bool,
    /// In all runs, in `unit`.
    pub total: u64,
    /// In one run, in `unit`, with a 95 % interval.
    pub per_run: CountInterval,
    /// Whether it counted enough steps in at least three runs, and its interval is as narrow as
    /// wanted.
    pub is_resolved: bool,
    /// Why it should not be believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_believed: Option<String>,
}

/// What a command costs a device.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WearMeasurement {
    pub device: PathBuf,
    pub kind: DeviceKind,
    pub runs: u32,
    pub counters: Vec<MeasuredCounter>,
    /// Bytes written to the flash for each byte that the host wrote, with a 95 % interval.
    pub write_amplification: Option<CountInterval>,
    /// The counter that was to be resolved.
    pub goal: String,
    pub steps_wanted: u64,
    pub steps_counted: u64,
    pub end: MeasurementEnd,
    /// What the goal takes in all.
    pub needed: NeededVolume,
    /// Whether a simulated card counted.
    pub is_simulated: bool,
    /// Whether the device reports any wear.
    pub reports_wear: bool,
    /// Sources that may count wear, but were not asked or did not answer; absent if there are none,
    /// and in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unanswered: Vec<SourceAnswer>,
    pub notes: Vec<String>,
    /// The command that was measured, in words; absent in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The device, so that it is recognized; absent in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_device: Option<MeasuredDevice>,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_unix_s: Option<u64>,
}

impl WearMeasurement {
    pub(crate) fn new(
        first: &WearReading,
        runs: &WearRuns,
        goal: &WearCounter,
        budget: &MeasureBudget,
        needed: NeededVolume,
        end: MeasurementEnd,
    ) -> Self {
        let steps_wanted = budget.steps();
        let mut notes = Vec::new();
        let disbelief = disbelieved_family(first, runs);
        notes.extend(disbelief.iter().map(|(_, reason)| reason.clone()));
        let counters: Vec<MeasuredCounter> = first
            .counters
            .iter()
            .filter_map(|counter| measured(counter, runs, budget, disbelief.as_ref()))
            .collect();
        for wrapped in runs.0.iter().flatten().filter_map(wrap_note) {
            notes.push(wrapped);
        }
        let write_amplification = amplification(&counters, runs);
        if write_amplification.is_none() {
            notes.extend(counters.iter().filter_map(unmoved));
        }
        notes.extend(none_moved(&counters));
        notes.extend(excess(runs, budget));
        let steps_counted = runs.total(&goal.id) / goal.step;
        Self {
            device: first.device.clone(),
            kind: first.kind,
            runs: runs.count(),
            write_amplification,
            goal: goal.id.clone(),
            steps_wanted,
            steps_counted,
            end,
            needed: updated(needed, runs, steps_counted, steps_wanted),
            is_simulated: counters.iter().any(|counter| counter.is_simulated),
            reports_wear: first.reports_wear(),
            unanswered: first.unanswered().cloned().collect(),
            counters,
            notes,
            command: Vec::new(),
            measured_device: first.measured_device.clone(),
            created_unix_s: None,
        }
    }
}

/// The volume that the goal takes, by this measurement if the goal moved.
fn updated(needed: NeededVolume, runs: &WearRuns, counted: u64, wanted: u64) -> NeededVolume {
    let written = u128::from(runs.total(KERNEL_WRITTEN)) * u128::from(wanted);
    match written.checked_div(u128::from(counted)).and_then(|bytes| u64::try_from(bytes).ok()) {
        Some(bytes) => NeededVolume { bytes, basis: VolumeBasis::Measured },
        None => needed,
    }
}

/// That only the host's counters moved, if the device has others.
fn none_moved(counters: &[MeasuredCounter]) -> Option<String> {
    let wear: Vec<&MeasuredCounter> =
        counters.iter().filter(|counter| counter.measures.is_wear()).collect();
    (!wear.is_empty() && wear.iter().all(|counter| counter.total == 0)).then(|| {
        let names: Vec<String> = wear.iter().map(|counter| format!("`{}`", counter.id)).collect();
        format!(
            "none of the device's own counters of wear moved ({}): this is what the host wrote, not \
             the wear",
            names.join(", ")
        )
    })
}

/// That more was written than allowed: what a run writes is known after it.
fn excess(runs: &WearRuns, budget: &MeasureBudget) -> Option<String> {
    let written = Bytes(runs.total(KERNEL_WRITTEN));
    (written > budget.max_written).then(|| {
        format!(
            "{} were written, more than the {} that were allowed: a run is not cut short",
            written.si(),
            budget.max_written.si()
        )
    })
}

/// That a counter of what went to the flash moved too little for a ratio.
fn unmoved(counter: &MeasuredCounter) -> Option<String> {
    let is_of_flash = matches!(
        counter.measures,
        WearQuantity::FlashWritten
            | WearQuantity::FlashWrittenForHost
            | WearQuantity::FlashWrittenByController
    );
    let step = match counter.unit {
        CounterUnit::Bytes => Bytes(counter.step).to_string(),
        _ => counter.step.to_string(),
    };
    (is_of_flash && counter.not_believed.is_none() && counter.total <= counter.step).then(|| {
        format!(
            "`{}` counts in steps of {step} and moved by one at most, so the write amplification is \
             not known: more must be written",
            counter.id
        )
    })
}

fn wrap_note(difference: &CounterDifference) -> Option<String> {
    let bits = difference.wrapped_bits?;
    Some(format!("`{}` passed the end of its {bits} bits and began again at 0", difference.id))
}

fn measured(
    counter: &WearCounter,
    runs: &WearRuns,
    budget: &MeasureBudget,
    disbelief: Option<&(String, String)>,
) -> Option<MeasuredCounter> {
    let counts = runs.counts(&counter.id);
    // A file system that was unmounted in between has lost its counter.
    let is_complete = counts.len() == runs.0.len();
    let per_run =
        mean(&counts, counter.step).filter(|_| is_complete && !counter.measures.is_of_power())?;
    let total = runs.total(&counter.id);
    let is_saturated = runs.of(&counter.id).any(|one| one.is_saturated);
    let reason = disbelief
        .filter(|(prefix, _)| family(&counter.id) == prefix && counter.unit == CounterUnit::Bytes)
        .map(|(_, reason)| reason.clone());
    let saturated =
        is_saturated.then(|| "it is at its largest value and counts no more".to_owned());
    let not_believed = reason.or(saturated);
    let is_exact = relative_error(&per_run).is_some_and(|error| error <= budget.error());
    let has_enough = total / counter.step >= budget.steps() && runs.count() >= FEWEST_RUNS;
    Some(MeasuredCounter {
        id: counter.id.clone(),
        measures: counter.measures,
        unit: counter.unit,
        step: counter.step,
        source: counter.source.clone(),
        is_simulated: counter.is_simulated,
        total,
        per_run,
        is_resolved: not_believed.is_none() && has_enough && is_exact,
        not_believed,
    })
}

/// The counters that come from one log of a drive.
fn family(id: &str) -> &str {
    id.split_once('.').map_or(id, |(family, _)| family)
}

/// The counters of a drive whose count of what the host wrote contradicts the kernel's, and why.
fn disbelieved_family(first: &WearReading, runs: &WearRuns) -> Option<(String, String)> {
    let kernel = runs.total(KERNEL_WRITTEN);
    let claims = first
        .counters
        .iter()
        .filter(|one| one.measures == WearQuantity::HostWritten && one.id != KERNEL_WRITTEN);
    claims.into_iter().find_map(|claim| {
        let counted = runs.total(&claim.id);
        let slack = COMPARABLE_STEPS.saturating_mul(claim.step);
        let is_less = as_f64(counted.saturating_add(slack)) * MOST_DISAGREEMENT < as_f64(kernel);
        let is_more = as_f64(counted) > (as_f64(kernel) + as_f64(slack)) * MOST_DISAGREEMENT;
        let factor = as_f64(counted) / as_f64(kernel.max(1));
        (is_less || is_more).then(|| {
            let reason = format!(
                "`{}` counted {factor:.3} times what the kernel wrote: its unit is not what its \
                 name says, or something else wrote to the drive",
                claim.id
            );
            (family(&claim.id).to_owned(), reason)
        })
    })
}

/// Bytes or pages written to the flash for each one of the host.
fn amplification(counters: &[MeasuredCounter], runs: &WearRuns) -> Option<CountInterval> {
    let usable = |measures| {
        counters
            .iter()
            .filter(move |one| one.measures == measures && one.not_believed.is_none())
            .min_by_key(|one| one.step)
    };
    if let Some(flash) = usable(WearQuantity::FlashWritten) {
        // The same log counts what belongs together.
        let own = counters.iter().find(|one| {
            one.measures == WearQuantity::HostWritten
                && one.not_believed.is_none()
                && family(&one.id) == family(&flash.id)
                && one.step <= flash.step
        });
        let kernel = counters.iter().find(|one| one.id == KERNEL_WRITTEN);
        let host = own.or(kernel)?;
        return ratio((&runs.counts(&flash.id), flash.step), (&runs.counts(&host.id), host.step));
    }
    let host = usable(WearQuantity::FlashWrittenForHost)?;
    let controller = usable(WearQuantity::FlashWrittenByController)?;
    let (host_pages, more) = (runs.counts(&host.id), runs.counts(&controller.id));
    let all: Vec<u64> =
        host_pages.iter().zip(&more).map(|(host, more)| host.saturating_add(*more)).collect();
    ratio((&all, host.step + controller.step), (&host_pages, host.step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::differences;
    use crate::difference::tests::reading;
    use crate::reading::SourceOutcome;

    /// A measurement of three runs that each add these amounts to the counters.
    fn measurement(counters: &[(&str, WearQuantity, u64, u64)]) -> WearMeasurement {
        let at = |run: u64| {
            let counters: Vec<_> = counters
                .iter()
                .map(|(id, measures, added, step)| (*id, *measures, added * run, *step))
                .collect();
            reading(&counters)
        };
        let mut runs = WearRuns::default();
        for run in 0..3 {
            runs.add(differences(&at(run), &at(run + 1)).unwrap());
        }
        let first = at(0);
        let goal = first.counters[0].clone();
        let needed = NeededVolume { bytes: 1, basis: VolumeBasis::Unit };
        let budget = MeasureBudget { max_written: Bytes(u64::MAX), max_runs: 3, error_percent: 10 };
        WearMeasurement::new(&first, &runs, &goal, &budget, needed, MeasurementEnd::Resolved)
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_amplification_uses_the_counters_of_one_log() {
        let found = measurement(&[
            (KERNEL_WRITTEN, WearQuantity::HostWritten, 100 * MIB, 512),
            ("x.host", WearQuantity::HostWritten, 110 * MIB, 512),
            ("x.flash", WearQuantity::FlashWritten, 220 * MIB, 512),
        ]);
        assert!((found.write_amplification.unwrap().middle - 2.0).abs() < 1e-6);
        assert!(found.notes.is_empty(), "{:?}", found.notes);
    }

    #[test]
    fn a_counter_that_hardly_moved_gives_no_amplification() {
        for steps in [0, 1] {
            let mut counters = vec![(KERNEL_WRITTEN, WearQuantity::HostWritten, 100 * MIB, 512)];
            counters.push(("x.flash", WearQuantity::FlashWritten, 0, 1 << 30));
            counters.push(("y.flash", WearQuantity::FlashWritten, steps * 100, 1000));
            let found = measurement(&counters);
            assert_eq!(found.write_amplification, None, "{steps}");
            assert!(found.notes[0].contains("more must be written"), "{:?}", found.notes);
        }
    }

    #[test]
    fn wear_that_stood_still_is_a_note() {
        let found = |life: u64| {
            measurement(&[
                (KERNEL_WRITTEN, WearQuantity::HostWritten, 100 * MIB, 512),
                ("mmc.life_used_a", WearQuantity::LifeUsed, life, 10),
            ])
        };
        let notes = found(0).notes;
        assert!(notes[0].contains("moved (`mmc.life_used_a`)"), "{notes:?}");
        assert!(found(10).notes.is_empty(), "{:?}", found(10).notes);
    }

    #[test]
    fn more_than_was_allowed_is_a_note() {
        let mut runs = WearRuns::default();
        let at = |run: u64| reading(&[(KERNEL_WRITTEN, WearQuantity::HostWritten, run * MIB, 512)]);
        runs.add(differences(&at(0), &at(20)).unwrap());
        let notes = |allowed: u64| {
            let budget =
                MeasureBudget { max_written: Bytes(allowed), max_runs: 3, error_percent: 10 };
            let needed = NeededVolume { bytes: 1, basis: VolumeBasis::Unit };
            let goal = at(0).counters.remove(0);
            let end = MeasurementEnd::Volume;
            WearMeasurement::new(&at(0), &runs, &goal, &budget, needed, end).notes
        };
        assert!(notes(20 * MIB).is_empty());
        assert!(notes(MIB)[0].starts_with("21.0 MB were written, more than the 1.0 MB"));
    }

    #[test]
    fn sources_that_did_not_answer_are_in_the_result() {
        let answer = |outcome| SourceAnswer {
            source: "test".to_owned(),
            outcome,
            counters: 0,
            reason: None,
        };
        let mut first = reading(&[(KERNEL_WRITTEN, WearQuantity::HostWritten, 0, 512)]);
        let outcomes = [
            SourceOutcome::Answered,
            SourceOutcome::ReportsNothing,
            SourceOutcome::NeedsRoot,
            SourceOutcome::ProgramMissing,
            SourceOutcome::Asleep,
            SourceOutcome::NotAsked,
            SourceOutcome::Failed,
        ];
        first.asked = outcomes.map(answer).to_vec();
        let unanswered: Vec<_> = first.unanswered().map(|asked| asked.outcome).collect();
        assert_eq!(unanswered, outcomes[2..]);
    }

    #[test]
    fn a_wrong_unit_is_recognized() {
        // The drive counts in 32 MiB what smartctl takes for sectors.
        let found = measurement(&[
            (KERNEL_WRITTEN, WearQuantity::HostWritten, 64 * MIB, 512),
            ("ata.total_lbas_written", WearQuantity::HostWritten, 2 * 512, 512),
            ("ata.nand", WearQuantity::FlashWritten, 3 * 512, 512),
        ]);
        assert_eq!(found.write_amplification, None);
        assert!(found.notes[0].contains("its unit is not what its name says"), "{:?}", found.notes);
        assert!(found.counters[1].not_believed.is_some() && !found.counters[2].is_resolved);
        assert!(found.counters[0].not_believed.is_none());
    }

    #[test]
    fn a_coarse_but_right_counter_is_believed() {
        let found = measurement(&[
            (KERNEL_WRITTEN, WearQuantity::HostWritten, MIB, 512),
            ("ata.host", WearQuantity::HostWritten, 0, 1 << 30),
        ]);
        assert!(found.counters[1].not_believed.is_none());
        assert!(!found.counters[1].is_resolved);
    }
}
