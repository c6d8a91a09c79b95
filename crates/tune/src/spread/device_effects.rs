//! How devices of one run differ: a factor for each device and workload.
//!
//! The model: the logarithm of a figure is a value of the setup (short and whole trials apart) plus
//! a level of the device, both under one workload, plus noise:
//!
//! ```text
//! y = setup(s, length) + level(medium) + noise        for each workload
//! ```
//!
//! It is solved by least squares over all trials whose setup was measured on several devices;
//! setups that only one device has tell nothing of levels. The level of the run's first device is
//! 0: all figures are told as they would have been on that one. Rates, the 99th percentile of
//! latencies, the worst latency and wear have levels of their own. The baseline is measured on
//! every device before the search, so that there is always something to compare by.
//!
//! What is divided by its factor is a copy of the records ([`DeviceEffects::applied`]); the records keep
//! what was measured. Demands (`--p99-write-max`) are looked at after that too: they are told for
//! the first device.
//!
//! Limits: no interaction of setup and device. A level is as sure as the trials it comes from
//! ([`DeviceEffect::error`]), and its error is the same for all trials of its device, so that it weakens
//! comparisons of setups that were measured on different devices only; confirming pairs, from which
//! gains are computed, are made on one device and do not depend on it. A device that shares no
//! setup with the others under a workload has no level there, and its figures stay as they are.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_bench::{Figures, Latency, MeasurementLength};
use flashfit_filesystem::Setup;

use crate::merit::Merit;
use crate::objective::log_wear_merit;
use crate::pareto::log_p99;
use crate::record::{RecordedOutcome, TrialDevice, TrialPurpose, TrialRecord};

/// Below this a pivot is 0: devices that share no setup.
const NO_PIVOT: f64 = 1e-9;

/// What has levels of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectKey {
    /// Rates.
    Rate,
    /// The 99th percentile of latencies, and the others but the worst.
    Latency,
    /// The worst latency.
    Worst,
    /// What was written by what that cost the device.
    Wear,
}

const FIGURES: [EffectKey; 4] =
    [EffectKey::Rate, EffectKey::Latency, EffectKey::Worst, EffectKey::Wear];

/// How a device differs from the first under one workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceEffect {
    /// The logarithm of the factor.
    pub log: f64,
    /// Its standard error; `None` where the trials leave no noise to tell it by.
    pub error: Option<f64>,
}

/// The levels of the devices of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceEffects {
    media: Vec<TrialDevice>,
    levels: BTreeMap<(EffectKey, String, usize), DeviceEffect>,
}

impl DeviceEffects {
    /// By these trials; empty where they are of one device.
    pub fn of<'a>(trials: impl IntoIterator<Item = &'a TrialRecord>) -> Self {
        let trials: Vec<&TrialRecord> = trials.into_iter().collect();
        let mut media: Vec<TrialDevice> = Vec::new();
        for made_on in trials.iter().filter_map(|trial| trial.made_on.as_ref()) {
            if !media.contains(made_on) {
                media.push(made_on.clone());
            }
        }
        let mut found = Self { media, levels: BTreeMap::new() };
        if found.media.len() < 2 {
            return found;
        }
        let workloads: BTreeSet<&String> = trials.iter().map(|trial| &trial.key.workload).collect();
        for workload in workloads {
            let of_it: Vec<&&TrialRecord> =
                trials.iter().filter(|trial| trial.key.workload == *workload).collect();
            for figure in FIGURES {
                let levels = solved(&found.cells(&of_it, figure), found.media.len());
                for (medium, level) in levels.into_iter().enumerate() {
                    if let Some(level) = level {
                        found.levels.insert((figure, workload.clone(), medium), level);
                    }
                }
            }
        }
        found
    }

    /// By the trials of whole batches and those that were made to compare devices: what a search
    /// that goes on from these trials has decided by.
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

    /// The devices, that with level 0 first; one or none where trials were made in one place.
    pub fn media(&self) -> &[TrialDevice] {
        &self.media
    }

    /// Whether figures of different devices were brought together.
    pub fn are_several(&self) -> bool {
        self.media.len() > 1
    }

    /// The level of a device by its place in [`DeviceEffects::media`]; `None` where it shares no setup
    /// with the first, be it by way of others.
    pub fn level(&self, figure: EffectKey, workload: &str, medium: usize) -> Option<DeviceEffect> {
        self.levels.get(&(figure, workload.to_owned(), medium)).copied()
    }

    /// The trial as it would have been on the first device.
    #[must_use]
    pub fn applied(&self, trial: &TrialRecord) -> TrialRecord {
        let mut trial = trial.clone();
        let place = self.media.iter().position(|medium| Some(medium) == trial.made_on.as_ref());
        let Some(place) = place.filter(|place| *place > 0) else { return trial };
        let workload = trial.key.workload.clone();
        let log = |figure| self.level(figure, &workload, place).map_or(0.0, |level| level.log);
        let (rate, latency, worst) =
            (log(EffectKey::Rate), log(EffectKey::Latency), log(EffectKey::Worst));
        if let RecordedOutcome::Completed { points } = &mut trial.outcome {
            let stages = points.iter_mut().flat_map(|point| &mut point.stages);
            for figures in stages.flat_map(|stage| [&mut stage.read, &mut stage.write]).flatten() {
                level_out(figures, rate, latency, worst);
            }
        }
        // A merit of wear is what was asked for by what it cost: the cost takes the factor.
        let wear = log(EffectKey::Wear);
        if let Some(counters) = &mut trial.counters {
            counters.nand_programmed_bytes = times(counters.nand_programmed_bytes, wear);
        }
        if let Some(written) = &mut trial.written {
            written.workload_bytes = times(written.workload_bytes, wear);
        }
        trial
    }

    /// All of them as they would have been on the first device.
    pub fn applied_to_all(&self, trials: &[TrialRecord]) -> Vec<TrialRecord> {
        trials.iter().map(|trial| self.applied(trial)).collect()
    }

    /// What was measured of each setup and length, and on which device.
    fn cells(&self, trials: &[&&TrialRecord], figure: EffectKey) -> Vec<Vec<(usize, f64)>> {
        let mut cells: BTreeMap<(&Setup, MeasurementLength), Vec<(usize, f64)>> = BTreeMap::new();
        for trial in trials {
            let medium =
                self.media.iter().position(|medium| Some(medium) == trial.made_on.as_ref());
            if let Some((medium, value)) = medium.zip(value(trial, figure)) {
                let cell = (&trial.key.setup, trial.key.length);
                cells.entry(cell).or_default().push((medium, value));
            }
        }
        cells.into_values().collect()
    }
}

/// A figure's logarithm.
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

fn level_out(figures: &mut Figures, rate: f64, latency: f64, worst: f64) {
    figures.bytes_per_second = times(figures.bytes_per_second, -rate);
    figures.operations_per_second_thousandths =
        times(figures.operations_per_second_thousandths, -rate);
    let level_out = |found: &mut Latency| {
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
    level_out(&mut figures.latency);
    figures.sync.as_mut().into_iter().for_each(level_out);
}

/// An amount times the exponential of a logarithm.
fn times(amount: u64, log: f64) -> u64 {
    if log == 0.0 { amount } else { (amount as f64 * log.exp()).round() as u64 }
}

/// The levels of `count` devices, the first being 0, by least squares. The setups' values are
/// eliminated: what is left are equations of the devices alone.
fn solved(cells: &[Vec<(usize, f64)>], count: usize) -> Vec<Option<DeviceEffect>> {
    let mut equations = vec![vec![0.0; count]; count];
    let mut right = vec![0.0; count];
    let (mut trials, mut rows) = (0usize, 0usize);
    for cell in cells {
        let size = cell.len() as f64;
        let mean = cell.iter().map(|(_, value)| value).sum::<f64>() / size;
        trials += cell.len();
        rows += 1;
        for (medium, value) in cell {
            equations[*medium][*medium] += 1.0;
            right[*medium] += value - mean;
            for (other, _) in cell {
                equations[*medium][*other] -= 1.0 / size;
            }
        }
    }
    let inverse = inverted(equations);
    let level = |medium: usize| -> Option<f64> {
        if medium == 0 {
            return Some(0.0);
        }
        let row = inverse[medium].as_ref()?;
        Some(row.iter().zip(&right).skip(1).map(|(factor, right)| factor * right).sum())
    };
    let logs: Vec<Option<f64>> = (0..count).map(level).collect();
    let mut squares = 0.0;
    for cell in cells {
        let values: Vec<f64> =
            cell.iter().map(|(medium, value)| value - logs[*medium].unwrap_or(0.0)).collect();
        let mean = crate::stats::mean(&values);
        squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    }
    let told = logs.iter().flatten().count().saturating_sub(1);
    let freedom = trials.saturating_sub(rows + told);
    let variance = (freedom > 0).then(|| squares / freedom as f64);
    (0..count)
        .map(|medium| {
            let log = logs[medium]?;
            let own = inverse[medium].as_ref().map_or(0.0, |row| row[medium]);
            let error = if medium == 0 { Some(0.0) } else { variance.map(|v| (v * own).sqrt()) };
            Some(DeviceEffect { log, error })
        })
        .collect()
}

/// The inverse of a symmetric matrix without its first row and column, row by row; `None` for rows
/// that depend on what is not there.
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
    // What is tied to a device without a level has none either.
    let depends =
        |row: usize| (1..count).any(|other| !solved[other] && matrix[row][other].abs() > NO_PIVOT);
    (0..count)
        .map(|row| (row > 0 && solved[row] && !depends(row)).then(|| inverse[row].clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_medium_is_compared_by_way_of_another() {
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
