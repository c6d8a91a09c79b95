//! The posterior of every candidate's overall merit: a Gaussian process over candidates.
//!
//! The kernel is a sum of three parts: effects of levels and of pairs of levels (each column with
//! its own variance, shrunk towards that of its group), a part that decays with the number of
//! differences (interactions of three or more factors), and an independent residual per candidate.
//! Short trials observe the merit with a bias of the same structure. The variances are learned
//! ([`super::variances`]).
//!
//! Source of the additive kernel with learned variances: D. Duvenaud and others, Additive Gaussian
//! Processes, 2011.

use crate::space::CandidateIndex;

use super::coding::{Coding, Term};
use super::exact::ExactScales;
use super::linear::{Cholesky, Matrix, add_scaled, dot};

/// An estimate of a candidate's merit from its own trials of one length.
#[derive(Debug, Clone, Copy)]
pub struct MeritEstimate {
    pub candidate: CandidateIndex,
    /// Whether from short trials.
    pub short: bool,
    /// The estimate, in natural logarithm.
    pub value: f64,
    /// The variance of its error.
    pub variance: f64,
}

/// The smallest standard deviations of effects, interactions and candidate residuals.
pub(super) const MIN_MAIN_SD: f64 = 0.003;
pub(super) const MIN_PAIR_SD: f64 = 0.001;
pub(super) const MIN_OWN_SD: f64 = 0.003;
/// Factor on the correlation for each difference.
pub(super) const PER_DIFFERENCE: f64 = 0.7;
/// Standard deviations of the bias of short trials, by effect and by candidate.
pub(super) const BIAS_MAIN_SD: f64 = 0.02;
pub(super) const BIAS_OWN_SD: f64 = 0.01;
/// Prior standard deviation of the overall mean.
const MEAN_SD: f64 = 0.5;

/// The variances of the kernel's parts.
#[derive(Debug, Clone)]
pub struct Scales {
    pub(super) columns: Vec<f64>,
    pub(super) main_group: f64,
    pub(super) pair_group: f64,
    pub(super) near: f64,
    pub(super) own: f64,
    /// Those of the joint fit: none, one estimate, or samples.
    pub(super) exact: Vec<ExactScales>,
}

impl Scales {
    /// Initial guess for merits with this total variance.
    pub fn guess(coding: &Coding, variance: f64) -> Self {
        let mains = coding.mains().clamp(1, 12) as f64;
        let main_group = (0.7 * variance / mains).max(MIN_MAIN_SD.powi(2));
        let pair_group = (main_group / 16.0).max(MIN_PAIR_SD.powi(2));
        let columns = (0..coding.columns())
            .map(|column| if column < coding.mains() { main_group } else { pair_group })
            .collect();
        let rest = (0.05 * variance).max(MIN_OWN_SD.powi(2));
        Self { columns, main_group, pair_group, near: rest, own: rest, exact: Vec::new() }
    }
}

#[derive(Debug, Clone)]
pub struct MeritSurface<'a> {
    pub(super) coding: &'a Coding,
    pub(super) points: Vec<MeritEstimate>,
    pub(super) scales: Scales,
    pub(super) rows: Matrix,
    /// Lower triangles that do not depend on the variances: the nearness of the points, and the
    /// covariance of the overall mean and of the bias of short trials.
    nearness: Matrix,
    fixed: Matrix,
    /// The lower triangle of the points' covariance without noise.
    prior: Matrix,
    pub(super) factor: Cholesky,
    pub(super) alpha: Vec<f64>,
    /// The posterior means of the columns' coefficients.
    pub(super) coefficients: Vec<f64>,
    decay: Vec<f64>,
}

/// The ranges of nonzero values. Most columns belong to other families and are zero, and those of a
/// family are adjacent.
pub(super) fn runs(values: &[f64]) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for at in (0..values.len()).filter(|&at| values[at] != 0.0) {
        match found.last_mut() {
            Some(run) if at - run.end < 4 => run.end = at + 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}

/// The first nonzero row of a column. Candidates are sorted by family, and those before a factor's
/// family have 0 in its columns.
fn first_of(column: &[f64]) -> usize {
    column.iter().position(|code| *code != 0.0).unwrap_or(column.len())
}

pub(super) fn dot_of_runs(runs: &[std::ops::Range<usize>], one: &[f64], other: &[f64]) -> f64 {
    runs.iter().map(|run| dot(&one[run.clone()], &other[run.clone()])).sum()
}

fn decay_table() -> Vec<f64> {
    (0..64).map(|differences| PER_DIFFERENCE.powi(differences)).collect()
}

impl<'a> MeritSurface<'a> {
    /// The posterior given points and fixed variances.
    pub fn of(coding: &'a Coding, points: Vec<MeritEstimate>, scales: Scales) -> Self {
        let mut rows = Matrix::zeros(points.len(), coding.columns());
        for (row, point) in points.iter().enumerate() {
            coding.write(point.candidate, rows.row_mut(row));
        }
        let count = points.len();
        let mut surface = Self {
            coding,
            points,
            scales,
            rows,
            nearness: Matrix::zeros(count, count),
            fixed: Matrix::zeros(count, count),
            prior: Matrix::zeros(count, count),
            factor: Cholesky::of(Matrix::zeros(0, 0)),
            alpha: Vec::new(),
            coefficients: Vec::new(),
            decay: decay_table(),
        };
        for row in 0..count {
            for column in 0..=row {
                let (one, other) = (&surface.points[row], &surface.points[column]);
                let near = surface.near(one.candidate, other.candidate);
                let fixed = surface.fixed(one, other);
                surface.nearness.row_mut(row)[column] = near;
                surface.fixed.row_mut(row)[column] = fixed;
            }
        }
        surface.build();
        surface.solve();
        surface
    }

    /// Replaces the values and variances of the points.
    ///
    /// # Panics
    /// If the points belong to other candidates.
    pub fn given(mut self, points: Vec<MeritEstimate>) -> Self {
        let same = |(one, other): (&MeritEstimate, &MeritEstimate)| {
            one.candidate == other.candidate && one.short == other.short
        };
        assert!(points.len() == self.points.len() && points.iter().zip(&self.points).all(same));
        self.points = points;
        self.solve();
        self
    }

    pub fn scales(&self) -> &Scales {
        &self.scales
    }

    /// One row per column; their dot products are the reduction of the prior covariance of the
    /// columns' coefficients by the points.
    pub(super) fn reduced_columns(&self) -> Matrix {
        let mut reduced = self.rows.transposed();
        for column in 0..reduced.rows() {
            let scale = self.scales.columns[column];
            let row = reduced.row_mut(column);
            row.iter_mut().for_each(|code| *code *= scale);
            self.factor.forward_from(row, first_of(row));
        }
        reduced
    }

    /// The nearness of two points, `other` not after `point`.
    pub(super) fn nearness(&self, point: usize, other: usize) -> f64 {
        self.nearness.row(point)[other]
    }

    fn near(&self, one: CandidateIndex, other: CandidateIndex) -> f64 {
        let differences = self.coding.differences(one, other);
        self.decay[differences.min(self.decay.len() - 1)]
    }

    /// The part of two points' covariance that does not depend on learned variances.
    fn fixed(&self, one: &MeritEstimate, other: &MeritEstimate) -> f64 {
        let mut sum = MEAN_SD.powi(2);
        if one.short && other.short {
            let mains =
                dot(self.coding.mains_of(one.candidate), self.coding.mains_of(other.candidate));
            sum += BIAS_MAIN_SD.powi(2) * mains;
            if one.candidate == other.candidate {
                sum += BIAS_OWN_SD.powi(2);
            }
        }
        sum
    }

    /// The covariance of two candidates' merits without the fixed part. `product` is the dot
    /// product of their columns weighted by the columns' variances.
    fn learned_covariance(&self, same: bool, near: f64, product: f64) -> f64 {
        let own = if same { self.scales.own } else { 0.0 };
        product + self.scales.near * near + own
    }

    /// The covariance of two candidates' merits in full-length trials.
    fn covariance(&self, one: CandidateIndex, other: CandidateIndex, product: f64) -> f64 {
        MEAN_SD.powi(2) + self.learned_covariance(one == other, self.near(one, other), product)
    }

    pub(super) fn build(&mut self) {
        let mut scaled = vec![0.0; self.coding.columns()];
        for row in 0..self.points.len() {
            for ((value, code), scale) in
                scaled.iter_mut().zip(self.rows.row(row)).zip(&self.scales.columns)
            {
                *value = code * scale;
            }
            let runs = runs(&scaled);
            for column in 0..=row {
                let product = dot_of_runs(&runs, &scaled, self.rows.row(column));
                let same = self.points[row].candidate == self.points[column].candidate;
                self.prior.row_mut(row)[column] = self.fixed.row(row)[column]
                    + self.learned_covariance(same, self.nearness(row, column), product);
            }
        }
    }

    pub(super) fn solve(&mut self) {
        let mut matrix = self.prior.clone();
        for (row, point) in self.points.iter().enumerate() {
            matrix.row_mut(row)[row] += point.variance;
        }
        self.factor = Cholesky::of(matrix);
        self.alpha = self.points.iter().map(|point| point.value).collect();
        self.factor.solve(&mut self.alpha);
        self.coefficients = vec![0.0; self.coding.columns()];
        for (row, alpha) in self.alpha.iter().enumerate() {
            add_scaled(&mut self.coefficients, *alpha, self.rows.row(row));
        }
        for (value, scale) in self.coefficients.iter_mut().zip(&self.scales.columns) {
            *value *= scale;
        }
    }

    /// The effective degrees of freedom of the fit.
    pub fn freedom(&self) -> f64 {
        let mut unit = vec![0.0; self.points.len()];
        let mut sum = 0.0;
        for (row, point) in self.points.iter().enumerate() {
            unit.fill(0.0);
            unit[row] = 1.0;
            self.factor.forward_from(&mut unit, row);
            sum += 1.0 - point.variance * dot(&unit[row..], &unit[row..]);
        }
        sum
    }

    /// The part of a candidate's posterior mean due to levels and pairs of levels.
    pub fn mean_of_columns(&self, candidate: CandidateIndex) -> f64 {
        self.coding.sum(candidate, &self.coefficients)
    }

    /// The posterior mean of a candidate's merit in full-length trials.
    pub fn mean(&self, candidate: CandidateIndex) -> f64 {
        let mut sum = self.coding.sum(candidate, &self.coefficients);
        for (point, alpha) in self.points.iter().zip(&self.alpha) {
            let mut kernel =
                MEAN_SD.powi(2) + self.scales.near * self.near(candidate, point.candidate);
            if candidate == point.candidate {
                kernel += self.scales.own;
            }
            sum += kernel * alpha;
        }
        sum
    }

    /// The posterior mean of the bias of a candidate's short trials.
    pub fn short_bias(&self, candidate: CandidateIndex) -> f64 {
        let mains = self.coding.mains_of(candidate);
        let short = self.points.iter().zip(&self.alpha).filter(|(point, _)| point.short);
        short
            .map(|(point, alpha)| {
                let mut kernel =
                    BIAS_MAIN_SD.powi(2) * dot(mains, self.coding.mains_of(point.candidate));
                if point.candidate == candidate {
                    kernel += BIAS_OWN_SD.powi(2);
                }
                kernel * alpha
            })
            .sum()
    }

    /// The joint posterior of some candidates in full-length trials: means, and the lower triangle
    /// of the covariance.
    pub fn joint(&self, candidates: &[CandidateIndex]) -> (Vec<f64>, Matrix) {
        let size = candidates.len();
        let mut means = vec![0.0; size];
        let mut reduced = Matrix::zeros(size, self.points.len().max(1));
        let mut rows = Matrix::zeros(size, self.coding.columns().max(1));
        let mut scaled = vec![0.0; self.coding.columns()];
        let mut covariance = Matrix::zeros(size, size);
        for row in 0..size {
            self.coding.write(candidates[row], &mut rows.row_mut(row)[..scaled.len()]);
            for ((value, code), scale) in
                scaled.iter_mut().zip(rows.row(row)).zip(&self.scales.columns)
            {
                *value = code * scale;
            }
            let runs = runs(&scaled);
            for (column, point) in self.points.iter().enumerate() {
                let product = dot_of_runs(&runs, &scaled, self.rows.row(column));
                reduced.row_mut(row)[column] =
                    self.covariance(candidates[row], point.candidate, product);
            }
            if !self.points.is_empty() {
                means[row] = dot(reduced.row(row), &self.alpha);
                self.factor.forward(reduced.row_mut(row));
            }
            for column in 0..=row {
                let product = dot_of_runs(&runs, &scaled, rows.row(column));
                let prior = self.covariance(candidates[row], candidates[column], product);
                covariance.row_mut(row)[column] =
                    prior - dot(reduced.row(row), reduced.row(column));
            }
        }
        (means, covariance)
    }

    /// The posterior of one term's columns: means and the lower triangle of the covariance.
    pub fn coefficients_of(&self, term: Term) -> (Vec<f64>, Matrix) {
        let wanted: Vec<usize> = (0..self.coding.columns())
            .filter(|column| self.coding.terms()[*column] == term)
            .collect();
        let mut reduced = Matrix::zeros(wanted.len(), self.points.len().max(1));
        for (row, &column) in wanted.iter().enumerate() {
            for point in 0..self.points.len() {
                reduced.row_mut(row)[point] =
                    self.scales.columns[column] * self.rows.row(point)[column];
            }
            if !self.points.is_empty() {
                self.factor.forward(reduced.row_mut(row));
            }
        }
        let mut covariance = Matrix::zeros(wanted.len(), wanted.len());
        for (row, &of_row) in wanted.iter().enumerate() {
            for column in 0..=row {
                let prior = if row == column { self.scales.columns[of_row] } else { 0.0 };
                covariance.row_mut(row)[column] =
                    prior - dot(reduced.row(row), reduced.row(column));
            }
        }
        (wanted.iter().map(|&column| self.coefficients[column]).collect(), covariance)
    }
}
