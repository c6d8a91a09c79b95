//! Samples of the variances of [`super::exact`] from their posterior, instead of one estimate.
//!
//! With few cells, the data hardly determine how much setups differ. An estimate then often says
//! "not at all", and a search that trusts it stops too early. Here the standard deviation of each
//! group of effects has a half-Cauchy prior (A. Gelman, Prior distributions for variance parameters
//! in hierarchical models, 2006). A random walk (Metropolis and others, 1953) on their logarithms,
//! the decay of the neighborhood and the noise gives a few samples, which the belief mixes. The
//! variance of each column relative to its group is set between the walks as in
//! [`super::exact_variances`].
//!
//! Limit: the work grows with the cube of the number of cells, so there is a most, above which the
//! estimate is used.

use crate::random::RandomStream;

use super::exact::{ExactPosterior, ExactScales};

/// The number of samples.
pub const SAMPLES: usize = 6;
/// The most cells.
const MAX_CELLS: usize = 220;
/// Steps of the walk before the first sample, and between samples; fewer from [`MANY_CELLS`] on.
const FIRST_STEPS: usize = 48;
const STEPS: usize = 12;
const MANY_CELLS: usize = 110;
/// The standard deviation of a step in the logarithm of a standard deviation.
const STEP_SD: f64 = 0.6;
/// The degrees of freedom of the noise estimate in addition to the repeats.
const NOISE_PRIOR_FREEDOM: f64 = 4.0;

/// What the walk moves: the logarithms of the standard deviations of the groups, then the others.
const COMMON_MAIN: usize = 0;
const COMMON_PAIR: usize = 1;
const OWN_MAIN: usize = 2;
const OWN_PAIR: usize = 3;
const NEAR: usize = 4;
const CANDIDATE: usize = 5;
const CELL: usize = 6;
/// The logit of the decay per difference, and the logarithm of the factor on the noise.
const DECAY: usize = 7;
const NOISE: usize = 8;
const PARAMETERS: usize = 9;

/// The scales of the half-Cauchy priors.
const PRIOR_SD: [f64; 7] = [0.1, 0.03, 0.06, 0.02, 0.05, 0.02, 0.03];
/// The least standard deviation, where the walk ends.
const LEAST_SD: f64 = 1e-4;

/// Whether variances of this many cells are sampled.
pub fn is_feasible(cells: usize) -> bool {
    cells <= MAX_CELLS
}

type State = [f64; PARAMETERS];

impl<'a> ExactPosterior<'a> {
    /// Samples, starting from these variances. `repeats` is the number of degrees of freedom of the
    /// noise.
    pub fn sampled(mut self, repeats: f64, random: &mut RandomStream) -> Vec<Self> {
        let mut state = self.state();
        let mut relative = self.relative();
        let mut score = self.score(&state, repeats);
        let slower = if self.points.len() > MANY_CELLS { 2 } else { 1 };
        let mut samples = Vec::new();
        let mut varying: Vec<usize> = (0..PARAMETERS).collect();
        if self.workloads() < 2 {
            // Common and specific effects are the same.
            varying.retain(|at| ![OWN_MAIN, OWN_PAIR, CELL].contains(at));
        }
        if self.coding.columns() == self.coding.mains() {
            varying.retain(|at| ![COMMON_PAIR, OWN_PAIR].contains(at));
        }
        if self.coding.mains() < 2 {
            // All neighbors are the same distance away.
            varying.retain(|at| ![NEAR, DECAY].contains(at));
        }
        while samples.len() < SAMPLES {
            let steps = if samples.is_empty() { FIRST_STEPS } else { STEPS };
            for step in 0..steps / slower {
                let mut moved = state;
                for _ in 0..2 {
                    let at = varying[random.below(varying.len())];
                    let size = if at == NOISE { 0.5 * STEP_SD } else { STEP_SD };
                    moved[at] = size.mul_add(random.normal(), moved[at]);
                }
                self.set(&moved, &relative);
                let found = self.score(&moved, repeats);
                if found - score >= (1.0 - random.unit()).ln() {
                    (state, score) = (moved, found);
                } else {
                    self.set(&state, &relative);
                }
                if step % STEPS == STEPS / 2 {
                    self.improve_relative(&state, &mut relative);
                    self.set(&state, &relative);
                    score = self.score(&state, repeats);
                }
            }
            samples.push(self.clone());
        }
        samples
    }

    fn state(&self) -> State {
        let scales = self.scales();
        let log = |variance: f64| 0.5 * variance.max(LEAST_SD * LEAST_SD).ln();
        let mut state = [0.0; PARAMETERS];
        state[COMMON_MAIN] = log(scales.common_groups[0]);
        state[COMMON_PAIR] = log(scales.common_groups[1]);
        state[OWN_MAIN] = log(scales.own_groups[0]);
        state[OWN_PAIR] = log(scales.own_groups[1]);
        state[NEAR] = log(scales.near);
        state[CANDIDATE] = log(scales.candidate);
        state[CELL] = log(scales.cell);
        state[DECAY] = (scales.decay / (1.0 - scales.decay)).ln();
        state[NOISE] = scales.noise.ln();
        state
    }

    /// The variance of each column relative to its group: shared, and specific.
    fn relative(&self) -> [Vec<f64>; 2] {
        let mains = self.coding.mains();
        let of = |columns: &[f64], groups: &[f64; 2]| {
            let each = columns.iter().enumerate();
            each.map(|(at, variance)| variance / groups[usize::from(at >= mains)]).collect()
        };
        let scales = self.scales();
        [of(&scales.common, &scales.common_groups), of(&scales.own, &scales.own_groups)]
    }

    fn set(&mut self, state: &State, relative: &[Vec<f64>; 2]) {
        let mains = self.coding.mains();
        let variance = |at: usize| (2.0 * state[at].clamp(-12.0, 3.0)).exp();
        let groups = [
            [variance(COMMON_MAIN), variance(COMMON_PAIR)],
            [variance(OWN_MAIN), variance(OWN_PAIR)],
        ];
        let of = |kind: usize| -> Vec<f64> {
            let each = relative[kind].iter().enumerate();
            each.map(|(at, relative)| relative * groups[kind][usize::from(at >= mains)]).collect()
        };
        let scales = ExactScales {
            common: of(0),
            own: of(1),
            candidate: variance(CANDIDATE),
            cell: variance(CELL),
            near: variance(NEAR),
            decay: 1.0 / (1.0 + (-state[DECAY]).exp()),
            noise: state[NOISE].clamp(-3.0, 3.0).exp(),
            common_groups: groups[0],
            own_groups: groups[1],
        };
        self.set_scales(scales);
    }

    /// The logarithm of the posterior density, up to a constant.
    fn score(&self, state: &State, repeats: f64) -> f64 {
        let mut score = self.log_likelihood();
        for (at, prior) in PRIOR_SD.iter().enumerate() {
            if state[at] < LEAST_SD.ln() || state[at] > 3.0 {
                return f64::NEG_INFINITY;
            }
            // The density of the logarithm has the value itself as a factor.
            score += state[at] - (1.0 + (state[at].exp() / prior).powi(2)).ln();
        }
        // Beta(3, 2) on the decay.
        let decay = 1.0 / (1.0 + (-state[DECAY]).exp());
        score += 3.0 * decay.ln() + 2.0 * (1.0 - decay).ln();
        // The noise was estimated from this many repeats.
        let freedom = repeats + NOISE_PRIOR_FREEDOM;
        score - 0.5 * freedom * (state[NOISE] + (-state[NOISE]).exp())
    }

    /// Sets the relative variances to where a Student's t distribution of the effects expects them.
    fn improve_relative(&self, state: &State, relative: &mut [Vec<f64>; 2]) {
        /// Degrees of freedom of that distribution.
        const NU: f64 = 1.0;
        let mains = self.coding.mains();
        let inverse = self.factor.inverse();
        let workloads = self.workloads() as f64;
        let variance = |at: usize| (2.0 * state[at]).exp();
        let mut order: Vec<usize> = (0..self.points.len()).collect();
        order.sort_by_key(|&at| self.points[at].workload);
        let [commons, owns] = relative;
        for (column, (of_common, of_own)) in commons.iter_mut().zip(owns).enumerate() {
            let pair = usize::from(column >= mains);
            let (sums, forms, form) = self.forms(column, &inverse, &order);
            let groups = [variance(COMMON_MAIN + pair), variance(OWN_MAIN + pair)];
            let common = self.scales().common[column];
            let mean = common * sums.iter().sum::<f64>();
            let square = mean * mean + common * (1.0 - common * form);
            *of_common = NU.mul_add(groups[0], square) / (NU + 1.0) / groups[0];
            let own = self.scales().own[column];
            let squares: f64 = sums
                .iter()
                .zip(&forms)
                .map(|(sum, form)| (own * sum).powi(2) + own * (1.0 - own * form))
                .sum();
            *of_own = NU.mul_add(groups[1], squares) / (NU + workloads) / groups[1];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::exact::CellPoint;
    use super::*;
    use crate::landscape::pair;
    use crate::model::Coding;

    /// Two setups with a difference of 4 % and an error of 5 %: nothing is known of it.
    #[test]
    fn one_small_difference_does_not_show_that_setups_are_equal() {
        let space = pair(0.04, 1, 1).space;
        let coding = Coding::of(&space, &[0, 1]);
        let point = |candidate: usize, value: f64| CellPoint {
            candidate,
            workload: 0,
            short: false,
            value,
            variance: 0.035f64.powi(2),
            batches: vec![(0, 1.0)],
        };
        let points = vec![point(0, -0.02), point(1, 0.02)];
        let guess = ExactScales::guess(&coding, 0.01);
        let exact = ExactPosterior::of(&coding, space.weights(), points, guess, 0.0).learned();
        let mut wide = 0.0;
        const WALKS: u64 = 30;
        for seed in 0..WALKS {
            for sample in exact.clone().sampled(10.0, &mut RandomStream::new(seed)) {
                let (_, covariance) = sample.joint(&[0, 1]);
                let variance =
                    covariance.row(0)[0] + covariance.row(1)[1] - 2.0 * covariance.row(1)[0];
                wide += variance.sqrt() / (WALKS * SAMPLES as u64) as f64;
            }
        }
        assert!((0.02..0.06).contains(&wide), "{wide}");
    }
}
