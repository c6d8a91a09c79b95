//! The measurements by cell (one candidate's trials under one workload with one length), and
//! initial estimates of workload levels and spread.

use crate::history::{Observation, TrialLength, TrialTable};
use crate::space::{CandidateIndex, WorkloadIndex};

use super::noise;

#[derive(Debug, Clone)]
pub struct CellTrials {
    pub candidate: CandidateIndex,
    pub workload: WorkloadIndex,
    pub short: bool,
    /// Log merit of each trial.
    pub values: Vec<f64>,
    /// Position of each trial in time.
    pub visits: Vec<f64>,
    pub batches: Vec<u32>,
    /// Weight of each trial.
    pub weights: Vec<f64>,
}

impl CellTrials {
    /// Sum of the weights.
    pub fn weight(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// Weighted mean of the trials.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.values.iter().zip(&self.weights).map(|(v, w)| v * w).sum();
        sum / self.weight()
    }

    /// The batch of each trial, and the trial's share of the mean.
    pub fn shares(&self) -> Vec<(u32, f64)> {
        let all = self.weight();
        self.batches.iter().zip(&self.weights).map(|(batch, of)| (*batch, of / all)).collect()
    }

    /// Deviations of repeats from their mean, widened because the mean is estimated from them.
    pub fn repeat_deviations(&self) -> Vec<f64> {
        let count = self.values.len() as f64;
        if self.values.len() < 2 {
            return Vec::new();
        }
        let mean = self.values.iter().sum::<f64>() / count;
        // The deviations sum to 0, so one of them is redundant.
        let widen = (count / (count - 1.0)).sqrt();
        self.values.iter().skip(1).map(|value| widen * (value - mean)).collect()
    }
}

/// The cells of a history, by candidate, then length, then workload.
pub fn of(history: &[Observation]) -> Vec<CellTrials> {
    let mut cells = Vec::new();
    for short in [false, true] {
        let length = if short { TrialLength::Short } else { TrialLength::Full };
        let table = TrialTable::of(history, |proposal| proposal.length == length);
        for (candidate, workload, observation) in table.cells() {
            let values: Vec<f64> = observation.iter().filter_map(Observation::log_merit).collect();
            let visits = observation.iter().map(|observation| observation.visit as f64).collect();
            let batches =
                observation.iter().map(|observation| observation.proposal.batch.number).collect();
            let weights = vec![1.0; values.len()];
            cells.push(CellTrials { candidate, workload, short, values, visits, batches, weights });
        }
    }
    cells.sort_by_key(|cell| (cell.candidate, cell.short, cell.workload));
    cells
}

/// The median of all cells under each workload, in full-length and short trials.
pub fn first_levels(cells: &[CellTrials], workloads: usize) -> Vec<[f64; 2]> {
    let of = |workload: usize, short: Option<bool>| {
        let here = cells.iter().filter(|cell| {
            cell.workload == workload && short.is_none_or(|short| cell.short == short)
        });
        let means: Vec<f64> = here.map(CellTrials::mean).collect();
        (!means.is_empty()).then(|| upper_median(&means))
    };
    (0..workloads)
        .map(|workload| {
            let any = of(workload, None).unwrap_or(0.0);
            [false, true].map(|short| of(workload, Some(short)).unwrap_or(any))
        })
        .collect()
}

/// The mean of all cells under each workload, in full-length and short trials.
pub fn mean_levels(cells: &[CellTrials], workloads: usize) -> Vec<[f64; 2]> {
    let mut sums = vec![[(0.0, 0.0); 2]; workloads];
    for cell in cells {
        let (sum, count) = &mut sums[cell.workload][usize::from(cell.short)];
        *sum += cell.mean();
        *count += 1.0;
    }
    sums.into_iter().map(|both| both.map(|(sum, count)| sum / f64::max(count, 1.0))).collect()
}

/// The squared scale of cells around their workload's level.
pub fn spread(cells: &[CellTrials], levels: &[[f64; 2]]) -> f64 {
    let off: Vec<f64> = cells
        .iter()
        .map(|cell| cell.mean() - levels[cell.workload][usize::from(cell.short)])
        .collect();
    noise::median_scale(&off).unwrap_or(0.01).max(1e-6)
}

/// The median; of an even number of values the upper one, so that it is always one of them.
pub fn upper_median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
