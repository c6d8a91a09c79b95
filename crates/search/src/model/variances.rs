//! Learns the variances of the surface's parts.
//!
//! A column's variance lies between its own square and that of its group, since most options have
//! little effect and some have much. A group's variance is the mean square of its effects, each
//! weighted by how well the data determine it (D. MacKay, Bayesian Interpolation, 1992), so the
//! prior of untried options comes from the effects of tried ones. The other parts move to the fixed
//! point of the derivative of the marginal likelihood.
//!
//! Source of the columns' prior: M. Tipping, Sparse Bayesian Learning, 2001, with a floor.

use super::linear::dot;
use super::surface::{MIN_MAIN_SD, MIN_OWN_SD, MIN_PAIR_SD, MeritSurface};

/// Weight of a column's group relative to the column's own square. A smaller weight trusts the few
/// strong effects more and shrinks the many weak ones more.
const NU: f64 = 1.0;
/// Iterations, and those that update the columns; the other variances, which depend on the columns,
/// settle later.
const ROUNDS: usize = 12;
const COLUMN_ROUNDS: usize = 6;
/// The largest factor by which an iteration may change a variance.
const MAX_STEP: f64 = 4.0;
const MAX: f64 = 4.0;

/// Moves a variance towards a target, within the step and range limits.
pub(super) fn step(from: f64, to: f64, least_sd: f64) -> f64 {
    to.clamp(from / MAX_STEP, from * MAX_STEP).clamp(least_sd.powi(2), MAX)
}

/// The ratio, or `otherwise` if the data determine nothing.
pub(super) fn ratio(wanted: f64, allowed: f64, otherwise: f64) -> f64 {
    if allowed > 0.0 { wanted / allowed } else { otherwise }
}

impl MeritSurface<'_> {
    /// Learns the variances from the points.
    pub fn learned(mut self) -> Self {
        for round in 0..ROUNDS {
            if round < COLUMN_ROUNDS {
                self.improve_columns();
            }
            self.improve_rest();
            self.build();
            self.solve();
        }
        self
    }

    fn improve_columns(&mut self) {
        let reduced = self.reduced_columns();
        let mains = self.coding.mains();
        let mut squares = Vec::with_capacity(reduced.rows());
        // The sum of squares of each group's effects, and the number that the data determine.
        let mut groups = [(0.0, 0.0); 2];
        for column in 0..reduced.rows() {
            let scale = self.scales.columns[column];
            let mean = self.coefficients[column];
            let determined = dot(reduced.row(column), reduced.row(column)) / scale;
            squares.push(mean * mean + scale * (1.0 - determined));
            let group = &mut groups[usize::from(column >= mains)];
            group.0 += mean * mean;
            group.1 += determined;
        }
        let scales = &mut self.scales;
        let [of_mains, of_pairs] = groups;
        let main = ratio(of_mains.0, of_mains.1, scales.main_group);
        let pair = ratio(of_pairs.0, of_pairs.1, scales.pair_group);
        scales.main_group = step(scales.main_group, main, MIN_MAIN_SD);
        scales.pair_group = step(scales.pair_group, pair, MIN_PAIR_SD);
        for (column, square) in squares.iter().enumerate() {
            let of = if column < mains { scales.main_group } else { scales.pair_group };
            scales.columns[column] = NU.mul_add(of, *square) / (NU + 1.0);
        }
    }

    /// Learns the variances of the parts that are not columns.
    fn improve_rest(&mut self) {
        let inverse = self.factor.inverse_columns();
        let (mut near, mut own) = ((0.0, 0.0), (0.0, 0.0));
        for row in 0..self.points.len() {
            for column in 0..=row {
                // The matrix is symmetric: count off-diagonal entries twice.
                let times = if row == column { 1.0 } else { 2.0 };
                let product = times * self.alpha[row] * self.alpha[column];
                let common = dot(&inverse.row(row)[row..], &inverse.row(column)[row..]);
                let kernel = self.nearness(row, column);
                near.0 += product * kernel;
                near.1 += times * common * kernel;
                if self.points[row].candidate == self.points[column].candidate {
                    own.0 += product;
                    own.1 += times * common;
                }
            }
        }
        let scales = &mut self.scales;
        scales.near = step(scales.near, scales.near * ratio(near.0, near.1, 1.0), MIN_OWN_SD);
        scales.own = step(scales.own, scales.own * ratio(own.0, own.1, 1.0), MIN_OWN_SD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::landscape::LandscapeKind;
    use crate::model::{Coding, MeritEstimate, Scales};
    use crate::random::RandomStream;

    #[test]
    fn sparse_main_effects_leave_no_residual_variance() {
        let space = LandscapeKind::Smooth.make(160).space;
        let all: Vec<usize> = (0..space.candidates.len()).collect();
        let coding = Coding::of(&space, &all);
        let mut random = RandomStream::new(160);
        // One column in three has an effect.
        let effects: Vec<f64> = (0..coding.mains())
            .map(|column| if column % 3 == 0 { 0.08 * random.normal() } else { 0.0 })
            .collect();
        let mut tried: Vec<usize> = (0..150).map(|_| random.below(all.len())).collect();
        tried.sort_unstable();
        let noise_sd: f64 = 0.05;
        let points = tried
            .iter()
            .map(|&candidate| MeritEstimate {
                candidate,
                short: false,
                value: noise_sd.mul_add(random.normal(), dot(coding.mains_of(candidate), &effects)),
                variance: noise_sd.powi(2),
            })
            .collect();
        let surface = MeritSurface::of(&coding, points, Scales::guess(&coding, 0.05)).learned();
        let scales = surface.scales();
        assert!(scales.own.sqrt() < 0.01, "{}", scales.own.sqrt());
        assert!(scales.near.sqrt() < 0.01, "{}", scales.near.sqrt());
        let squares: f64 = effects.iter().map(|effect| effect * effect).sum();
        let truth = (squares / coding.mains() as f64).sqrt();
        let found = scales.main_group.sqrt();
        assert!((0.6..1.7).contains(&(found / truth)), "{found} {truth}");
        assert!(scales.pair_group.sqrt() < 0.01, "{}", scales.pair_group.sqrt());
    }
}
