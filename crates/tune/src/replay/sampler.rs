//! Samples trials from recorded ones.
//!
//! All trials of one setup under one workload with one length form a pool, whatever their purpose.
//! They are drawn in a random order determined by the seed, without replacement until each was
//! drawn once, then with replacement. This avoids repeated draws where possible, so confirming
//! trials are new as long as the recording has unused trials. After that, confirming trials use
//! each trial that only the search has seen once; one that repeats an earlier confirming trial is a
//! copy and confirms nothing. Limit: an interval based on trials that the search has seen is too
//! narrow; repeated draws are counted.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_device::random::Random;
use flashfit_numbers::fnv1a;
use flashfit_search::{Proposal, Purpose, TrialLength, TrialOutcome};

use crate::budget::TrialCost;

/// Candidate, workload, and whether the trials are short.
type Kind = (usize, usize, bool);

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplaySample {
    pub outcome: TrialOutcome,
    pub cost: TrialCost,
    /// Whether it is a confirming trial that repeats an earlier confirming one.
    pub copied: bool,
}

/// The draws from one pool.
#[derive(Debug, Clone, Default)]
struct Drawn {
    count: usize,
    /// Indices of trials used for confirming.
    confirmed: BTreeSet<usize>,
}

/// The recorded trials and their draws.
#[derive(Debug, Clone)]
pub struct ReplaySampler {
    trials: BTreeMap<Kind, Vec<(TrialOutcome, TrialCost)>>,
    drawn: BTreeMap<Kind, Drawn>,
    seed: u64,
    again: u64,
}

impl ReplaySampler {
    /// Takes trials as candidate, workload, length, outcome, cost.
    pub fn new(
        trials: impl IntoIterator<Item = (usize, usize, TrialLength, TrialOutcome, TrialCost)>,
        seed: u64,
    ) -> Self {
        let mut sampler = Self { trials: BTreeMap::new(), drawn: BTreeMap::new(), seed, again: 0 };
        for (candidate, workload, length, outcome, cost) in trials {
            let kind = (candidate, workload, length == TrialLength::Short);
            sampler.trials.entry(kind).or_default().push((outcome, cost));
        }
        for (kind, trials) in &mut sampler.trials {
            random(seed, *kind, 0).shuffle(trials);
        }
        sampler
    }

    /// Whether there are short trials of all these candidates under all workloads.
    pub fn has_short(&self, candidates: impl IntoIterator<Item = usize>, workloads: usize) -> bool {
        candidates.into_iter().all(|candidate| {
            (0..workloads).all(|workload| self.trials.contains_key(&(candidate, workload, true)))
        })
    }

    /// Whether there is a trial of a candidate under a workload, short or of full length.
    pub fn has_any(&self, candidate: usize, workload: usize) -> bool {
        [false, true].iter().any(|&short| self.trials.contains_key(&(candidate, workload, short)))
    }

    /// Draws a trial for a proposal; [`TrialOutcome::Missing`] if none was recorded.
    pub fn draw(&mut self, proposal: &Proposal) -> ReplaySample {
        let kind = (proposal.candidate, proposal.workload, proposal.length == TrialLength::Short);
        let Some(trials) = self.trials.get(&kind) else {
            return ReplaySample {
                outcome: TrialOutcome::Missing,
                cost: TrialCost::default(),
                copied: false,
            };
        };
        let drawn = self.drawn.entry(kind).or_default();
        let confirms = proposal.purpose == Purpose::Confirm;
        let place = if drawn.count < trials.len() {
            drawn.count
        } else {
            self.again += 1;
            let unconfirmed = (0..trials.len()).find(|place| !drawn.confirmed.contains(place));
            unconfirmed.filter(|_| confirms).unwrap_or_else(|| {
                let round = u64::try_from(drawn.count).expect("at most 64 bits");
                let count = u64::try_from(trials.len()).expect("at most 64 bits");
                let place = random(self.seed, kind, round).below(count);
                usize::try_from(place).expect("below the length")
            })
        };
        drawn.count += 1;
        let copied = confirms && !drawn.confirmed.insert(place);
        let (outcome, cost) = trials[place];
        ReplaySample { outcome, cost, copied }
    }

    /// The number of repeated draws.
    pub fn drawn_again(&self) -> u64 {
        self.again
    }

    /// All recorded full-length trials of a candidate under a workload.
    pub fn recorded(&self, candidate: usize, workload: usize) -> &[(TrialOutcome, TrialCost)] {
        self.trials.get(&(candidate, workload, false)).map_or(&[], Vec::as_slice)
    }
}

fn random(seed: u64, kind: Kind, round: u64) -> Random {
    let text = format!("urn/{}/{}/{}/{round}", kind.0, kind.1, kind.2);
    let mut random = Random::new(seed ^ fnv1a(text.as_bytes()));
    // The first numbers of adjacent seeds are poorly mixed.
    random.next_u64();
    random
}

#[cfg(test)]
mod tests {
    use flashfit_search::Batch;

    use super::*;

    fn proposal(candidate: usize, length: TrialLength, repeat: u32) -> Proposal {
        let batch = Batch { number: 0, size: 1 };
        Proposal { candidate, workload: 0, length, purpose: Purpose::Search, repeat, batch }
    }

    fn merit(log_merit: f64) -> TrialOutcome {
        TrialOutcome::Measured { log_merit, excess: None }
    }

    fn sampler(seed: u64) -> ReplaySampler {
        let cost = TrialCost::default();
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        ReplaySampler::new(values.map(|value| (0, 0, TrialLength::Full, merit(value), cost)), seed)
    }

    fn draws(seed: u64, count: u32) -> Vec<f64> {
        let mut sampler = sampler(seed);
        let value = |outcome| match outcome {
            TrialOutcome::Measured { log_merit, .. } => log_merit,
            other => panic!("{other:?}"),
        };
        (0..count)
            .map(|repeat| value(sampler.draw(&proposal(0, TrialLength::Full, repeat)).outcome))
            .collect()
    }

    #[test]
    fn every_trial_is_drawn_once_before_any_repeats() {
        let mut first = draws(1, 5);
        first.sort_by(f64::total_cmp);
        assert_eq!(first, [1.0, 2.0, 3.0, 4.0, 5.0]);
        let mut sampler = sampler(1);
        for repeat in 0..7 {
            sampler.draw(&proposal(0, TrialLength::Full, repeat));
        }
        assert_eq!(sampler.drawn_again(), 2);
    }

    #[test]
    fn a_trial_seen_by_the_search_confirms_once_and_is_then_a_copy() {
        let mut sampler = sampler(1);
        for repeat in 0..5 {
            sampler.draw(&proposal(0, TrialLength::Full, repeat));
        }
        let confirming =
            Proposal { purpose: Purpose::Confirm, ..proposal(0, TrialLength::Full, 0) };
        let copied: Vec<bool> = (0..7).map(|_| sampler.draw(&confirming).copied).collect();
        assert_eq!(copied, [false, false, false, false, false, true, true]);
        assert_eq!(sampler.drawn_again(), 7);
    }

    #[test]
    fn the_seed_determines_the_order() {
        assert_eq!(draws(1, 20), draws(1, 20));
        assert!((2..20).any(|seed| draws(seed, 5) != draws(1, 5)));
        let beyond = &draws(1, 200)[5..];
        for value in [1.0, 2.0, 3.0, 4.0, 5.0] {
            assert!(beyond.contains(&value), "{value} is never drawn again");
        }
    }

    #[test]
    fn unrecorded_trials_are_missing() {
        let mut sampler = sampler(1);
        assert!(!sampler.has_short([0], 1));
        assert_eq!(sampler.draw(&proposal(1, TrialLength::Full, 0)).outcome, TrialOutcome::Missing);
        assert_eq!(
            sampler.draw(&proposal(0, TrialLength::Short, 0)).outcome,
            TrialOutcome::Missing
        );
    }
}
