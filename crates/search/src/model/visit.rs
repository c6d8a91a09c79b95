//! The effect shared by all trials of a visit (a candidate's trials in one batch) beyond the
//! candidate's merit, for example a favorable layout or a busy device. Trials of one visit are
//! therefore less informative than trials of several visits. The variance of the effect is learned
//! from cells that were tried in more than one batch.
//!
//! Limit: the weights of an estimate from several visits ignore this effect, which costs little
//! efficiency while visits are similar; the variance of the estimate includes it.

use std::collections::BTreeMap;

use super::cells::CellTrials;
use super::noise::SPREAD;

/// Prior standard deviation of the shared effect.
pub const PRIOR_SD: f64 = 0.01;
/// Weight of the prior, in visits.
const PRIOR_VISITS: f64 = 10.0;
/// Iterations of reweighting visits by the estimated variance.
const ROUNDS: usize = 4;

/// The share of each batch in an estimate.
#[derive(Debug, Default)]
pub struct BatchShares(BTreeMap<u32, f64>);

impl BatchShares {
    /// Adds a cell whose mean has this share of the estimate.
    pub fn add(&mut self, cell: &CellTrials, share: f64) {
        let all = cell.weight();
        for (batch, weight) in cell.batches.iter().zip(&cell.weights) {
            *self.0.entry(*batch).or_default() += share * weight / all;
        }
    }

    /// Factor of the visit variance in the estimate's variance.
    pub fn squares(&self) -> f64 {
        self.0.values().map(|share| share * share).sum()
    }
}

/// The deviation of one visit's trials from the means of their cells.
#[derive(Debug, Default, Clone, Copy)]
struct Visit {
    weight: f64,
    off: f64,
    /// Noise variance of `off`, and the visible share of the effect, as cell means include the
    /// visit.
    noise: f64,
    seen: f64,
}

/// Learns the variance of the effect shared by a visit's trials; `noise` is the variance of a trial
/// of weight 1.
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
            // Weight cells by precision.
            visit.weight += weight / noise;
            visit.off += off / noise;
            visit.noise += weight / noise;
            visit.seen += weight / noise * (1.0 - weight / all);
        }
    }
    // The squared mean deviation of each visit, corrected for the visible share, and its noise.
    // Outliers have less weight, so a weighted mean moves less than the effect that moved it.
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

    /// Twelve candidates in twelve batches each, under eight workloads.
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
    fn a_visit_effect_is_found_if_and_only_if_there_is_one() {
        let noise_sd: f64 = 0.05;
        let found = |visit_sd| {
            // Equal weights: no trial counts as an outlier.
            let cells = cells(visit_sd, noise_sd * SPREAD);
            learned(&cells, |_| (noise_sd * SPREAD * SPREAD).powi(2)).sqrt()
        };
        assert!((0.03..0.06).contains(&found(0.03)), "{}", found(0.03));
        assert!(found(0.0) < 0.008, "{}", found(0.0));
        assert!((learned(&[], |_| 0.01) - PRIOR_SD.powi(2)).abs() < 1e-12, "nothing is known");
    }

    #[test]
    fn two_visits_halve_the_variance_of_the_visit_effect() {
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
