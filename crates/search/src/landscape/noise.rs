//! Noise of the trials of a landscape: a random core per workload, slow outliers, a shared effect
//! of each visit, and drift.

use crate::history::{Proposal, TrialLength};
use crate::random::RandomStream;

/// All effects are in natural logarithm.
#[derive(Debug, Clone)]
pub struct LandscapeNoise {
    /// Standard deviation of the core by workload.
    pub sigma: Vec<f64>,
    /// Whether the core has a Student's t distribution with 3 degrees of freedom instead of a
    /// normal one.
    pub heavy_tails: bool,
    /// The share of trials, 0 to 1, that are 20 to 70 % slower.
    pub outliers: f64,
    /// Standard deviation of the effect shared by all trials of a candidate in a batch.
    pub visit: f64,
    /// Drift per thousand trials, linear in time.
    pub drift: f64,
    /// Factor on the core's standard deviation for short trials.
    pub short_ratio: f64,
    pub seed: u64,
}

impl LandscapeNoise {
    /// The noise of the `visit`th trial in time, in natural logarithm.
    pub fn draw(&self, proposal: &Proposal, visit: u64) -> f64 {
        let together = (u64::from(proposal.batch.number) << 24) + proposal.candidate as u64;
        let shared = self.visit * RandomStream::stream(self.seed ^ 1, together).normal();
        let random = &mut RandomStream::stream(self.seed ^ 2, visit);
        let ratio = if proposal.length == TrialLength::Short { self.short_ratio } else { 1.0 };
        let core = if self.heavy_tails { student_3(random) } else { random.normal() };
        let slow =
            if random.unit() < self.outliers { random.unit().mul_add(0.5, 0.2) } else { 0.0 };
        let drift = self.drift * visit as f64 / 1000.0;
        (self.sigma[proposal.workload] * ratio).mul_add(core, shared) + (1.0 - slow).ln() + drift
    }
}

/// Student's t distribution with 3 degrees of freedom, scaled to a standard deviation of 1.
fn student_3(random: &mut RandomStream) -> f64 {
    let squares: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
    random.normal() / (squares / 3.0).sqrt() / 3.0_f64.sqrt()
}
