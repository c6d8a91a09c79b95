//! Joint posterior of merits: one Gaussian process over cells (a candidate's trials under one
//! workload).
//!
//! [`super::surface`] and [`super::workload`] are fitted in turn, each workload separately. With
//! few trials per workload, that loses most of the information they share. Here every effect has a
//! part shared by all workloads and a workload-specific part, and the variance of both is learned
//! from all workloads together ([`super::exact_variances`]). The same holds for the residual of
//! each candidate.
//!
//! Limits: the work grows with the cube of the number of cells, so there are at most [`MAX_CELLS`].
//! Noise, outlier weights and visit effects are taken from the model fitted in turn.
//!
//! Source of kernels that share information between tasks: E. Bonilla, K. Chai and C. Williams,
//! Multi-task Gaussian Process Prediction, 2007.

use crate::space::{CandidateIndex, WorkloadIndex};

use super::coding::Coding;
use super::linear::{Cholesky, Matrix, add_scaled, dot};
use super::surface::{
    BIAS_MAIN_SD, BIAS_OWN_SD, MIN_OWN_SD, PER_DIFFERENCE, Scales, dot_of_runs, runs,
};

/// With more cells, only the fit in turn is used.
const MAX_CELLS: usize = 1200;
/// Prior standard deviation of a workload's level around the mean of its cells.
const LEVEL_SD: f64 = 1.0;
/// The workload-specific share of the initial guess of a column's variance.
const OWN_SHARE: f64 = 0.5;

/// Whether this number of cells can be fitted jointly.
pub fn is_feasible(cells: usize) -> bool {
    (1..=MAX_CELLS).contains(&cells)
}

#[derive(Debug, Clone)]
pub struct CellPoint {
    pub candidate: CandidateIndex,
    pub workload: WorkloadIndex,
    /// Whether in short trials.
    pub short: bool,
    /// The mean of the cell's trials minus the mean of the workload's cells, in natural logarithm.
    pub value: f64,
    /// The variance of its noise.
    pub variance: f64,
    /// The share of each batch in the value.
    pub batches: Vec<(u32, f64)>,
}

/// The variances of the kernel's parts.
#[derive(Debug, Clone)]
pub struct ExactScales {
    /// By column: the effect shared by all workloads.
    pub(super) common: Vec<f64>,
    /// By column: the workload-specific effect.
    pub(super) own: Vec<f64>,
    /// A candidate's residual shared by all workloads.
    pub(super) candidate: f64,
    /// A candidate's workload-specific residual.
    pub(super) cell: f64,
    /// The part that a candidate shares with others, and the factor on it for each difference.
    pub(super) near: f64,
    pub(super) decay: f64,
    /// Factor on the variances of noise.
    pub(super) noise: f64,
    /// Group variances of main and of pair columns.
    pub(super) common_groups: [f64; 2],
    pub(super) own_groups: [f64; 2],
}

impl ExactScales {
    /// Initial guess for merits with this total variance.
    pub fn guess(coding: &Coding, variance: f64) -> Self {
        let Scales { columns, main_group, pair_group, near, .. } = Scales::guess(coding, variance);
        let part = |share: f64| columns.iter().map(|of| share * of).collect();
        let groups = |share: f64| [share * main_group, share * pair_group];
        Self {
            common: part(1.0 - OWN_SHARE),
            own: part(OWN_SHARE),
            candidate: near.max(MIN_OWN_SD.powi(2)),
            cell: near.max(MIN_OWN_SD.powi(2)),
            near: near.max(MIN_OWN_SD.powi(2)),
            decay: PER_DIFFERENCE,
            noise: 1.0,
            common_groups: groups(1.0 - OWN_SHARE),
            own_groups: groups(OWN_SHARE),
        }
    }
}

#[derive(Debug, Clone)]
pub struct ExactPosterior<'a> {
    pub(super) coding: &'a Coding,
    /// Workload weights; they sum to 1.
    weights: Vec<f64>,
    pub(super) points: Vec<CellPoint>,
    pub(super) scales: ExactScales,
    pub(super) rows: Matrix,
    /// The lower triangle of the covariance that does not depend on learned variances: levels,
    /// visits, bias of short trials.
    fixed: Matrix,
    /// The number of differences between points; 255 for more.
    pub(super) differences: Vec<Vec<u8>>,
    pub(super) factor: Cholesky,
    pub(super) alpha: Vec<f64>,
    /// For each workload, the sum of its points' columns weighted by `alpha`.
    sums: Matrix,
}

impl<'a> ExactPosterior<'a> {
    /// The posterior given at least one point and fixed variances; `visit` is the variance of the
    /// effect shared by the trials of a visit.
    pub fn of(
        coding: &'a Coding,
        weights: Vec<f64>,
        points: Vec<CellPoint>,
        scales: ExactScales,
        visit: f64,
    ) -> Self {
        let count = points.len();
        let mut rows = Matrix::zeros(count, coding.columns().max(1));
        let mut fixed = Matrix::zeros(count, count);
        for (row, point) in points.iter().enumerate() {
            coding.write(point.candidate, &mut rows.row_mut(row)[..coding.columns()]);
            for (value, other) in fixed.row_mut(row).iter_mut().zip(&points[..row]) {
                *value = covariance_beyond_merit(coding, point, other, visit);
            }
            fixed.row_mut(row)[row] = covariance_beyond_merit(coding, point, point, visit);
        }
        let differences = (0..count)
            .map(|row| {
                let of =
                    |other: &CellPoint| coding.differences(points[row].candidate, other.candidate);
                points[..=row].iter().map(|other| of(other).min(255) as u8).collect()
            })
            .collect();
        let sums = Matrix::zeros(weights.len(), coding.columns().max(1));
        let factor = Cholesky::of(Matrix::zeros(0, 0));
        let alpha = Vec::new();
        let mut exact =
            Self { coding, weights, points, scales, rows, fixed, differences, factor, alpha, sums };
        exact.solve();
        exact
    }

    pub fn scales(&self) -> &ExactScales {
        &self.scales
    }

    pub(super) fn set_scales(&mut self, scales: ExactScales) {
        self.scales = scales;
        self.solve();
    }

    /// The logarithm of the probability density of the points, up to a constant.
    pub(super) fn log_likelihood(&self) -> f64 {
        let product: f64 =
            self.points.iter().zip(&self.alpha).map(|(point, alpha)| point.value * alpha).sum();
        -0.5 * (product + self.factor.log_determinant())
    }

    pub(super) fn workloads(&self) -> usize {
        self.weights.len()
    }

    pub(super) fn solve(&mut self) {
        let mut matrix = self.fixed.clone();
        let columns = self.rows.row(0).len();
        let (mut common, mut both) = (vec![0.0; columns], vec![0.0; columns]);
        let near = self.near_table();
        for (row, point) in self.points.iter().enumerate() {
            let codes = self.rows.row(row);
            for (column, code) in codes[..self.coding.columns()].iter().enumerate() {
                common[column] = code * self.scales.common[column];
                both[column] = common[column] + code * self.scales.own[column];
            }
            let runs = runs(codes);
            for (at, other) in self.points[..=row].iter().enumerate() {
                let same = point.workload == other.workload;
                let scaled = if same { &both } else { &common };
                let mut value = dot_of_runs(&runs, scaled, self.rows.row(at));
                if point.candidate == other.candidate {
                    value += self.scales.candidate + if same { self.scales.cell } else { 0.0 };
                }
                value += near[usize::from(self.differences[row][at])];
                matrix.row_mut(row)[at] += value;
            }
            matrix.row_mut(row)[row] += self.scales.noise * point.variance;
        }
        self.factor = Cholesky::of(matrix);
        self.alpha = self.points.iter().map(|point| point.value).collect();
        self.factor.solve(&mut self.alpha);
        self.sums = Matrix::zeros(self.weights.len(), columns);
        for (row, point) in self.points.iter().enumerate() {
            add_scaled(self.sums.row_mut(point.workload), self.alpha[row], self.rows.row(row));
        }
    }

    /// The joint posterior of some candidates' merits in full-length trials, relative to a common
    /// unknown: means, and the lower triangle of the covariance.
    pub fn joint(&self, candidates: &[CandidateIndex]) -> (Vec<f64>, Matrix) {
        let (size, columns) = (candidates.len(), self.coding.columns());
        let squares: f64 = self.weights.iter().map(|weight| weight * weight).sum();
        let near = self.near_table();
        let merit: Vec<f64> = (self.scales.common.iter().zip(&self.scales.own))
            .map(|(common, own)| common + squares * own)
            .collect();
        let mut means = vec![0.0; size];
        let mut reduced = Matrix::zeros(size, self.points.len());
        let mut rows = Matrix::zeros(size, columns.max(1));
        let mut covariance = Matrix::zeros(size, size);
        for (row, &candidate) in candidates.iter().enumerate() {
            self.coding.write(candidate, &mut rows.row_mut(row)[..columns]);
            let scaled = |of: &dyn Fn(usize) -> f64| -> Vec<f64> {
                rows.row(row)[..columns].iter().enumerate().map(|(at, x)| x * of(at)).collect()
            };
            let of_workloads: Vec<Vec<f64>> = self
                .weights
                .iter()
                .map(|weight| scaled(&|at| self.scales.common[at] + weight * self.scales.own[at]))
                .collect();
            let runs = runs(&rows.row(row)[..columns]);
            let of_point = |(at, point): (usize, &CellPoint)| {
                let product = dot_of_runs(&runs, &of_workloads[point.workload], self.rows.row(at));
                product + self.own_part(candidate, point, &near)
            };
            let with_points: Vec<f64> = self.points.iter().enumerate().map(of_point).collect();
            means[row] = dot(&with_points, &self.alpha);
            reduced.row_mut(row).copy_from_slice(&with_points);
            let scaled = scaled(&|at| merit[at]);
            for (other, &second) in candidates[..=row].iter().enumerate() {
                let differences = self.coding.differences(candidate, second).min(255);
                covariance.row_mut(row)[other] =
                    dot_of_runs(&runs, &scaled, rows.row(other)) + near[differences];
            }
            covariance.row_mut(row)[row] += self.scales.candidate + squares * self.scales.cell;
        }
        self.factor.forward_all(&mut reduced);
        for row in 0..size {
            for other in 0..=row {
                covariance.row_mut(row)[other] -= dot(reduced.row(row), reduced.row(other));
            }
        }
        (means, covariance)
    }

    /// The posterior mean of a candidate, equal to that of [`Self::joint`].
    pub fn mean(&self, candidate: CandidateIndex) -> f64 {
        let mut row = vec![0.0; self.coding.columns()];
        self.coding.write(candidate, &mut row);
        let runs = runs(&row);
        let mut mean = 0.0;
        for (workload, weight) in self.weights.iter().enumerate() {
            let sums = self.sums.row(workload);
            for column in runs.iter().cloned().flatten() {
                let scale = self.scales.common[column] + weight * self.scales.own[column];
                mean += row[column] * scale * sums[column];
            }
        }
        let near = self.near_table();
        let own = self.points.iter().zip(&self.alpha);
        let own = own.map(|(point, alpha)| alpha * self.own_part(candidate, point, &near));
        mean + own.sum::<f64>()
    }

    /// The posterior mean of a candidate under one workload.
    pub fn mean_under(&self, candidate: CandidateIndex, workload: WorkloadIndex) -> f64 {
        let mut row = vec![0.0; self.coding.columns()];
        self.coding.write(candidate, &mut row);
        let mut mean = 0.0;
        for (of, sums) in (0..self.workloads()).map(|of| (of, self.sums.row(of))) {
            for (column, code) in row.iter().enumerate() {
                let own = if of == workload { self.scales.own[column] } else { 0.0 };
                mean += code * (self.scales.common[column] + own) * sums[column];
            }
        }
        let near = self.near_table();
        for (point, alpha) in self.points.iter().zip(&self.alpha) {
            let differences = self.coding.differences(candidate, point.candidate).min(255);
            let mut covariance = near[differences];
            if point.candidate == candidate {
                let own = if point.workload == workload { self.scales.cell } else { 0.0 };
                covariance += self.scales.candidate + own;
            }
            mean += alpha * covariance;
        }
        mean
    }

    /// The covariance of neighbors by the number of differences.
    fn near_table(&self) -> Vec<f64> {
        let mut value = self.scales.near;
        let next = |_: usize| {
            let here = value;
            value *= self.scales.decay;
            here
        };
        (0..256).map(next).collect()
    }

    /// The covariance of a candidate's merit with a point beyond the columns.
    fn own_part(&self, candidate: CandidateIndex, point: &CellPoint, near: &[f64]) -> f64 {
        let own = if point.candidate == candidate {
            self.scales.candidate + self.weights[point.workload] * self.scales.cell
        } else {
            0.0
        };
        own + near[self.coding.differences(candidate, point.candidate).min(255)]
    }
}

/// The covariance of two points beyond the candidates' merits.
fn covariance_beyond_merit(coding: &Coding, one: &CellPoint, other: &CellPoint, visit: f64) -> f64 {
    let mut sum = 0.0;
    if one.workload == other.workload && one.short == other.short {
        sum += LEVEL_SD.powi(2);
    }
    let same = one.candidate == other.candidate;
    if one.short && other.short {
        let (one, other) = (coding.mains_of(one.candidate), coding.mains_of(other.candidate));
        sum += BIAS_MAIN_SD.powi(2) * dot(one, other);
        sum += if same { BIAS_OWN_SD.powi(2) } else { 0.0 };
    }
    if same && one.short == other.short {
        let shares = one.batches.iter().flat_map(|(batch, share)| {
            let here = other.batches.iter().filter(move |(of, _)| of == batch);
            here.map(move |(_, other)| share * other)
        });
        sum += visit * shares.sum::<f64>();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::landscape::LandscapeKind;
    use crate::random::RandomStream;

    const NOISE_SD: f64 = 0.02;

    /// One noisy measurement of each cell.
    fn points(
        cells: &[(usize, usize)],
        truth: &[Vec<f64>],
        random: &mut RandomStream,
    ) -> Vec<CellPoint> {
        let point = |&(candidate, workload): &(usize, usize)| CellPoint {
            candidate,
            workload,
            short: false,
            value: truth[candidate][workload] + NOISE_SD * random.normal(),
            variance: NOISE_SD.powi(2),
            batches: vec![(0, 1.0)],
        };
        cells.iter().map(point).collect()
    }

    #[test]
    fn a_few_trials_per_workload_determine_an_effect_shared_by_all_workloads() {
        let space = LandscapeKind::Small.make(3).space;
        let all: Vec<usize> = (0..space.candidates.len()).collect();
        let coding = Coding::of(&space, &all);
        let mut random = RandomStream::new(3);
        // One column has 10 % in all workloads, another 20 % and -20 % alternately.
        let truth: Vec<Vec<f64>> = all
            .iter()
            .map(|&candidate| {
                let mains = coding.mains_of(candidate);
                let of = |sign: f64| 0.1 * mains[1] + sign * 0.2 * mains[2];
                [1.0, -1.0, 1.0, -1.0, 1.0, -1.0].map(of).to_vec()
            })
            .collect();
        let cells: Vec<(usize, usize)> =
            (0..72).map(|trial| (random.below(all.len()), trial % 6)).collect();
        let points = points(&cells, &truth, &mut random);
        let guess = ExactScales::guess(&coding, 0.05);
        let exact = ExactPosterior::of(&coding, space.weights(), points, guess, 0.0).learned();
        let scales = exact.scales();
        for column in 0..coding.mains() {
            let (common, own) = (scales.common[column], scales.own[column]);
            assert!(column == 1 || scales.common[1] > 4.0 * common, "{column}: {scales:?}");
            assert!(column == 2 || scales.own[2] > 10.0 * own, "{column}: {scales:?}");
        }
        let truth = |candidate: usize| truth[candidate].iter().sum::<f64>() / 6.0;
        let off: Vec<f64> =
            all.iter().map(|&candidate| exact.mean(candidate) - truth(candidate)).collect();
        let mean = off.iter().sum::<f64>() / 120.0;
        let error = off.iter().map(|off| (off - mean).powi(2)).sum::<f64>() / 120.0;
        assert!(error.sqrt() < 0.02, "{}", error.sqrt());
    }

    #[test]
    fn the_joint_posterior_has_the_same_means_and_less_variance_at_trials() {
        let landscape = LandscapeKind::Small.make(5);
        let space = &landscape.space;
        let all: Vec<usize> = (0..space.candidates.len()).collect();
        let coding = Coding::of(space, &all);
        let cells: Vec<(usize, usize)> = (0..60).map(|trial| (trial / 6, trial % 6)).collect();
        let points = points(&cells, &landscape.truth, &mut RandomStream::new(5));
        let guess = ExactScales::guess(&coding, 0.05);
        let exact = ExactPosterior::of(&coding, space.weights(), points, guess, 1e-4);
        let (means, covariance) = exact.joint(&all);
        for &candidate in &all {
            assert!((means[candidate] - exact.mean(candidate)).abs() < 1e-9);
        }
        let doubt = |candidate: usize| covariance.row(candidate)[candidate];
        let most_of_tried = (0..10).map(doubt).fold(0.0, f64::max);
        assert!((10..all.len()).all(|candidate| doubt(candidate) > most_of_tried));
        assert!(most_of_tried > 0.0);
    }

    #[test]
    fn bias_of_short_trials_and_visit_effects_increase_the_variance() {
        let space = LandscapeKind::Small.make(7).space;
        let all: Vec<usize> = (0..space.candidates.len()).collect();
        let coding = Coding::of(&space, &all);
        let doubt = |short: bool, visit: f64| {
            let point = |workload: usize| CellPoint {
                candidate: 4,
                workload,
                short,
                value: 0.0,
                variance: 1e-4,
                batches: vec![(1, 1.0)],
            };
            let guess = ExactScales::guess(&coding, 0.05);
            let points = (0..6).map(point).collect();
            let (_, covariance) =
                ExactPosterior::of(&coding, space.weights(), points, guess, visit).joint(&[4, 5]);
            covariance.row(0)[0]
        };
        assert!(doubt(true, 0.0) > doubt(false, 0.0));
        assert!(doubt(false, 0.01) > doubt(false, 0.0));
    }
}
