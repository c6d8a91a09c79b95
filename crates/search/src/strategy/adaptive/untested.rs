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
use crate::level_pairs::{LevelPairs, PairsTried};
use crate::model::Model;
use crate::space::CandidateIndex;
use crate::strategy::Request;

use super::PlanContext;

/// The most trials in a batch: after each, the search may go on because of what was found.
const MOST: usize = 8;

impl PlanContext<'_> {
    /// Whether some eligible candidate has two levels that no measured one has together.
    pub(super) fn has_untested_pairs(&self) -> bool {
        PairsTried::of(self.space, &self.eligible, self.table.candidates()).untested > 0
    }

    /// Trials of candidates with untested pairs: first those with the most, and of equal ones the
    /// best by the model. They are short if possible, because what is good is tried at full length
    /// later, and fit what is left of a budget.
    pub(super) fn test_pairs(&mut self, model: &Model<'_>, left: f64) -> Vec<Request> {
        let short = self.settings.short.is_some();
        let length = if short { TrialLength::Short } else { TrialLength::Full };
        let most = ((left + 1e-9) / self.settings.cost(length)).min(1e6) as usize;
        let pairs = LevelPairs::of(self.space);
        let mut tried = pairs.any_of(self.table.candidates());
        let merit = |index| model.surface().mean_of_columns(index) + model.offset(index);
        let mut rest: Vec<(f64, CandidateIndex)> = (self.eligible.iter())
            .filter(|candidate| pairs.each(**candidate).any(|pair| !tried[pair]))
            .map(|&candidate| (merit(candidate), candidate))
            .collect();
        // Of several with the most pairs, the last is taken.
        rest.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut requests = Vec::new();
        while requests.len() < most.min(MOST) {
            let new = |candidate: CandidateIndex| {
                pairs.each(candidate).filter(|pair| !tried[*pair]).count()
            };
            let counted = rest.iter().map(|(_, candidate)| (new(*candidate), *candidate));
            let next = counted.max_by_key(|(count, _)| *count);
            let Some((1.., candidate)) = next else { break };
            pairs.each(candidate).for_each(|pair| tried[pair] = true);
            for workload in self.least_measured(candidate, 1) {
                requests.push(Self::request(candidate, workload, length));
            }
        }
        requests
    }
}
