//! How trials of a landscape are noisy: a core by workload, slow outliers, an effect that a visit
//! has on all its trials, and drift.

use crate::history::{Proposal, TrialLength};
use crate::random::RandomStream;

/// The noise of a landscape; every share is in natural logarithm.
#[derive(Debug, Clone)]
pub struct LandscapeNoise {
    /// The standard deviation of the core under each workload.
    pub sigma: Vec<f64>,
    /// Whether the core is of Student's distribution with 3 degrees of freedom instead of normal.
    pub heavy_tails: bool,
    /// How often a trial is slow, 0 to 1, by 20 to 70 %.
    pub outliers: f64,
    /// The standard deviation of what all trials of a candidate in a batch have in common.
    pub visit: f64,
    /// What a thousand trials change, linearly in time.
    pub drift: f64,
    /// By how much more a short trial varies.
    pub short_ratio: f64,
    /// What the noise is drawn from.
    pub seed: u64,
}

impl LandscapeNoise {
    /// What noise adds to the logarithm of a trial that is the `visit`th in time.
    pub fn draw(&self, ask: &Proposal, visit: u64) -> f64 {
        let together = (u64::from(ask.batch.number) << 24) + ask.candidate as u64;
        let shared = self.visit * RandomStream::stream(self.seed ^ 1, together).normal();
        let random = &mut RandomStream::stream(self.seed ^ 2, visit);
        let ratio = if ask.length == TrialLength::Short { self.short_ratio } else { 1.0 };
        let core = if self.heavy_tails { student_3(random) } else { random.normal() };
        let slow =
            if random.unit() < self.outliers { random.unit().mul_add(0.5, 0.2) } else { 0.0 };
        let drift = self.drift * visit as f64 / 1000.0;
        (self.sigma[ask.workload] * ratio).mul_add(core, shared) + (1.0 - slow).ln() + drift
    }
}

/// Student's distribution with 3 degrees of freedom, scaled to a standard deviation of 1.
fn student_3(random: &mut RandomStream) -> f64 {
    let squares: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
    random.normal() / (squares / 3.0).sqrt() / 3.0_f64.sqrt()
}
