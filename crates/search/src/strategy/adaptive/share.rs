//! The share of trials that each workload gets: the error of a merit is smallest if a workload gets
//! trials in proportion to its weight and its noise (J. Neyman, 1934).

use std::collections::BTreeMap;

use crate::confirm_noise::{self, WorkloadNoise};
use crate::history::{Observation, TrialLength};
use crate::space::{CandidateIndex, SearchSpace};

/// The least share of rounds of a workload, relative to the one with the most.
const LEAST: f64 = 0.25;
/// The weight of the noise of all workloads, in degrees of freedom, in that of each.
const POOL: f64 = 3.0;

/// The standard deviation of full-length trials of each workload, from repeats; pooled where there
/// are few, `None` without any repeats.
fn noise_sd(space: &SearchSpace, history: &[Observation]) -> Option<Vec<f64>> {
    let workloads = space.workloads.len();
    let mut trials: Vec<BTreeMap<CandidateIndex, BTreeMap<u32, f64>>> =
        vec![BTreeMap::new(); workloads];
    for (at, observation) in (0..).zip(history) {
        let Some(log_merit) = observation.log_merit() else { continue };
        if observation.proposal.length == TrialLength::Full {
            let of_candidate =
                trials[observation.proposal.workload].entry(observation.proposal.candidate);
            of_candidate.or_default().insert(at, log_merit);
        }
    }
    let noise: Vec<WorkloadNoise> = trials.iter().map(confirm_noise::of_repeats).collect();
    let freedom: f64 = noise.iter().map(|noise| noise.freedom).sum();
    if freedom < POOL {
        return None;
    }
    let squares: f64 = noise.iter().map(|noise| noise.freedom * noise.variance).sum();
    let pooled = squares / freedom;
    let sd = |noise: &WorkloadNoise| {
        let squares = POOL.mul_add(pooled, noise.freedom * noise.variance);
        (squares / (POOL + noise.freedom)).sqrt()
    };
    Some(noise.iter().map(sd).collect())
}

/// The share of rounds of each workload, from [`LEAST`] to 1.
pub(super) fn of_rounds(space: &SearchSpace, history: &[Observation]) -> Vec<f64> {
    let needs = needs(space, history);
    let most = needs.iter().copied().fold(0.0, f64::max);
    needs.iter().map(|need| (need / most).max(LEAST)).collect()
}

/// The weight of each workload times its noise.
pub(super) fn needs(space: &SearchSpace, history: &[Observation]) -> Vec<f64> {
    let weights = space.weights();
    match noise_sd(space, history) {
        Some(sd) => weights.iter().zip(sd).map(|(weight, sd)| weight * sd).collect(),
        None => weights,
    }
}

/// Whether a workload with this share takes part in a round.
pub(super) fn is_due(share: f64, round: usize) -> bool {
    let until = |round: usize| (share * round as f64 + 1e-9).floor();
    until(round + 1) > until(round)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::landscape::one_noisy_workload;
    use crate::landscape::run;
    use crate::settings::SearchSettings;
    use crate::strategy::Adaptive;

    #[test]
    fn the_noisy_workload_gets_most_trials() {
        // A single search may end before it has many repeats.
        let (mut of_noisy, mut of_most) = (0, 0);
        for seed in 3..7 {
            let landscape = one_noisy_workload(seed);
            let sigma = &landscape.noise.sigma;
            let noisy = sigma.iter().position(|sigma| *sigma > 0.1).expect("one is");
            let settings = SearchSettings { trials: Some(300.0), ..SearchSettings::default() };
            let trace = run(&Adaptive::default(), &landscape, &settings).expect("a search");
            let of = |workload: usize| {
                trace.history.iter().filter(|trial| trial.proposal.workload == workload).count()
            };
            of_noisy += of(noisy);
            of_most += (0..6).filter(|workload| *workload != noisy).map(of).max().expect("some");
        }
        assert!(of_noisy > of_most + of_most / 10, "{of_noisy} {of_most}");
    }

    #[test]
    fn a_workload_takes_part_in_its_share_of_rounds() {
        let due = |share: f64| (0..40).filter(|round| is_due(share, *round)).count();
        assert_eq!((due(1.0), due(0.5), due(0.25)), (40, 20, 10));
    }
}
