//! Two levels that were never tried together, such as an option of a file system and a scheduler.
//!
//! What they do together is then only supposed: the model expects interactions that it has not seen
//! to be as small as those that it has, and finds that it fits all trials. So a search that is
//! confident tries such pairs first, a few of them in each trial, and is sure after that
//! (pairwise coverage: D. Cohen and others, The AETG System, 1997).
//!
//! Limits: a setup that is good only because of three levels together may remain unknown, and each
//! pair is tried under one workload. Measured systems are explained almost entirely by
//! levels and pairs of them (N. Siegmund and others, Predicting Performance via Automated
//! Feature-Interaction Detection, 2012).

use crate::history::TrialLength;
use crate::model::Model;
use crate::space::{CandidateIndex, SearchSpace};
use crate::strategy::Request;

use super::PlanContext;

/// The most trials in a batch: after each, the search may go on because of what was found.
const MOST: usize = 8;

/// Numbers the pairs of levels of two factors.
struct LevelPairs<'a> {
    space: &'a SearchSpace,
    /// The first number of each pair of factors, row by row.
    first: Vec<usize>,
    count: usize,
}

impl<'a> LevelPairs<'a> {
    fn of(space: &'a SearchSpace) -> Self {
        let factors = &space.factors;
        let (mut first, mut count) = (Vec::new(), 0);
        for one in factors {
            for other in factors {
                first.push(count);
                count += one.levels.len() * other.levels.len();
            }
        }
        Self { space, first, count }
    }

    /// The pairs of a candidate.
    fn each(&self, candidate: CandidateIndex) -> impl Iterator<Item = usize> {
        let (levels, factors) = (&self.space.candidates[candidate].levels, &self.space.factors);
        (0..factors.len()).flat_map(move |one| {
            (one + 1..factors.len()).filter_map(move |other| {
                let (a, b) = (usize::from(levels[one]?), usize::from(levels[other]?));
                Some(self.first[one * factors.len() + other] + a * factors[other].levels.len() + b)
            })
        })
    }
}

impl PlanContext<'_> {
    /// Whether some eligible candidate has two levels that no measured one has together.
    pub(super) fn has_untested_pairs(&self) -> bool {
        let pairs = LevelPairs::of(self.space);
        let untested = self.untested(&pairs);
        self.eligible.iter().any(|&candidate| pairs.each(candidate).any(|pair| untested[pair]))
    }

    /// Trials of candidates with untested pairs: first those with the most, and of equal ones the
    /// best by the model. They are short if possible, because what is good is tried at full length
    /// later, and fit what is left of a budget.
    pub(super) fn test_pairs(&mut self, model: &Model<'_>, left: f64) -> Vec<Request> {
        let short = self.settings.short.is_some();
        let length = if short { TrialLength::Short } else { TrialLength::Full };
        let most = ((left + 1e-9) / self.settings.cost(length)).min(1e6) as usize;
        let pairs = LevelPairs::of(self.space);
        let mut untested = self.untested(&pairs);
        let merit = |index| model.surface().mean_of_columns(index) + model.offset(index);
        let mut rest: Vec<(f64, CandidateIndex)> = (self.eligible.iter())
            .filter(|candidate| pairs.each(**candidate).any(|pair| untested[pair]))
            .map(|&candidate| (merit(candidate), candidate))
            .collect();
        // Of several with the most pairs, the last is taken.
        rest.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut requests = Vec::new();
        while requests.len() < most.min(MOST) {
            let new = |candidate: CandidateIndex| {
                pairs.each(candidate).filter(|pair| untested[*pair]).count()
            };
            let counted = rest.iter().map(|(_, candidate)| (new(*candidate), *candidate));
            let next = counted.max_by_key(|(count, _)| *count);
            let Some((1.., candidate)) = next else { break };
            pairs.each(candidate).for_each(|pair| untested[pair] = false);
            for workload in self.least_measured(candidate, 1) {
                requests.push(Self::request(candidate, workload, length));
            }
        }
        requests
    }

    /// The pairs that no measured candidate has.
    fn untested(&self, pairs: &LevelPairs<'_>) -> Vec<bool> {
        let mut untested = vec![true; pairs.count];
        for candidate in self.table.candidates() {
            pairs.each(candidate).for_each(|pair| untested[pair] = false);
        }
        untested
    }
}
