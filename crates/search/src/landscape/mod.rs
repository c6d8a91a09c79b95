//! Simulated landscapes for evaluating strategies: a space, its true merits, and noisy trials. The
//! choice of a strategy can be compared with the true best, which real devices do not allow.
//!
//! Limits: noise depends only on the candidate, workload, batch and time; failing candidates always
//! fail.

mod kinds;
mod noise;
mod run;
mod similar;
mod small;
mod tables;
mod terms;

use crate::space::{CandidateIndex, SearchSpace};

pub use kinds::LandscapeKind;
pub use noise::LandscapeNoise;
pub use run::{SearchTrace, run, run_timed};
pub use similar::{similar, surveyed};
pub use small::{SMALL_SPACES, one_noisy_workload, pair, small_space};
pub use tables::TableKind;

#[derive(Debug, Clone)]
pub struct Landscape {
    pub space: SearchSpace,
    /// True log merit by candidate, then workload.
    pub truth: Vec<Vec<f64>>,
    /// Bias of short trials by candidate, in natural logarithm.
    pub short_bias: Vec<f64>,
    /// Candidates that always fail.
    pub failing: Vec<CandidateIndex>,
    pub noise: LandscapeNoise,
}

impl Landscape {
    /// The true merit: the weighted mean over workloads, in natural logarithm.
    pub fn merit(&self, candidate: CandidateIndex) -> f64 {
        let weights = self.space.weights();
        weights.iter().zip(&self.truth[candidate]).map(|(weight, log)| weight * log).sum()
    }

    /// The true best allowed candidate that does not fail.
    ///
    /// # Panics
    /// If there is none; no kind of landscape is like that.
    pub fn best(&self) -> CandidateIndex {
        (0..self.space.candidates.len())
            .filter(|index| self.space.candidates[*index].allowed && !self.failing.contains(index))
            .max_by(|a, b| self.merit(*a).total_cmp(&self.merit(*b)))
            .expect("some candidate can be chosen")
    }

    /// The shortfall from the best, as a share of the best merit (0.02 is 2 %).
    pub fn regret(&self, candidate: CandidateIndex) -> f64 {
        1.0 - (self.merit(candidate) - self.merit(self.best())).exp()
    }
}
