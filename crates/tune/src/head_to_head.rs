//! Any two setups of a run compared with each other: the difference under each workload and over
//! all of them, and what it shows.
//!
//! Setups with common rounds of confirming trials are compared within these rounds. Other setups
//! are compared by all their full-length trials, and no verdict is given: the search chose what to
//! repeat by the same trials. See `flashfit_search::Difference` for the limits.

use flashfit_search::{
    CandidateIndex, ConfirmingTrials, Difference, DifferenceVerdict, Purpose, SearchTrials,
    TrialOutcome, WorkloadIndex,
};

use crate::conclusion::Conclusion;

/// What a comparison is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairBasis {
    /// Rounds of confirming trials that both have.
    ConfirmingRounds,
    /// All full-length trials of both.
    AllTrials,
    /// One of them was not measured under every workload.
    NotMeasured,
}

/// What a comparison shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairVerdict {
    /// The first setup is better.
    Better,
    Worse,
    Tied,
    /// There are no common rounds, or too few.
    NotConfirmed,
    /// A confirming trial of one of them failed.
    Failed,
}

/// Two setups under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadDifference {
    pub workload: WorkloadIndex,
    /// The merit of the first setup minus that of the second one.
    pub difference: Option<Difference>,
    pub verdict: PairVerdict,
}

/// Two setups.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadToHead {
    pub one: CandidateIndex,
    pub other: CandidateIndex,
    pub basis: PairBasis,
    /// Over all workloads, by weight.
    pub overall: Option<Difference>,
    pub verdict: PairVerdict,
    /// Rounds with both under every workload.
    pub paired_rounds: usize,
    pub by_workload: Vec<WorkloadDifference>,
}

/// The comparisons of a run.
#[derive(Debug)]
pub struct SetupComparisons<'a> {
    conclusion: &'a Conclusion,
    confirmed: ConfirmingTrials,
    all: SearchTrials,
    finalists: usize,
}

impl<'a> SetupComparisons<'a> {
    pub fn of(conclusion: &'a Conclusion) -> Self {
        let space = &conclusion.problem.space;
        let confirmed = ConfirmingTrials::of(space, &conclusion.evidence);
        let count = confirmed.finalists().len().max(1);
        Self {
            finalists: if conclusion.chosen_before { 1 } else { count },
            all: SearchTrials::of(space, &conclusion.evidence),
            confirmed,
            conclusion,
        }
    }

    /// The baseline and the setups with confirming trials, best first by the mean over rounds with
    /// the baseline.
    pub fn finalists(&self) -> Vec<CandidateIndex> {
        let baseline = self.conclusion.problem.space.baseline;
        let gain = |candidate| {
            let found = self.confirmed.difference((candidate, baseline), None, 1);
            found.map_or(f64::NEG_INFINITY, |difference| difference.mean)
        };
        let mut found = self.confirmed.finalists();
        if !found.is_empty() {
            found.push(baseline);
        }
        let of = |candidate: CandidateIndex| {
            if candidate == baseline { 0.0 } else { gain(candidate) }
        };
        found.sort_by(|one, other| of(*other).total_cmp(&of(*one)));
        found
    }

    /// All pairs of [`Self::finalists`], the better one first.
    pub fn of_finalists(&self) -> Vec<HeadToHead> {
        let finalists = self.finalists();
        let pairs = (0..finalists.len()).flat_map(|at| {
            finalists[at + 1..].iter().map(move |other| (at, *other)).collect::<Vec<_>>()
        });
        pairs.map(|(at, other)| self.pair(finalists[at], other)).collect()
    }

    /// The comparison of two setups.
    pub fn pair(&self, one: CandidateIndex, other: CandidateIndex) -> HeadToHead {
        let pair = (one, other);
        let paired = |workload| self.confirmed.difference(pair, workload, self.finalists);
        let has_failed = self.has_failed(one) || self.has_failed(other);
        let whole = paired(None);
        let is_paired = whole.is_some();
        let overall = whole.or_else(|| self.all.difference(pair, None));
        let basis = match (is_paired, overall) {
            (true, _) => PairBasis::ConfirmingRounds,
            (false, Some(_)) => PairBasis::AllTrials,
            (false, None) => PairBasis::NotMeasured,
        };
        let verdict = |difference: Option<&Difference>| match difference {
            _ if has_failed => PairVerdict::Failed,
            Some(difference) if is_paired => verdict(difference.verdict()),
            _ => PairVerdict::NotConfirmed,
        };
        let workloads = 0..self.conclusion.problem.workloads.len();
        let by_workload = workloads.map(|workload| {
            let difference = match is_paired {
                true => paired(Some(workload)),
                false => self.all.difference(pair, Some(workload)),
            };
            let verdict = verdict(difference.as_ref());
            WorkloadDifference { workload, difference, verdict }
        });
        HeadToHead {
            one,
            other,
            basis,
            overall,
            verdict: verdict(overall.as_ref()),
            paired_rounds: overall.filter(|_| is_paired).map_or(0, |found| found.count),
            by_workload: by_workload.collect(),
        }
    }

    fn has_failed(&self, candidate: CandidateIndex) -> bool {
        self.conclusion.evidence.iter().any(|observation| {
            observation.proposal.candidate == candidate
                && observation.proposal.purpose == Purpose::Confirm
                && observation.outcome == TrialOutcome::Failed
        })
    }
}

fn verdict(found: DifferenceVerdict) -> PairVerdict {
    match found {
        DifferenceVerdict::Better => PairVerdict::Better,
        DifferenceVerdict::Worse => PairVerdict::Worse,
        DifferenceVerdict::Tied => PairVerdict::Tied,
        DifferenceVerdict::TooFew => PairVerdict::NotConfirmed,
    }
}
