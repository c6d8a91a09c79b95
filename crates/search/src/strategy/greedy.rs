//! One factor at a time, for each family: measure the base, measure each remaining change alone
//! under every level of the companions (schedulers), adopt the best one, and repeat until none
//! gains.
//!
//! Source: eMMC/SSD File System Tuning Methodology, section 3.1. Additions: the score is a median
//! of repeats, and the first round also measures candidates that may not be chosen, to report their
//! gain, but never adopts them. Limit: it also adopts gains that are noise; confirming trials
//! reveal them.

use crate::history::Observation;
use crate::settings::SearchSettings;
use crate::space::{CandidateIndex, FactorRole, SearchSpace};

use super::scores::{CandidateStanding, Scores};
use super::{SearchEnd, Strategy, StrategyPlan};

/// One factor at a time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Greedy;

impl Strategy for Greedy {
    fn plan(
        &self,
        space: &SearchSpace,
        history: &[Observation],
        settings: &SearchSettings,
    ) -> StrategyPlan {
        let scores = Scores::of(space, history, settings);
        let rounds: Vec<Round> = space
            .families()
            .iter()
            .filter_map(|family| round_of(&Family::of(space, family), &scores))
            .collect();
        // All families finish a round before the next one starts, so a search interrupted within a
        // round finishes that round first when it is resumed.
        let first = rounds.iter().map(|round| round.number).min();
        let due: Vec<CandidateIndex> = rounds
            .into_iter()
            .filter(|round| Some(round.number) == first)
            .flat_map(|round| round.missing)
            .collect();
        let missing = scores.missing(&due);
        if missing.is_empty() {
            StrategyPlan::Done(SearchEnd::Exhausted)
        } else {
            StrategyPlan::Try(missing)
        }
    }

    fn max_trials(&self, space: &SearchSpace, settings: &SearchSettings) -> f64 {
        let of = |family: &Vec<CandidateIndex>| {
            let family = Family::of(space, family);
            let factors = family.factors.len();
            let others: usize =
                family.factors.iter().map(|&f| space.factors[f].levels.len() - 1).sum();
            // After the base, each round has one factor less.
            let rounds = if factors == 0 { 0 } else { others * (factors + 1) / 2 };
            (family.start().len() * (1 + rounds)).min(family.members.len())
        };
        let candidates: usize = space.families().iter().map(of).sum();
        (candidates * space.workloads.len()) as f64 * f64::from(settings.repeats)
    }

    fn choice(
        &self,
        space: &SearchSpace,
        history: &[Observation],
        settings: &SearchSettings,
    ) -> Option<CandidateIndex> {
        Scores::of(space, history, settings).choice()
    }
}

/// The candidates of one family and the factors that can be changed in it.
struct Family<'a> {
    space: &'a SearchSpace,
    members: &'a [CandidateIndex],
    factors: Vec<usize>,
}

/// An unfinished round of one family.
struct Round {
    /// 0 for the base.
    number: usize,
    missing: Vec<CandidateIndex>,
}

impl<'a> Family<'a> {
    fn of(space: &'a SearchSpace, members: &'a [CandidateIndex]) -> Self {
        let level = |index: &CandidateIndex, factor: usize| space.candidates[*index].levels[factor];
        let varies = |&factor: &usize| {
            space.factors[factor].role == FactorRole::Choice
                && members.iter().any(|index| level(index, factor) != level(&members[0], factor))
        };
        Self { space, members, factors: (0..space.factors.len()).filter(varies).collect() }
    }

    /// The candidates without changes, or else those with the fewest.
    fn start(&self) -> Vec<CandidateIndex> {
        let changes = |&index: &CandidateIndex| {
            let levels = &self.space.candidates[index].levels;
            let default =
                |f: &&usize| levels[**f].is_none_or(|l| l == self.space.factors[**f].default);
            self.factors.len() - self.factors.iter().filter(default).count()
        };
        // The search must not start from a baseline that may not be chosen.
        let rank =
            |index: &&CandidateIndex| (!self.space.candidates[**index].allowed, changes(index));
        let Some(&nearest) = self.members.iter().min_by_key(rank) else {
            return Vec::new();
        };
        self.alike(&self.space.candidates[nearest].levels)
    }

    /// The members with these levels, under every companion.
    fn alike(&self, levels: &[Option<u16>]) -> Vec<CandidateIndex> {
        let is_alike = |&&index: &&CandidateIndex| {
            let candidate = &self.space.candidates[index];
            self.space.factors.iter().enumerate().all(|(factor, of)| {
                of.role == FactorRole::Companion || candidate.levels[factor] == levels[factor]
            })
        };
        self.members.iter().filter(is_alike).copied().collect()
    }
}

/// Follows the adopted changes from the start to the first round with missing trials.
fn round_of(family: &Family, scores: &Scores) -> Option<Round> {
    let is_missing =
        |index: &CandidateIndex| scores.standing(*index) == CandidateStanding::Incomplete;
    let base = family.start();
    let missing: Vec<CandidateIndex> = base.iter().copied().filter(is_missing).collect();
    if !missing.is_empty() {
        return Some(Round { number: 0, missing });
    }
    let (at, mut score) = scores.best_of(base.iter().copied())?;
    let mut levels = family.space.candidates[at].levels.clone();
    let mut remaining = family.factors.clone();
    let mut number = 1;
    loop {
        let mut round: Vec<(usize, CandidateIndex)> = Vec::new();
        for &factor in &remaining {
            let count = family.space.factors[factor].levels.len();
            let others = (0..count).filter_map(|level| u16::try_from(level).ok()).map(Some);
            for level in others.filter(|level| *level != levels[factor]) {
                let mut changed = levels.clone();
                changed[factor] = level;
                let wanted =
                    |&index: &CandidateIndex| number == 1 || family.space.candidates[index].allowed;
                let alike = family.alike(&changed).into_iter().filter(wanted);
                round.extend(alike.map(|index| (factor, index)));
            }
        }
        let missing: Vec<CandidateIndex> =
            round.iter().map(|&(_, index)| index).filter(is_missing).collect();
        if !missing.is_empty() {
            return Some(Round { number, missing });
        }
        match scores.best(round.iter().map(|&(_, index)| index)) {
            Some((best, found)) if found > score => {
                let &(factor, _) = round
                    .iter()
                    .find(|(_, index)| *index == best)
                    .expect("the best is one of the round");
                levels.clone_from(&family.space.candidates[best].levels);
                remaining.retain(|&left| left != factor);
                score = found;
                number += 1;
            }
            _ => return None,
        }
    }
}
