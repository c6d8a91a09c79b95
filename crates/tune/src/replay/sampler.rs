//! Draws trials from recorded ones.
//!
//! All trials of one setup under one workload and of one length lie in one urn, whatever they were
//! made for. They are drawn in a random order that belongs to the seed, without putting them back,
//! until each has been drawn once; beyond that at random with putting back. So nothing is seen
//! twice that can be avoided, and a comparison with fresh trials is one as long as the record has
//! fresh ones. Confirming trials then go once through what only the search has seen; one that
//! repeats an earlier confirming one is a copy, which confirms nothing. Limit: an interval made of
//! what the search has seen is too narrow; how many such draws there were is counted.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_device::random::Random;
use flashfit_numbers::fnv1a;
use flashfit_search::{Proposal, Purpose, TrialLength, TrialOutcome};

use crate::budget::TrialCost;

/// Where trials of one kind lie: candidate, workload, whether they are short.
type Kind = (usize, usize, bool);

/// A recorded trial that was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplaySample {
    /// What came of it.
    pub outcome: TrialOutcome,
    /// What it cost when it was made.
    pub cost: TrialCost,
    /// Whether it is a confirming one that repeats an earlier confirming one.
    pub copied: bool,
}

/// What was drawn of one kind.
#[derive(Debug, Clone, Default)]
struct Drawn {
    count: usize,
    /// Places of trials that confirmed.
    confirmed: BTreeSet<usize>,
}

/// The recorded trials, and which were drawn.
#[derive(Debug, Clone)]
pub struct ReplaySampler {
    trials: BTreeMap<Kind, Vec<(TrialOutcome, TrialCost)>>,
    drawn: BTreeMap<Kind, Drawn>,
    seed: u64,
    again: u64,
}

impl ReplaySampler {
    /// With these trials in it: candidate, workload, length, what came of it, what it cost.
    pub fn new(
        trials: impl IntoIterator<Item = (usize, usize, TrialLength, TrialOutcome, TrialCost)>,
        seed: u64,
    ) -> Self {
        let mut urn = Self { trials: BTreeMap::new(), drawn: BTreeMap::new(), seed, again: 0 };
        for (candidate, workload, length, outcome, cost) in trials {
            let kind = (candidate, workload, length == TrialLength::Short);
            urn.trials.entry(kind).or_default().push((outcome, cost));
        }
        for (kind, trials) in &mut urn.trials {
            random(seed, *kind, 0).shuffle(trials);
        }
        urn
    }

    /// Whether there are short trials.
    pub fn has_short(&self) -> bool {
        self.trials.keys().any(|(_, _, short)| *short)
    }

    /// Draws what was asked for; [`TrialOutcome::Missing`] where nothing like it was recorded.
    pub fn draw(&mut self, ask: &Proposal) -> ReplaySample {
        let kind = (ask.candidate, ask.workload, ask.length == TrialLength::Short);
        let Some(trials) = self.trials.get(&kind) else {
            return ReplaySample {
                outcome: TrialOutcome::Missing,
                cost: TrialCost::default(),
                copied: false,
            };
        };
        let drawn = self.drawn.entry(kind).or_default();
        let confirms = ask.purpose == Purpose::Confirm;
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

    /// How many draws repeated a trial that had been drawn before.
    pub fn drawn_again(&self) -> u64 {
        self.again
    }

    /// Everything that was recorded of a candidate under a workload at full length.
    pub fn recorded(&self, candidate: usize, workload: usize) -> &[(TrialOutcome, TrialCost)] {
        self.trials.get(&(candidate, workload, false)).map_or(&[], Vec::as_slice)
    }
}

fn random(seed: u64, kind: Kind, round: u64) -> Random {
    let text = format!("urn/{}/{}/{}/{round}", kind.0, kind.1, kind.2);
    let mut random = Random::new(seed ^ fnv1a(text.as_bytes()));
    // The first number of neighbouring seeds is mixed once only.
    random.next_u64();
    random
}

#[cfg(test)]
mod tests {
    use flashfit_search::Batch;

    use super::*;

    fn ask(candidate: usize, length: TrialLength, repeat: u32) -> Proposal {
        let batch = Batch { number: 0, size: 1 };
        Proposal { candidate, workload: 0, length, purpose: Purpose::Search, repeat, batch }
    }

    fn merit(log_merit: f64) -> TrialOutcome {
        TrialOutcome::Measured { log_merit, excess: None }
    }

    fn urn(seed: u64) -> ReplaySampler {
        let cost = TrialCost::default();
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        ReplaySampler::new(values.map(|value| (0, 0, TrialLength::Full, merit(value), cost)), seed)
    }

    fn draws(seed: u64, count: u32) -> Vec<f64> {
        let mut urn = urn(seed);
        let value = |outcome| match outcome {
            TrialOutcome::Measured { log_merit, .. } => log_merit,
            other => panic!("{other:?}"),
        };
        (0..count)
            .map(|repeat| value(urn.draw(&ask(0, TrialLength::Full, repeat)).outcome))
            .collect()
    }

    #[test]
    fn each_is_drawn_once_before_any_is_drawn_again() {
        let mut first = draws(1, 5);
        first.sort_by(f64::total_cmp);
        assert_eq!(first, [1.0, 2.0, 3.0, 4.0, 5.0]);
        let mut urn = urn(1);
        for repeat in 0..7 {
            urn.draw(&ask(0, TrialLength::Full, repeat));
        }
        assert_eq!(urn.drawn_again(), 2);
    }

    #[test]
    fn what_the_search_has_seen_confirms_once_and_then_is_a_copy() {
        let mut urn = urn(1);
        for repeat in 0..5 {
            urn.draw(&ask(0, TrialLength::Full, repeat));
        }
        let confirming = Proposal { purpose: Purpose::Confirm, ..ask(0, TrialLength::Full, 0) };
        let copied: Vec<bool> = (0..7).map(|_| urn.draw(&confirming).copied).collect();
        assert_eq!(copied, [false, false, false, false, false, true, true]);
        assert_eq!(urn.drawn_again(), 7);
    }

    #[test]
    fn the_order_belongs_to_the_seed() {
        assert_eq!(draws(1, 20), draws(1, 20));
        assert!((2..20).any(|seed| draws(seed, 5) != draws(1, 5)));
        let beyond = &draws(1, 200)[5..];
        for value in [1.0, 2.0, 3.0, 4.0, 5.0] {
            assert!(beyond.contains(&value), "{value} is never drawn again");
        }
    }

    #[test]
    fn what_was_not_recorded_is_missing() {
        let mut urn = urn(1);
        assert!(!urn.has_short());
        assert_eq!(urn.draw(&ask(1, TrialLength::Full, 0)).outcome, TrialOutcome::Missing);
        assert_eq!(urn.draw(&ask(0, TrialLength::Short, 0)).outcome, TrialOutcome::Missing);
    }
}
