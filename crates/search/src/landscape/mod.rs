//! Made-up landscapes to judge strategies by: a space, the truth about it, and how trials of it are
//! noisy. What a strategy chose can be compared with the true best, which no real device allows.
//!
//! Limits: the noise of a trial depends on nothing but its candidate, workload and batch; setups
//! that fail do so always.

mod kinds;
mod noise;
mod run;
mod terms;

use crate::space::{CandidateIndex, SearchSpace};

pub use kinds::LandscapeKind;
pub use noise::LandscapeNoise;
pub use run::{SearchTrace, run};

/// A space with its truth.
#[derive(Debug, Clone)]
pub struct Landscape {
    /// What can be tried.
    pub space: SearchSpace,
    /// The true logarithm of a candidate's figure under each workload.
    pub truth: Vec<Vec<f64>>,
    /// By how much short trials of a candidate are wrong, in natural logarithm.
    pub short_bias: Vec<f64>,
    /// Candidates that always fail.
    pub failing: Vec<CandidateIndex>,
    /// How trials are noisy.
    pub noise: LandscapeNoise,
}

impl Landscape {
    /// The true merit of a candidate: the weighted mean over workloads, in natural logarithm.
    pub fn merit(&self, candidate: CandidateIndex) -> f64 {
        let weights = self.space.weights();
        weights.iter().zip(&self.truth[candidate]).map(|(weight, log)| weight * log).sum()
    }

    /// The true best of those that may be chosen and do not fail.
    ///
    /// # Panics
    /// When there is none, which no kind of landscape makes.
    pub fn best(&self) -> CandidateIndex {
        (0..self.space.candidates.len())
            .filter(|index| self.space.candidates[*index].allowed && !self.failing.contains(index))
            .max_by(|a, b| self.merit(*a).total_cmp(&self.merit(*b)))
            .expect("some candidate can be chosen")
    }

    /// How far a candidate is below the best, as a share of the best's figure (0.02 is 2 %).
    pub fn regret(&self, candidate: CandidateIndex) -> f64 {
        1.0 - (self.merit(candidate) - self.merit(self.best())).exp()
    }
}
