//! Workload-specific levels in full-length and short trials, and workload-specific effects: a ridge
//! regression on the main columns for each workload, each column with its own variance as in
//! [`super::surface`].
//!
//! Limit: workload-specific interactions become part of the cells' residuals.

use super::coding::Coding;
use super::linear::{Cholesky, Matrix, dot};

/// One observation of a workload's effects.
#[derive(Debug, Clone, Copy)]
pub struct Deviation {
    pub candidate: usize,
    /// Whether from short trials.
    pub short: bool,
    /// Difference from the candidate's merit.
    pub value: f64,
    /// The variance of its noise.
    pub variance: f64,
}

const NU: f64 = 3.0;
const MIN_SD: f64 = 0.005;
/// The columns for the levels of full-length and short trials precede the main columns.
const LEVELS: usize = 2;
const LEVEL_SD: f64 = 100.0;
const ROUNDS: usize = 2;

/// The posterior of one workload.
#[derive(Debug, Clone)]
pub struct WorkloadBelief {
    coefficients: Vec<f64>,
    scales: Vec<f64>,
    group: f64,
    factor: Cholesky,
}

impl WorkloadBelief {
    /// Levels only, without effects.
    pub fn level(coding: &Coding, full: f64, short: f64, guess_sd: f64) -> Self {
        let size = LEVELS + coding.mains();
        let mut coefficients = vec![0.0; size];
        coefficients[0] = full;
        coefficients[1] = short;
        let group = guess_sd.powi(2);
        let mut precision = Matrix::zeros(size, size);
        for column in 0..size {
            precision.row_mut(column)[column] = 1.0 / group;
        }
        Self { coefficients, scales: vec![group; size], group, factor: Cholesky::of(precision) }
    }

    /// Updates the estimate from deviations.
    pub fn learn(&mut self, coding: &Coding, deviations: &[Deviation]) {
        let size = LEVELS + coding.mains();
        let mut row = vec![0.0; size];
        let mut gram = Matrix::zeros(size, size);
        let mut sums = vec![0.0; size];
        for deviation in deviations {
            write(coding, deviation.candidate, deviation.short, &mut row);
            let weight = 1.0 / deviation.variance;
            for column in 0..size {
                if row[column] != 0.0 {
                    let scaled = weight * row[column];
                    sums[column] += scaled * deviation.value;
                    let target = &mut gram.row_mut(column)[..=column];
                    for (value, other) in target.iter_mut().zip(&row) {
                        *value += scaled * other;
                    }
                }
            }
        }
        self.scales[..LEVELS].fill(LEVEL_SD.powi(2));
        for _ in 0..ROUNDS {
            let mut precision = gram.clone();
            for column in 0..size {
                precision.row_mut(column)[column] += 1.0 / self.scales[column];
            }
            self.factor = Cholesky::of(precision);
            self.coefficients.clone_from(&sums);
            self.factor.solve(&mut self.coefficients);
            self.rescale(size);
        }
    }

    fn rescale(&mut self, size: usize) {
        let mut found = Vec::with_capacity(size);
        for column in LEVELS..size {
            let mut unit = vec![0.0; size];
            unit[column] = 1.0;
            self.factor.forward(&mut unit);
            found.push(self.coefficients[column].powi(2) + dot(&unit, &unit));
        }
        if found.is_empty() {
            return;
        }
        let count = found.len() as f64;
        let inverse: f64 =
            found.iter().map(|square| (NU + 1.0) / NU.mul_add(self.group, *square)).sum();
        self.group = (count / inverse).max(MIN_SD.powi(2));
        for (scale, square) in self.scales[LEVELS..].iter_mut().zip(&found) {
            *scale = NU.mul_add(self.group, *square) / (NU + 1.0);
        }
    }

    /// The effective degrees of freedom of the fit.
    pub fn freedom(&self) -> f64 {
        let size = self.scales.len();
        let mut unit = vec![0.0; size];
        let mut sum = 0.0;
        for (column, scale) in self.scales.iter().enumerate() {
            unit.fill(0.0);
            unit[column] = 1.0;
            self.factor.forward_from(&mut unit, column);
            sum += 1.0 - dot(&unit[column..], &unit[column..]) / scale;
        }
        sum.max(0.0)
    }

    /// Removes the common part of all workloads from each.
    pub fn center(all: &mut [Self], weights: &[f64]) {
        let size = all.first().map_or(0, |own| own.coefficients.len());
        for column in LEVELS..size {
            let mean: f64 =
                all.iter().zip(weights).map(|(own, w)| w * own.coefficients[column]).sum();
            all.iter_mut().for_each(|own| own.coefficients[column] -= mean);
        }
    }

    /// The expected difference of a candidate's trials under this workload from its merit.
    pub fn offset(&self, coding: &Coding, candidate: usize, short: bool) -> f64 {
        let level = self.coefficients[usize::from(short)];
        level + dot(&self.coefficients[LEVELS..], coding.mains_of(candidate))
    }

    pub fn variance(&self, coding: &Coding, candidate: usize, short: bool) -> f64 {
        let mut row = vec![0.0; LEVELS + coding.mains()];
        write(coding, candidate, short, &mut row);
        // The levels are only determined up to a common shift; their variance does not affect
        // differences between candidates.
        row[..LEVELS].fill(0.0);
        self.factor.forward(&mut row);
        dot(&row, &row)
    }
}

fn write(coding: &Coding, candidate: usize, short: bool, row: &mut [f64]) {
    row[..LEVELS].fill(0.0);
    row[usize::from(short)] = 1.0;
    row[LEVELS..].copy_from_slice(coding.mains_of(candidate));
}
