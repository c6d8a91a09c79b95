//! What all trials of a visit (a candidate's trials of one batch) have in common beyond the
//! candidate's merit: a device that was laid out luckily, or happened to be busy. Trials of one
//! visit say less together than as many of several, and how much less is learned from cells that
//! were tried in more than one batch.
//!
//! Limits: an estimate that several visits made is weighed as if they had none of this, which costs
//! little while visits are alike; its doubt is right.

use std::collections::BTreeMap;

use super::cells::CellTrials;
use super::noise::SPREAD;

/// What the trials of a visit are taken to have in common before there are repeats.
pub const PRIOR_SD: f64 = 0.01;
/// What that weighs, in visits.
const PRIOR_VISITS: f64 = 10.0;
/// How often visits are weighed again by the variance that they gave.
const ROUNDS: usize = 4;

/// By batch, how much of an estimate its trials make.
#[derive(Debug, Default)]
pub struct BatchShares(BTreeMap<u32, f64>);

impl BatchShares {
    /// Adds a cell of which the mean makes so much of the estimate.
    pub fn add(&mut self, cell: &CellTrials, share: f64) {
        let all = cell.weight();
        for (batch, weight) in cell.batches.iter().zip(&cell.weights) {
            *self.0.entry(*batch).or_default() += share * weight / all;
        }
    }

    /// How much of a visit's variance is in the estimate's.
    pub fn squares(&self) -> f64 {
        self.0.values().map(|share| share * share).sum()
    }
}

/// One visit's trials against those of other visits to the same cells.
#[derive(Debug, Default, Clone, Copy)]
struct Visit {
    weight: f64,
    off: f64,
    /// What noise makes of `off`, and which share of it is seen, as cells' means are made of it.
    noise: f64,
    seen: f64,
}

/// The variance of what a visit's trials have in common; `noise` is the variance of a trial of
/// weight 1.
pub fn learned(cells: &[CellTrials], noise: impl Fn(&CellTrials) -> f64) -> f64 {
    let mut visits: BTreeMap<(usize, bool, u32), Visit> = BTreeMap::new();
    for cell in cells {
        let (mean, all) = (cell.mean(), cell.weight());
        let mut by_batch: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for ((value, batch), weight) in cell.values.iter().zip(&cell.batches).zip(&cell.weights) {
            let of = by_batch.entry(*batch).or_default();
            of.0 += weight;
            of.1 += weight * (value - mean);
        }
        if by_batch.len() < 2 {
            continue;
        }
        let noise = noise(cell);
        for (batch, (weight, off)) in by_batch {
            let visit = visits.entry((cell.candidate, cell.short, batch)).or_default();
            // Cells of less noise count more.
            visit.weight += weight / noise;
            visit.off += off / noise;
            visit.noise += weight / noise;
            visit.seen += weight / noise * (1.0 - weight / all);
        }
    }
    // The mean of each visit, as if it were around the truth: its square, and its noise.
    // Trials that are off count less, so that a weighted mean moves by less than what moved them.
    let means: Vec<(f64, f64)> = visits
        .values()
        .map(|visit| {
            let seen = visit.seen / visit.weight;
            ((SPREAD * visit.off / visit.weight).powi(2) / seen, visit.noise / visit.weight.powi(2))
        })
        .collect();
    let prior = PRIOR_SD.powi(2);
    let mut variance = prior;
    for _ in 0..ROUNDS {
        let (mut sum, mut weights) = (0.0, 0.0);
        for (square, noise) in &means {
            let weight = (variance + noise).powi(-2);
            sum += weight * (square - noise);
            weights += weight;
        }
        let of_prior = PRIOR_VISITS * weights / means.len().max(1) as f64;
        if weights > 0.0 {
            variance = ((of_prior * prior + sum) / (of_prior + weights)).max(0.0);
        }
    }
    variance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::RandomStream;

    /// Twelve candidates in as many batches, each under eight workloads.
    fn cells(visit_sd: f64, noise_sd: f64) -> Vec<CellTrials> {
        let mut random = RandomStream::new(11);
        let mut cells = Vec::new();
        for candidate in 0..12 {
            let shared: Vec<f64> = (0..12).map(|_| visit_sd * random.normal()).collect();
            for workload in 0..8 {
                let value = |shared: &f64| noise_sd.mul_add(random.normal(), *shared);
                cells.push(CellTrials {
                    candidate,
                    workload,
                    short: false,
                    values: shared.iter().map(value).collect(),
                    visits: vec![0.0; 12],
                    batches: (0..12).collect(),
                    weights: vec![1.0; 12],
                });
            }
        }
        cells
    }

    #[test]
    fn what_visits_have_in_common_is_found_and_only_where_it_is() {
        let noise_sd: f64 = 0.05;
        let found = |visit_sd| {
            // Equal weights: nothing is taken for being off.
            let cells = cells(visit_sd, noise_sd * SPREAD);
            learned(&cells, |_| (noise_sd * SPREAD * SPREAD).powi(2)).sqrt()
        };
        assert!((0.03..0.06).contains(&found(0.03)), "{}", found(0.03));
        assert!(found(0.0) < 0.008, "{}", found(0.0));
        assert!((learned(&[], |_| 0.01) - PRIOR_SD.powi(2)).abs() < 1e-12, "nothing is known");
    }

    #[test]
    fn one_visit_has_all_of_its_effect_and_two_have_half_of_it() {
        let mut cell = cells(0.0, 0.1).remove(0);
        let mut two = BatchShares::default();
        cell.batches = (0..12).map(|trial| trial % 2).collect();
        two.add(&cell, 1.0);
        assert!((two.squares() - 0.5).abs() < 1e-12);
        let mut one = BatchShares::default();
        cell.batches = vec![7; 12];
        one.add(&cell, 0.5);
        one.add(&cell, 0.5);
        assert!((one.squares() - 1.0).abs() < 1e-12);
    }
}
