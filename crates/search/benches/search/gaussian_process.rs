//! A plain Gaussian process for comparison: a Hamming kernel with one length scale, both it and the
//! noise by maximum likelihood, expected improvement after a random start. One workload only.

use flashfit_search::landscape::Landscape;
use flashfit_search::model::{Cholesky, Matrix};
use flashfit_search::{
    Batch, CandidateIndex, Proposal, Purpose, RandomStream, TrialLength, TrialOutcome,
};

const START: usize = 20;
/// Trials between searches for the length scale and the noise.
const REFIT: usize = 5;
const LENGTHS: [f64; 6] = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2];
const NOISES: [f64; 5] = [0.03, 0.1, 0.2, 0.4, 0.8];

struct Fit {
    likelihood: f64,
    factor: Cholesky,
    alpha: Vec<f64>,
}

struct Process<'a> {
    landscape: &'a Landscape,
    tried: Vec<CandidateIndex>,
    values: Vec<f64>,
}

impl Process<'_> {
    fn kernel(&self, one: CandidateIndex, other: CandidateIndex, length: f64) -> f64 {
        let levels = |index: CandidateIndex| &self.landscape.space.candidates[index].levels;
        let differences = levels(one).iter().zip(levels(other)).filter(|(a, b)| a != b).count();
        let factors = self.landscape.space.factors.len() as f64;
        (-(differences as f64) / (length * factors)).exp()
    }

    fn fit(&self, length: f64, noise: f64) -> Fit {
        let count = self.tried.len();
        let mean = self.values.iter().sum::<f64>() / count as f64;
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (squares / count as f64).sqrt().max(1e-6);
        let scaled: Vec<f64> = self.values.iter().map(|value| (value - mean) / sd).collect();
        let mut matrix = Matrix::zeros(count, count);
        for row in 0..count {
            for column in 0..=row {
                matrix.row_mut(row)[column] =
                    self.kernel(self.tried[row], self.tried[column], length);
            }
            matrix.row_mut(row)[row] += noise.mul_add(noise, 1e-8);
        }
        let factor = Cholesky::of(matrix);
        let mut alpha = scaled.clone();
        factor.solve(&mut alpha);
        let product: f64 = scaled.iter().zip(&alpha).map(|(value, alpha)| value * alpha).sum();
        let likelihood = -0.5 * (product + factor.log_determinant());
        Fit { likelihood, factor, alpha }
    }

    /// The posterior mean and standard deviation of a candidate.
    fn posterior(&self, fit: &Fit, candidate: CandidateIndex, length: f64) -> (f64, f64) {
        let mut row: Vec<f64> =
            self.tried.iter().map(|&other| self.kernel(candidate, other, length)).collect();
        let mean = row.iter().zip(&fit.alpha).map(|(kernel, alpha)| kernel * alpha).sum();
        fit.factor.forward(&mut row);
        let variance = 1.0 - row.iter().map(|value| value * value).sum::<f64>();
        (mean, variance.max(1e-9).sqrt())
    }
}

/// The candidate with the best mean after this many trials.
pub fn best(landscape: &Landscape, trials: usize, seed: u64) -> CandidateIndex {
    let all = landscape.space.candidates.len();
    let mut order: Vec<CandidateIndex> = (0..all).collect();
    RandomStream::stream(seed, 0x6770).shuffle(&mut order);
    let mut process = Process { landscape, tried: Vec::new(), values: Vec::new() };
    let start = START.min(trials / 3).max(4);
    let (mut length, mut noise) = (0.4, 0.1);
    let mut best = order[0];
    for trial in 0..trials {
        let mut next = order[trial % all];
        if trial >= start {
            if (trial - start) % REFIT == 0 {
                let pairs = LENGTHS.iter().flat_map(|of| NOISES.map(|noise| (*of, noise)));
                let fits = pairs.map(|(of, noise)| (process.fit(of, noise).likelihood, of, noise));
                let found = fits.max_by(|a, b| a.0.total_cmp(&b.0)).expect("some pairs");
                (length, noise) = (found.1, found.2);
            }
            let fit = process.fit(length, noise);
            let posterior: Vec<(f64, f64)> =
                (0..all).map(|index| process.posterior(&fit, index, length)).collect();
            let mean = |index: &&CandidateIndex| posterior[**index].0;
            best = *(process.tried.iter())
                .max_by(|a, b| mean(a).total_cmp(&mean(b)))
                .expect("some were tried");
            let incumbent = posterior[best].0;
            let fresh = (0..all).filter(|index| !process.tried.contains(index));
            let improvement = |index: &usize| {
                let (mean, sd) = posterior[*index];
                expected_improvement(mean - incumbent, sd)
            };
            next = fresh.max_by(|a, b| improvement(a).total_cmp(&improvement(b))).unwrap_or(best);
        }
        let proposal = Proposal {
            candidate: next,
            workload: 0,
            length: TrialLength::Full,
            purpose: Purpose::Search,
            repeat: 0,
            batch: Batch { number: u32::try_from(trial).expect("few trials"), size: 1 },
        };
        if let TrialOutcome::Measured { log_merit, .. } = landscape.measure(&proposal, trial as u64)
        {
            process.tried.push(next);
            process.values.push(log_merit);
        }
    }
    best
}

fn expected_improvement(gain: f64, sd: f64) -> f64 {
    let at = gain / sd;
    let density = (-0.5 * at * at).exp() / std::f64::consts::TAU.sqrt();
    // Student's t distribution with many degrees of freedom is the normal one.
    gain * flashfit_search::student::below(at, 1e6) + sd * density
}
