//! What is believed of the overall merit of every candidate: a Gaussian process over candidates.
//!
//! Its kernel adds up effects of levels and of pairs of levels (each column with a variance of its
//! own, shrunk towards its group's: most options do little, some much), a part that falls off with
//! the number of differences (interactions of three and more), and a part that is each candidate's
//! own. Short trials see the merit through a bias of the same make. The variances are learned by
//! expectation maximisation, with Student's distribution (`NU` degrees of freedom) as prior of each
//! effect.
//!
//! Source of the additive kernel with learned variances: D. Duvenaud and others, Additive Gaussian
//! Processes, 2011; of the effects' prior: M. Tipping, Sparse Bayesian Learning, 2001, with a
//! floor.

use crate::space::CandidateIndex;

use super::coding::{Coding, Term};
use super::linear::{Cholesky, Matrix, add_scaled, dot};

/// An estimate of a candidate's merit from its own trials of one length.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// Of which candidate.
    pub candidate: CandidateIndex,
    /// Whether from short trials.
    pub short: bool,
    /// The estimate, in natural logarithm.
    pub value: f64,
    /// The variance of its error.
    pub variance: f64,
}

/// Degrees of freedom of the prior of an effect.
const NU: f64 = 4.0;
/// The least that an effect, an interaction and a candidate's own part are taken to vary.
const LEAST_MAIN_SD: f64 = 0.003;
const LEAST_PAIR_SD: f64 = 0.001;
const LEAST_OWN_SD: f64 = 0.003;
/// How much correlation is left after each difference.
const PER_DIFFERENCE: f64 = 0.7;
/// What short trials are taken to get wrong: each effect, and each candidate.
const BIAS_MAIN_SD: f64 = 0.02;
const BIAS_OWN_SD: f64 = 0.01;
/// How far the mean of all may be from 0.
const MEAN_SD: f64 = 0.5;
/// How often variances are improved when they are learned.
const ROUNDS: usize = 4;

fn step(scale: f64, (wanted, allowed): (f64, f64), least: f64) -> f64 {
    let ratio = if allowed > 0.0 { wanted / allowed } else { 1.0 };
    (scale * ratio.clamp(0.25, 4.0)).clamp(least.powi(2), 4.0)
}

/// The variances of the kernel's parts.
#[derive(Debug, Clone)]
pub struct Scales {
    columns: Vec<f64>,
    main_group: f64,
    pair_group: f64,
    near: f64,
    own: f64,
}

impl Scales {
    /// A first guess where merits vary by this variance in all.
    pub fn guess(coding: &Coding, variance: f64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "columns are few")]
        let mains = coding.mains().clamp(1, 12) as f64;
        let main_group = (0.7 * variance / mains).max(LEAST_MAIN_SD.powi(2));
        let pair_group = (main_group / 16.0).max(LEAST_PAIR_SD.powi(2));
        let columns = (0..coding.columns())
            .map(|column| if column < coding.mains() { main_group } else { pair_group })
            .collect();
        let rest = (0.05 * variance).max(LEAST_OWN_SD.powi(2));
        Self { columns, main_group, pair_group, near: rest, own: rest }
    }
}

/// The posterior.
#[derive(Debug, Clone)]
pub struct Surface<'a> {
    coding: &'a Coding,
    points: Vec<Point>,
    scales: Scales,
    rows: Matrix,
    /// The lower triangle of the points' covariance without noise.
    prior: Matrix,
    factor: Cholesky,
    alpha: Vec<f64>,
    /// The posterior means of the columns' coefficients.
    coefficients: Vec<f64>,
    decay: Vec<f64>,
}

/// Where values are not 0. Most columns of a candidate are those of other families, and lie
/// together.
fn runs(values: &[f64]) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for at in (0..values.len()).filter(|&at| values[at] != 0.0) {
        match found.last_mut() {
            Some(run) if at - run.end < 4 => run.end = at + 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}

fn dot_of_runs(runs: &[std::ops::Range<usize>], one: &[f64], other: &[f64]) -> f64 {
    runs.iter().map(|run| dot(&one[run.clone()], &other[run.clone()])).sum()
}

fn decay_table() -> Vec<f64> {
    (0..64).map(|differences| PER_DIFFERENCE.powi(differences)).collect()
}

impl<'a> Surface<'a> {
    /// Given these points, with the variances as they are.
    pub fn of(coding: &'a Coding, points: Vec<Point>, scales: Scales) -> Self {
        let mut rows = Matrix::zeros(points.len(), coding.columns());
        for (row, point) in points.iter().enumerate() {
            coding.write(point.candidate, rows.row_mut(row));
        }
        let mut surface = Self {
            coding,
            points,
            scales,
            rows,
            prior: Matrix::zeros(0, 0),
            factor: Cholesky::of(Matrix::zeros(0, 0)),
            alpha: Vec::new(),
            coefficients: Vec::new(),
            decay: decay_table(),
        };
        surface.build();
        surface.solve();
        surface
    }

    /// The same with other values and variances of the same points.
    ///
    /// # Panics
    /// When the points are of other candidates.
    pub fn given(mut self, points: Vec<Point>) -> Self {
        let same = |(one, other): (&Point, &Point)| {
            one.candidate == other.candidate && one.short == other.short
        };
        assert!(points.len() == self.points.len() && points.iter().zip(&self.points).all(same));
        self.points = points;
        self.solve();
        self
    }

    /// The same with the variances learned from the points.
    pub fn learned(mut self) -> Self {
        for round in 0..ROUNDS {
            self.improve_columns();
            if round % 2 == 1 {
                self.improve_rest();
            }
            self.build();
            self.solve();
        }
        self
    }

    /// The variances.
    pub fn scales(&self) -> &Scales {
        &self.scales
    }

    /// The variance of a candidate's own part.
    pub fn own_variance(&self) -> f64 {
        self.scales.own
    }

    fn near(&self, one: CandidateIndex, other: CandidateIndex) -> f64 {
        let differences = self.coding.differences(one, other);
        self.decay[differences.min(self.decay.len() - 1)]
    }

    /// The covariance of what two points see, without noise; `product` is that of their columns
    /// with the columns' variances.
    fn covariance(&self, one: &Point, other: &Point, product: f64) -> f64 {
        let mut sum = MEAN_SD.powi(2) + product;
        sum += self.scales.near * self.near(one.candidate, other.candidate);
        let same = one.candidate == other.candidate;
        if same {
            sum += self.scales.own;
        }
        if one.short && other.short {
            let mains =
                dot(self.coding.mains_of(one.candidate), self.coding.mains_of(other.candidate));
            sum += BIAS_MAIN_SD.powi(2) * mains;
            if same {
                sum += BIAS_OWN_SD.powi(2);
            }
        }
        sum
    }

    fn build(&mut self) {
        let count = self.points.len();
        self.prior = Matrix::zeros(count, count);
        let mut scaled = vec![0.0; self.coding.columns()];
        for row in 0..count {
            for ((value, code), scale) in
                scaled.iter_mut().zip(self.rows.row(row)).zip(&self.scales.columns)
            {
                *value = code * scale;
            }
            let runs = runs(&scaled);
            for column in 0..=row {
                let product = dot_of_runs(&runs, &scaled, self.rows.row(column));
                self.prior.row_mut(row)[column] =
                    self.covariance(&self.points[row], &self.points[column], product);
            }
        }
    }

    fn solve(&mut self) {
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

    /// How many degrees of freedom the points' values are fitted with.
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

    /// One round of expectation maximisation over the variances.
    fn improve_columns(&mut self) {
        let columns = self.rows.transposed();
        let mut found = Vec::with_capacity(columns.rows());
        // By how much the data wants a group of columns against what it allows: the fixed point of
        // the marginal likelihood's derivative, which is reached much sooner than by expectations.
        let mut groups = [(0.0, 0.0); 2];
        for column in 0..columns.rows() {
            let scale = self.scales.columns[column];
            let mut code = columns.row(column).to_vec();
            // Candidates are in the order of their families: a column of a late family is 0 first.
            let first = code.iter().position(|code| *code != 0.0).unwrap_or(code.len());
            self.factor.forward_from(&mut code, first);
            let mean = self.coefficients[column];
            let known = dot(&code[first..], &code[first..]);
            found.push(mean * mean + scale - scale * scale * known);
            let group = &mut groups[usize::from(column >= self.coding.mains())];
            group.0 += mean * mean / scale;
            group.1 += scale * known;
        }
        let mains = self.coding.mains();
        self.scales.main_group = step(self.scales.main_group, groups[0], LEAST_MAIN_SD);
        self.scales.pair_group = step(self.scales.pair_group, groups[1], LEAST_PAIR_SD);
        for (column, square) in found.iter().enumerate() {
            let of = if column < mains { self.scales.main_group } else { self.scales.pair_group };
            self.scales.columns[column] = NU.mul_add(of, *square) / (NU + 1.0);
        }
    }

    /// The parts that are no columns, likewise.
    fn improve_rest(&mut self) {
        let count = self.points.len();
        let mut inverse = Matrix::zeros(count, count);
        for row in 0..count {
            inverse.row_mut(row)[row] = 1.0;
        }
        for row in 0..count {
            self.factor.solve(inverse.row_mut(row));
        }
        let (mut near, mut own) = ((0.0, 0.0), (0.0, 0.0));
        for row in 0..count {
            for column in 0..count {
                let (one, other) = (self.points[row].candidate, self.points[column].candidate);
                let product = self.alpha[row] * self.alpha[column];
                let allowed = inverse.row(row)[column];
                let kernel = self.near(one, other);
                near.0 += product * kernel;
                near.1 += allowed * kernel;
                if one == other {
                    own.0 += product;
                    own.1 += allowed;
                }
            }
        }
        self.scales.near = step(self.scales.near, near, LEAST_OWN_SD);
        self.scales.own = step(self.scales.own, own, LEAST_OWN_SD);
    }

    /// The part of a candidate's believed merit that its levels and pairs of levels make.
    pub fn mean_of_columns(&self, candidate: CandidateIndex) -> f64 {
        self.coding.sum(candidate, &self.coefficients)
    }

    /// The believed merit of a candidate in full-length trials.
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

    /// What is believed of how short trials of a candidate are biased.
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

    /// The joint belief about some candidates in full-length trials: means, and the lower triangle
    /// of the covariance.
    pub fn joint(&self, candidates: &[CandidateIndex]) -> (Vec<f64>, Matrix) {
        let size = candidates.len();
        let mut means = vec![0.0; size];
        let mut reduced = Matrix::zeros(size, self.points.len().max(1));
        let mut rows = Matrix::zeros(size, self.coding.columns().max(1));
        let mut scaled = vec![0.0; self.coding.columns()];
        let full: Vec<Point> = candidates
            .iter()
            .map(|&candidate| Point { candidate, short: false, value: 0.0, variance: 0.0 })
            .collect();
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
                reduced.row_mut(row)[column] = self.covariance(&full[row], point, product);
            }
            if !self.points.is_empty() {
                means[row] = dot(reduced.row(row), &self.alpha);
                self.factor.forward(reduced.row_mut(row));
            }
            for column in 0..=row {
                let product = dot_of_runs(&runs, &scaled, rows.row(column));
                let prior = self.covariance(&full[row], &full[column], product);
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
