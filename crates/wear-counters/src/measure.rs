//! Measures what a command costs a device: counters before, the command, counters after, again
//! until the counter of wear is resolved.
//!
//! A counter is resolved when it counted as many steps as the wanted error needs, ten for 10 %,
//! and the interval of its mean is as narrow, after at least three runs: the runs may differ. The
//! measurement is refused before anything runs if that takes more than may be written, and it stops
//! early when the runs that are left cannot resolve the counter. Limits: whatever else writes to
//! the device meanwhile is counted too; what the device does later in idle time is not.

use flashfit_device::Bytes;
use flashfit_host::ProgramError;
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::counter::{WearCounter, WearQuantity};
use crate::difference::{CounterDifference, DifferenceError, differences};
use crate::kernel::KERNEL_WRITTEN;
use crate::measurement::{MeasurementEnd, WearMeasurement, WearRuns};
use crate::needed_volume::{NeededVolume, VolumeBasis, needed};
use crate::reading::WearReading;

/// Runs below which the spread between runs says little, and nothing is resolved.
pub const FEWEST_RUNS: u32 = 3;

/// How much a measurement may spend, and how exact it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasureBudget {
    /// What may be written to the device, by the kernel's count.
    pub max_written: Bytes,
    /// At least 1.
    pub max_runs: u32,
    /// The largest error of the counter, in percent; 1 to 100.
    pub error_percent: u32,
}

impl MeasureBudget {
    /// Steps that a counter must count.
    pub fn steps(&self) -> u64 {
        u64::from(100u32.div_ceil(self.error_percent.clamp(1, 100)))
    }

    /// The largest error, as a share, with room for rounding.
    pub(crate) fn error(&self) -> f64 {
        f64::from(self.error_percent) / 100.0 + 1e-9
    }
}

/// The device that is measured and the command that writes to it.
pub trait MeasuredWorkload {
    /// Reads the counters; everything that was written has reached the device.
    fn read(&mut self) -> Result<WearReading, MeasureError>;

    /// Runs the command once.
    fn run(&mut self) -> Result<(), MeasureError>;

    fn capacity(&self) -> Bytes;
}

#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    #[error("{device} has no counter `{counter}`")]
    UnknownCounter { device: String, counter: String, known: Vec<String> },
    #[error("{device}: `{counter}` is at its largest value and counts no more")]
    Saturated { device: String, counter: String },
    #[error(
        "{device}: `{counter}` is too coarse: {steps} of its steps take about {} and only {} may be \
         written{}",
        Bytes(needed.bytes).si(),
        allowed.si(),
        basis(*needed)
    )]
    TooCoarse { device: String, counter: String, steps: u64, needed: NeededVolume, allowed: Bytes },
    #[error("the command wrote nothing to {device}")]
    NothingWritten { device: String },
    #[error("the command failed with {how}, so that its counters mean nothing")]
    CommandFailed { how: String },
    #[error("{device} vanished while the command ran")]
    Vanished { device: String },
    #[error("{device} is another device than before the command ran")]
    Replaced { device: String },
    #[error(transparent)]
    Command(#[from] ProgramError),
    #[error(transparent)]
    Difference(#[from] DifferenceError),
}

fn basis(needed: NeededVolume) -> &'static str {
    match needed.basis {
        VolumeBasis::AssumedCycles => " (if the flash endures 1000 erases)",
        VolumeBasis::History => " (by what was written for the life used so far)",
        VolumeBasis::Unit | VolumeBasis::Size | VolumeBasis::Measured => "",
    }
}

impl UserError for MeasureError {
    fn class(&self) -> ExitClass {
        match self {
            Self::UnknownCounter { .. } => ExitClass::Usage,
            Self::TooCoarse { .. } => ExitClass::Refused,
            Self::Saturated { .. } | Self::NothingWritten { .. } | Self::CommandFailed { .. } => {
                ExitClass::BadVerdict
            }
            Self::Vanished { .. } | Self::Replaced { .. } => ExitClass::Io,
            Self::Command(error) => error.class(),
            Self::Difference(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::UnknownCounter { known, .. } => {
                Some(format!("it has {}", known.join(", ")).into())
            }
            Self::Vanished { .. } => {
                Some("check its contacts and the kernel's messages: dmesg".into())
            }
            Self::Command(error) => error.hint(),
            Self::Difference(error) => error.hint(),
            Self::Saturated { .. }
            | Self::TooCoarse { .. }
            | Self::NothingWritten { .. }
            | Self::CommandFailed { .. }
            | Self::Replaced { .. } => None,
        }
    }
}

/// Measures until the counter is resolved; without a name, the counter of wear that needs the least
/// volume, or what the host wrote if the device reports no wear.
///
/// # Errors
/// See [`MeasureError`].
pub fn measure(
    workload: &mut dyn MeasuredWorkload,
    budget: &MeasureBudget,
    counter: Option<&str>,
) -> Result<WearMeasurement, MeasureError> {
    let first = workload.read()?;
    let device = first.device.display().to_string();
    let goal = goal(&first, counter, workload.capacity(), budget)?;
    let (id, steps) = (goal.counter.id.as_str(), budget.steps());
    if goal.needed.bytes > budget.max_written.0 {
        return Err(MeasureError::TooCoarse {
            device,
            counter: id.to_owned(),
            steps,
            needed: goal.needed,
            allowed: budget.max_written,
        });
    }
    let mut runs = WearRuns::default();
    let mut before = first.clone();
    let end = loop {
        workload.run()?;
        let after = workload.read()?;
        runs.add(differences(&before, &after)?);
        before = after;
        let (written, counted) = (runs.total(KERNEL_WRITTEN), runs.total(id));
        if written == 0 && counted == 0 {
            return Err(MeasureError::NothingWritten { device });
        }
        if let Some(end) = verdict(&runs, &goal.counter, budget) {
            break end;
        }
    };
    Ok(WearMeasurement::new(&first, &runs, &goal.counter, budget, goal.needed, end))
}

/// The counter to resolve.
struct MeasureGoal {
    counter: WearCounter,
    needed: NeededVolume,
}

fn goal(
    reading: &WearReading,
    id: Option<&str>,
    capacity: Bytes,
    budget: &MeasureBudget,
) -> Result<MeasureGoal, MeasureError> {
    let device = || reading.device.display().to_string();
    let goal = |counter: &WearCounter| MeasureGoal {
        counter: counter.clone(),
        needed: needed(counter, reading, capacity, budget.steps()),
    };
    if let Some(id) = id {
        let Some(counter) = reading.counter(id) else {
            let known = reading.counters.iter().map(|counter| counter.id.clone()).collect();
            return Err(MeasureError::UnknownCounter {
                device: device(),
                counter: id.to_owned(),
                known,
            });
        };
        if counter.is_saturated {
            return Err(MeasureError::Saturated { device: device(), counter: id.to_owned() });
        }
        return Ok(goal(counter));
    }
    let wear = reading.counters.iter().filter(|one| {
        // One of the two parts of what was written to the flash may stand still.
        one.measures.is_wear()
            && one.measures != WearQuantity::FlashWrittenByController
            && !one.is_saturated
    });
    let host = || reading.counter(KERNEL_WRITTEN).into_iter();
    let cheapest = wear.map(goal).min_by_key(|goal| goal.needed.bytes);
    cheapest.or_else(|| host().map(goal).next()).ok_or_else(|| MeasureError::UnknownCounter {
        device: device(),
        counter: KERNEL_WRITTEN.to_owned(),
        known: Vec::new(),
    })
}

/// Why the measurement is over, if it is.
fn verdict(runs: &WearRuns, goal: &WearCounter, budget: &MeasureBudget) -> Option<MeasurementEnd> {
    let done = u64::from(runs.count());
    let written = runs.total(KERNEL_WRITTEN);
    let counted = runs.total(&goal.id) / goal.step;
    let has_steps = counted >= budget.steps();
    let is_exact = runs.relative_error(goal).is_some_and(|error| error <= budget.error());
    if has_steps && is_exact && runs.count() >= FEWEST_RUNS {
        return Some(MeasurementEnd::Resolved);
    }
    // A spread is known from several runs only.
    let is_spread = has_steps && runs.count() >= FEWEST_RUNS;
    let or_spread = |end| if is_spread { MeasurementEnd::Spread } else { end };
    if runs.count() >= budget.max_runs {
        return Some(or_spread(MeasurementEnd::Runs));
    }
    let a_run = written / done;
    if written.saturating_add(a_run) > budget.max_written.0 {
        return Some(or_spread(MeasurementEnd::Volume));
    }
    // A step more than was seen may be due already.
    let hoped = (counted + 1).saturating_mul(u64::from(budget.max_runs)) / done;
    (!has_steps && hoped < budget.steps()).then_some(MeasurementEnd::Hopeless)
}

/// What the differences of a run are made of, for the sums over runs.
pub(crate) type RunDifferences = Vec<CounterDifference>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::tests::reading;

    /// A device whose flash counter has a step, and a command that writes.
    struct Fake {
        host: u64,
        flash: u64,
        step: u64,
        a_run: u64,
        amplification: u64,
        /// What every other run adds to the amplification.
        uneven: u64,
        runs: u32,
    }

    impl MeasuredWorkload for Fake {
        fn read(&mut self) -> Result<WearReading, MeasureError> {
            Ok(reading(&[
                (KERNEL_WRITTEN, WearQuantity::HostWritten, self.host, 512),
                (
                    "x.flash",
                    WearQuantity::FlashWritten,
                    self.flash / self.step * self.step,
                    self.step,
                ),
            ]))
        }

        fn run(&mut self) -> Result<(), MeasureError> {
            self.runs += 1;
            self.host += self.a_run;
            let more = if self.runs % 2 == 0 { self.uneven } else { 0 };
            self.flash += self.a_run * (self.amplification + more);
            Ok(())
        }

        fn capacity(&self) -> Bytes {
            Bytes(32_000_000_000)
        }
    }

    fn fake(step: u64, a_run: u64) -> Fake {
        Fake { host: 0, flash: 700, step, a_run, amplification: 3, uneven: 0, runs: 0 }
    }

    fn budget(max_written: u64, max_runs: u32) -> MeasureBudget {
        MeasureBudget { max_written: Bytes(max_written), max_runs, error_percent: 10 }
    }

    #[test]
    fn it_runs_until_ten_steps_are_counted() {
        let mut device = fake(1_000_000, 512_000);
        let found = measure(&mut device, &budget(1 << 40, 100), None).unwrap();
        // 1.536 steps a run: seven runs are 10.75 steps.
        assert_eq!((device.runs, found.end), (7, MeasurementEnd::Resolved));
        let ratio = found.write_amplification.unwrap();
        let (low, high) = (ratio.low.unwrap(), ratio.high.unwrap());
        assert!(low <= 3.0 && 3.0 <= high, "{ratio:?}");
        assert!((high - low) / 3.0 < 0.25, "{ratio:?}");
    }

    #[test]
    fn a_resolved_counter_still_runs_three_times() {
        let mut device = fake(512, 512_000);
        measure(&mut device, &budget(1 << 40, 100), None).unwrap();
        assert_eq!(device.runs, 3);
        let mut device = fake(512, 512_000);
        measure(&mut device, &budget(1 << 40, 1), None).unwrap();
        assert_eq!(device.runs, 1);
    }

    #[test]
    fn fewer_than_three_runs_show_no_spread_and_resolve_nothing() {
        let mut device = fake(512, 512_000);
        let found = measure(&mut device, &budget(700_000, 100), None).unwrap();
        assert_eq!((device.runs, found.end), (1, MeasurementEnd::Volume));
        let flash = found.counters.iter().find(|one| one.id == "x.flash").unwrap();
        assert_eq!((flash.is_resolved, flash.per_run.low), (false, None));
        assert_eq!(found.write_amplification.unwrap().high, None);
        for most in [1, 2] {
            let mut device = fake(512, 512_000);
            let found = measure(&mut device, &budget(1 << 40, most), None).unwrap();
            assert_eq!((device.runs, found.end), (most, MeasurementEnd::Runs));
            assert!(found.counters.iter().all(|one| !one.is_resolved), "{found:?}");
        }
    }

    #[test]
    fn a_coarse_counter_is_refused_before_anything_runs() {
        let mut device = fake(1 << 30, 1 << 20);
        let error = measure(&mut device, &budget(1 << 30, 100), None).unwrap_err();
        assert_eq!(device.runs, 0);
        assert_eq!(error.class(), ExitClass::Refused);
        let text = error.to_string();
        assert!(text.contains("10 of its steps take about 10.7 GB and only 1.1 GB"), "{text}");
    }

    #[test]
    fn hopeless_runs_are_not_made() {
        let mut device = fake(1 << 30, 1 << 20);
        let found = measure(&mut device, &budget(1 << 40, 100), None).unwrap();
        assert_eq!((device.runs, found.end), (11, MeasurementEnd::Hopeless));
    }

    #[test]
    fn the_volume_is_kept() {
        let mut device = fake(1 << 20, 600 << 10);
        let found = measure(&mut device, &budget(10 << 20, 100), Some("x.flash")).unwrap();
        assert!(device.host <= 10 << 20, "{}", device.host);
        assert_eq!(found.end, MeasurementEnd::Resolved, "amplification 3 helps");
    }

    #[test]
    fn runs_that_differ_are_repeated() {
        let mut device = Fake { uneven: 20, ..fake(512, 512_000) };
        let found = measure(&mut device, &budget(1 << 40, 1000), None).unwrap();
        assert_eq!(found.end, MeasurementEnd::Resolved);
        assert!(device.runs > 20, "{}", device.runs);
        let mut device = Fake { uneven: 20, ..fake(512, 512_000) };
        let found = measure(&mut device, &budget(1 << 40, 5), None).unwrap();
        assert_eq!((device.runs, found.end), (5, MeasurementEnd::Spread));
        let flash = found.counters.iter().find(|one| one.id == "x.flash").unwrap();
        assert!(!flash.is_resolved, "{flash:?}");
    }

    #[test]
    fn a_command_that_writes_nothing_is_an_error() {
        let error = measure(&mut fake(512, 0), &budget(1 << 40, 9), None).unwrap_err();
        assert!(matches!(error, MeasureError::NothingWritten { .. }));
    }

    #[test]
    fn an_unknown_counter_is_answered_with_the_known_ones() {
        let error = measure(&mut fake(512, 1), &budget(1, 9), Some("x")).unwrap_err();
        assert_eq!(error.hint().unwrap().text(), Some("it has kernel.written, x.flash"));
    }
}
