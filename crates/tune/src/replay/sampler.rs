//! Samples trials from recorded ones.
//!
//! All trials of one setup under one workload with one length form a pool, whatever their purpose.
//! They are drawn in a random order determined by the seed, without replacement until each was
//! drawn once, then with replacement. This avoids repeated draws where possible, so confirming
//! trials are new as long as the recording has unused trials. After that, confirming trials use
//! each trial that only the search has seen once. Of the draws of one trial, one is evidence
//! ([`copies`]); repeated draws are counted. Limit: the search itself takes them for new trials, so
//! it may end too early.

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
    /// Which of the recorded trials of its kind it is, if there is any.
    pub place: Option<usize>,
}

/// Which draws repeat a recorded trial that another draw stands for: the first confirming one, or
/// the first one if none confirms.
pub fn copies(draws: &[(Proposal, Option<usize>)]) -> Vec<bool> {
    let source = |(proposal, place): &(Proposal, Option<usize>)| {
        place.map(|place| (kind_of(proposal), place))
    };
    let mut counts: BTreeMap<(Kind, usize), usize> = BTreeMap::new();
    for (at, draw) in draws.iter().enumerate() {
        let Some(source) = source(draw) else { continue };
        let first = counts.entry(source).or_insert(at);
        let confirms = |at: usize| draws[at].0.purpose == Purpose::Confirm;
        if confirms(at) && !confirms(*first) {
            *first = at;
        }
    }
    let is_copy = |(at, draw)| source(draw).is_some_and(|source| counts[&source] != at);
    draws.iter().enumerate().map(is_copy).collect()
}

fn kind_of(proposal: &Proposal) -> Kind {
    (proposal.candidate, proposal.workload, proposal.length == TrialLength::Short)
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
        let kind = kind_of(proposal);
        let Some(trials) = self.trials.get(&kind) else {
            return ReplaySample {
                outcome: TrialOutcome::Missing,
                cost: TrialCost::default(),
                place: None,
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
        if confirms {
            drawn.confirmed.insert(place);
        }
        let (outcome, cost) = trials[place];
        ReplaySample { outcome, cost, place: Some(place) }
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
    fn of_the_draws_of_one_trial_the_first_confirming_one_counts() {
        let mut sampler = sampler(1);
        let searching = proposal(0, TrialLength::Full, 0);
        let confirming = Proposal { purpose: Purpose::Confirm, ..searching };
        let proposals = [[searching; 6].as_slice(), &[confirming; 7]].concat();
        let mut drawn = |proposal: Proposal| (proposal, sampler.draw(&proposal).place);
        let draws: Vec<_> = proposals.into_iter().map(&mut drawn).collect();
        let missing = (proposal(1, TrialLength::Full, 0), None);
        let copied = copies(&[draws, vec![missing, missing]].concat());
        assert_eq!(copied[..6], [true; 6], "what the search has seen is drawn again");
        assert_eq!(copied[6..], [[false; 5].as_slice(), &[true; 2], &[false; 2]].concat());
        assert_eq!(sampler.drawn_again(), 8);
        let short = proposal(0, TrialLength::Short, 0);
        let alone = [(searching, Some(0)), (short, Some(0)), (searching, Some(0))];
        assert_eq!(copies(&alone), [false, false, true]);
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
