//! Differences between the devices of one run: a factor for each device and workload.
//!
//! The logarithm of a figure is modeled as a value of the setup (separately for short and
//! full-length trials) plus a level of the device, both under one workload, plus noise:
//!
//! ```text
//! y = setup(s, length) + level(device) + noise        for each workload
//! ```
//!
//! The model is fitted by least squares to all trials of setups measured on several devices; other
//! setups carry no information on levels. The level of the run's first device is 0, so all figures
//! are converted to that device. Rates, the 99th percentile of latencies, the worst latency and
//! wear have separate levels. The baseline is measured on every device before the search, which
//! guarantees a comparison.
//!
//! Factors are applied to a copy of the records ([`DeviceEffects::applied`]); the records keep the
//! measured values. Constraints (`--p99-write-max`) are evaluated after that and refer to the first
//! device.
//!
//! Limits: no interaction of setup and device. The error of a level ([`DeviceEffect::error`]) is
//! common to all trials of its device, so it only affects comparisons of setups measured on
//! different devices; confirming pairs, from which gains are computed, are made on one device. A
//! device that shares no setup with the others under a workload has no level there, and its figures
//! are not converted.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_bench::{Figures, Latency, MeasurementLength};
use flashfit_filesystem::Setup;

use crate::merit::Merit;
use crate::objective::log_wear_merit;
use crate::pareto::log_p99;
use crate::record::{RecordedOutcome, TrialDevice, TrialPurpose, TrialRecord};

/// Smaller pivots are 0: devices without common setups.
const NO_PIVOT: f64 = 1e-9;

/// Figures with separate levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectKey {
    Rate,
    /// Latencies other than the worst.
    Latency,
    Worst,
    /// Bytes written divided by their cost for the device.
    Wear,
}

const FIGURES: [EffectKey; 4] =
    [EffectKey::Rate, EffectKey::Latency, EffectKey::Worst, EffectKey::Wear];

/// The difference of a device from the first under one workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceEffect {
    /// The logarithm of the factor.
    pub log: f64,
    /// Standard error; `None` without residual degrees of freedom.
    pub error: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceEffects {
    devices: Vec<TrialDevice>,
    levels: BTreeMap<(EffectKey, String, usize), DeviceEffect>,
}

impl DeviceEffects {
    /// Estimates the levels; empty for trials of a single device.
    pub fn of<'a>(trials: impl IntoIterator<Item = &'a TrialRecord>) -> Self {
        let trials: Vec<&TrialRecord> = trials.into_iter().collect();
        let mut devices: Vec<TrialDevice> = Vec::new();
        for made_on in trials.iter().filter_map(|trial| trial.made_on.as_ref()) {
            if !devices.contains(made_on) {
                devices.push(made_on.clone());
            }
        }
        let mut found = Self { devices, levels: BTreeMap::new() };
        if found.devices.len() < 2 {
            return found;
        }
        let workloads: BTreeSet<&String> = trials.iter().map(|trial| &trial.key.workload).collect();
        for workload in workloads {
            let of_it: Vec<&&TrialRecord> =
                trials.iter().filter(|trial| trial.key.workload == *workload).collect();
            for figure in FIGURES {
                let levels = solved(&found.cells(&of_it, figure), found.devices.len());
                for (device, level) in levels.into_iter().enumerate() {
                    if let Some(level) = level {
                        found.levels.insert((figure, workload.clone(), device), level);
                    }
                }
            }
        }
        found
    }

    /// Estimates the levels from complete batches and from trials that compare devices, which is
    /// what a resumed search uses.
    pub fn of_whole_batches(trials: &[TrialRecord]) -> Self {
        let number = |trial: &TrialRecord| trial.batch.map(|batch| batch.number);
        let last = trials.iter().filter_map(number).max();
        let of_last = || trials.iter().filter(|trial| number(trial) == last);
        let size = of_last().find_map(|trial| trial.batch).map_or(0, |batch| batch.size);
        let is_whole = of_last().count() >= usize::try_from(size).unwrap_or(usize::MAX);
        let counts = |trial: &&TrialRecord| {
            is_whole || trial.key.purpose == TrialPurpose::Overlap || number(trial) < last
        };
        Self::of(trials.iter().filter(counts))
    }

    /// The devices, the one with level 0 first; at most one if the trials were made on one.
    pub fn devices(&self) -> &[TrialDevice] {
        &self.devices
    }

    /// Whether there are several devices.
    pub fn are_several(&self) -> bool {
        self.devices.len() > 1
    }

    /// The level of a device by its index in [`DeviceEffects::devices`]; `None` if it is not
    /// connected to the first by common setups.
    pub fn level(&self, figure: EffectKey, workload: &str, device: usize) -> Option<DeviceEffect> {
        self.levels.get(&(figure, workload.to_owned(), device)).copied()
    }

    /// Converts a trial to the first device.
    #[must_use]
    pub fn applied(&self, trial: &TrialRecord) -> TrialRecord {
        let mut trial = trial.clone();
        let place = self.devices.iter().position(|device| Some(device) == trial.made_on.as_ref());
        let Some(place) = place.filter(|place| *place > 0) else { return trial };
        let workload = trial.key.workload.clone();
        let log = |figure| self.level(figure, &workload, place).map_or(0.0, |level| level.log);
        let (rate, latency, worst) =
            (log(EffectKey::Rate), log(EffectKey::Latency), log(EffectKey::Worst));
        if let RecordedOutcome::Completed { points } = &mut trial.outcome {
            let stages = points.iter_mut().flat_map(|point| &mut point.stages);
            for figures in stages.flat_map(|stage| [&mut stage.read, &mut stage.write]).flatten() {
                normalize(figures, rate, latency, worst);
            }
        }
        // Wear is bytes written divided by their cost, so the factor applies to the cost.
        let wear = log(EffectKey::Wear);
        if let Some(counters) = &mut trial.counters {
            counters.nand_programmed_bytes = times(counters.nand_programmed_bytes, wear);
        }
        if let Some(written) = &mut trial.written {
            written.workload_bytes = times(written.workload_bytes, wear);
        }
        trial
    }

    /// Converts trials to the first device.
    pub fn applied_to_all(&self, trials: &[TrialRecord]) -> Vec<TrialRecord> {
        trials.iter().map(|trial| self.applied(trial)).collect()
    }

    /// Measured values with their devices, by setup and length.
    fn cells(&self, trials: &[&&TrialRecord], figure: EffectKey) -> Vec<Vec<(usize, f64)>> {
        let mut cells: BTreeMap<(&Setup, MeasurementLength), Vec<(usize, f64)>> = BTreeMap::new();
        for trial in trials {
            let device =
                self.devices.iter().position(|device| Some(device) == trial.made_on.as_ref());
            if let Some((device, value)) = device.zip(value(trial, figure)) {
                let cell = (&trial.key.setup, trial.key.length);
                cells.entry(cell).or_default().push((device, value));
            }
        }
        cells.into_values().collect()
    }
}

fn value(trial: &TrialRecord, figure: EffectKey) -> Option<f64> {
    let points = trial.points()?;
    match figure {
        EffectKey::Rate => (!Merit::has_no_rate(points)).then(|| Merit::of(points).mean_log_rate),
        EffectKey::Latency => log_p99(trial),
        EffectKey::Worst => {
            (!Merit::has_no_latency(points)).then(|| -Merit::of(points).latency.ln())
        }
        EffectKey::Wear => log_wear_merit(trial, points),
    }
}

fn normalize(figures: &mut Figures, rate: f64, latency: f64, worst: f64) {
    // The rate of a command is computed from its time.
    figures.runtime_ns = times(figures.runtime_ns, rate);
    figures.bytes_per_second = times(figures.bytes_per_second, -rate);
    figures.operations_per_second_thousandths =
        times(figures.operations_per_second_thousandths, -rate);
    let normalize = |found: &mut Latency| {
        let ordinary = [
            &mut found.mean_ns,
            &mut found.p50_ns,
            &mut found.p95_ns,
            &mut found.p99_ns,
            &mut found.p999_ns,
        ];
        ordinary.into_iter().for_each(|ns| *ns = times(*ns, -latency));
        found.max_ns = times(found.max_ns, -worst);
    };
    normalize(&mut figures.latency);
    figures.sync.as_mut().into_iter().for_each(normalize);
}

/// Multiplies by the exponential of a logarithm.
fn times(amount: u64, log: f64) -> u64 {
    if log == 0.0 { amount } else { (amount as f64 * log.exp()).round() as u64 }
}

/// The levels of `count` devices by least squares, relative to the first. The setups are
/// eliminated, which leaves equations for the devices only.
fn solved(cells: &[Vec<(usize, f64)>], count: usize) -> Vec<Option<DeviceEffect>> {
    let mut equations = vec![vec![0.0; count]; count];
    let mut right = vec![0.0; count];
    let (mut trials, mut rows) = (0usize, 0usize);
    for cell in cells {
        let size = cell.len() as f64;
        let mean = cell.iter().map(|(_, value)| value).sum::<f64>() / size;
        trials += cell.len();
        rows += 1;
        for (device, value) in cell {
            equations[*device][*device] += 1.0;
            right[*device] += value - mean;
            for (other, _) in cell {
                equations[*device][*other] -= 1.0 / size;
            }
        }
    }
    let inverse = inverted(equations);
    let level = |device: usize| -> Option<f64> {
        if device == 0 {
            return Some(0.0);
        }
        let row = inverse[device].as_ref()?;
        Some(row.iter().zip(&right).skip(1).map(|(factor, right)| factor * right).sum())
    };
    let logs: Vec<Option<f64>> = (0..count).map(level).collect();
    let mut squares = 0.0;
    for cell in cells {
        let values: Vec<f64> =
            cell.iter().map(|(device, value)| value - logs[*device].unwrap_or(0.0)).collect();
        let mean = crate::stats::mean(&values);
        squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    }
    let observation = logs.iter().flatten().count().saturating_sub(1);
    let freedom = trials.saturating_sub(rows + observation);
    let variance = (freedom > 0).then(|| squares / freedom as f64);
    (0..count)
        .map(|device| {
            let log = logs[device]?;
            let own = inverse[device].as_ref().map_or(0.0, |row| row[device]);
            let error = if device == 0 { Some(0.0) } else { variance.map(|v| (v * own).sqrt()) };
            Some(DeviceEffect { log, error })
        })
        .collect()
}

/// The inverse of a symmetric matrix without its first row and column, by row; `None` for
/// undetermined rows.
fn inverted(mut matrix: Vec<Vec<f64>>) -> Vec<Option<Vec<f64>>> {
    let count = matrix.len();
    let mut inverse: Vec<Vec<f64>> = (0..count)
        .map(|row| (0..count).map(|column| f64::from(u8::from(row == column))).collect())
        .collect();
    let mut solved = vec![false; count];
    loop {
        let pivot = (1..count)
            .filter(|row| !solved[*row])
            .max_by(|a, b| matrix[*a][*a].total_cmp(&matrix[*b][*b]));
        let Some(pivot) = pivot.filter(|pivot| matrix[*pivot][*pivot] > NO_PIVOT) else { break };
        solved[pivot] = true;
        let by = matrix[pivot][pivot];
        for column in 0..count {
            matrix[pivot][column] /= by;
            inverse[pivot][column] /= by;
        }
        for row in (1..count).filter(|row| *row != pivot) {
            let by = matrix[row][pivot];
            for column in 0..count {
                let (left, right) = (matrix[pivot][column], inverse[pivot][column]);
                matrix[row][column] -= by * left;
                inverse[row][column] -= by * right;
            }
        }
    }
    // Rows that depend on undetermined ones are undetermined too.
    let depends =
        |row: usize| (1..count).any(|other| !solved[other] && matrix[row][other].abs() > NO_PIVOT);
    (0..count)
        .map(|row| (row > 0 && solved[row] && !depends(row)).then(|| inverse[row].clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every rate by which setups are compared is that of the first device then.
    #[test]
    fn rates_and_times_are_normalized() {
        use flashfit_bench::FigureKind;

        let slow = Figures::new(1 << 20, 256, 4_000_000_000, Latency::default());
        let fast = Figures::new(1 << 20, 256, 2_000_000_000, Latency::default());
        let mut normalized = slow;
        normalize(&mut normalized, 0.5_f64.ln(), 0.0, 0.0);
        for kind in [FigureKind::Throughput, FigureKind::Operations, FigureKind::Time] {
            let ratio = normalized.rate(kind) as f64 / fast.rate(kind) as f64;
            assert!((ratio - 1.0).abs() < 1e-6, "{kind:?}: {ratio}");
        }
        assert_eq!(normalized.runtime_ns, fast.runtime_ns);
    }

    /// Two setups on two devices, one of which is half as fast.
    #[test]
    fn setups_that_both_media_have_tell_the_level() {
        let cells =
            vec![vec![(0, 1.0), (1, 0.5)], vec![(0, 2.0), (1, 1.5), (1, 1.5)], vec![(1, 9.0)]];
        let levels = solved(&cells, 2);
        let second = levels[1].expect("it shares setups");
        assert!((second.log + 0.5).abs() < 1e-9, "{second:?}");
        assert!(second.error.expect("there is a trial to spare") < 1e-6);
        assert_eq!(levels[0], Some(DeviceEffect { log: 0.0, error: Some(0.0) }));
    }

    #[test]
    fn a_device_is_compared_by_way_of_another() {
        let cells = vec![vec![(0, 1.0), (1, 2.0)], vec![(1, 5.0), (2, 8.0)]];
        let levels = solved(&cells, 4);
        let logs: Vec<Option<f64>> = levels.iter().map(|level| level.map(|l| l.log)).collect();
        assert!((logs[2].expect("by way of the second") - 4.0).abs() < 1e-9, "{logs:?}");
        assert_eq!(logs[3], None, "it has no trial");
        assert_eq!(levels[1].expect("known").error, None, "no trial to spare");
    }

    #[test]
    fn media_apart_from_the_first_have_no_level() {
        let cells = vec![vec![(0, 1.0), (0, 1.2)], vec![(1, 5.0), (2, 8.0)]];
        let levels = solved(&cells, 3);
        assert_eq!(levels[1], None);
        assert_eq!(levels[2], None);
    }

    #[test]
    fn noise_is_averaged() {
        let cells = vec![vec![(0, 0.1), (1, 1.0)], vec![(0, -0.1), (1, 1.0)]];
        let level = solved(&cells, 2)[1].expect("known");
        assert!((level.log - 1.0).abs() < 1e-9);
        // The differences 0.9 and 1.1: their mean has the error sqrt(0.02 / 2).
        assert!((level.error.expect("known") - 0.1).abs() < 1e-9, "{level:?}");
    }
}
