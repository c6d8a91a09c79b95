//! Setups that significantly violate the user's constraint.
//!
//! Each trial yields the violation by its slowest writes, as a logarithm. Its noise is pooled over
//! all repeats of a setup under a workload. A setup is excluded if its mean violation under some
//! workload is above 0 by more than `SURE` standard errors, so a single slightly slow trial does
//! not exclude it. Conversely, a setup is shown to meet the constraint only if it was measured at
//! full
//! length under every workload, and is below it by more than that. Limit: before there are
//! repeats, the noise is a guess.

use std::collections::BTreeMap;

use flashfit_search::{
    CandidateIndex, Observation, SearchSpace, TrialLength, TrialOutcome, TrialTable, WorkloadIndex,
};

/// Standard errors of a significant violation: one-sided, 95 %.
const SURE: f64 = 1.645;
/// Assumed standard deviation of the logarithm of a 99th percentile before there are repeats.
const GUESSED_SD: f64 = 0.3;
/// Weight of the guess, in repeats.
const GUESS_COUNT: f64 = 4.0;

/// The violations of all trials, and the standard deviation of one.
#[derive(Debug, Clone)]
struct Violations {
    cells: BTreeMap<(CandidateIndex, WorkloadIndex), Vec<f64>>,
    sd: f64,
}

impl Violations {
    fn of(history: &[Observation]) -> Self {
        let mut cells: BTreeMap<(CandidateIndex, WorkloadIndex), Vec<f64>> = BTreeMap::new();
        for observation in history {
            if let TrialOutcome::Measured { excess: Some(excess), .. } = observation.outcome {
                cells
                    .entry((observation.proposal.candidate, observation.proposal.workload))
                    .or_default()
                    .push(excess);
            }
        }
        let mut squares = GUESSED_SD * GUESSED_SD * GUESS_COUNT;
        let mut freedom = GUESS_COUNT;
        for values in cells.values() {
            let middle = mean(values);
            squares += values.iter().map(|value| (value - middle).powi(2)).sum::<f64>();
            freedom += values.len() as f64 - 1.0;
        }
        Self { cells, sd: (squares / freedom).sqrt() }
    }

    /// Half the width of the interval of a mean.
    fn half(&self, values: &[f64]) -> f64 {
        SURE * self.sd / (values.len() as f64).sqrt()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The violation of each excluded candidate, as a logarithm.
pub fn broken(history: &[Observation]) -> BTreeMap<CandidateIndex, f64> {
    let violations = Violations::of(history);
    let mut broken: BTreeMap<CandidateIndex, f64> = BTreeMap::new();
    for ((candidate, _), values) in &violations.cells {
        let excess = mean(values);
        if excess > violations.half(values) {
            let known = broken.entry(*candidate).or_insert(excess);
            *known = known.max(excess);
        }
    }
    broken
}

/// Whether any trial was compared with a constraint.
pub fn is_set(history: &[Observation]) -> bool {
    let has_excess = |observation: &Observation| {
        matches!(observation.outcome, TrialOutcome::Measured { excess: Some(_), .. })
    };
    history.iter().any(has_excess)
}

/// A setup that was measured under every workload, compared with the constraint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConstraintEvidence {
    pub candidate: CandidateIndex,
    /// Where it comes closest to the constraint or exceeds it most; `None` if no workload writes.
    pub worst: Option<WorstWorkload>,
    /// Whether it meets the constraint under every workload by more than the noise.
    pub is_shown: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorstWorkload {
    pub workload: WorkloadIndex,
    /// The mean logarithm of the ratio to the constraint; above 0 if it is exceeded.
    pub excess: f64,
    pub trials: usize,
}

/// The evidence of every candidate with a full-length trial under every workload, the nearest to
/// the constraint or furthest within it first.
pub fn evidence(space: &SearchSpace, history: &[Observation]) -> Vec<ConstraintEvidence> {
    let full: Vec<Observation> = history
        .iter()
        .filter(|observation| observation.proposal.length == TrialLength::Full)
        .copied()
        .collect();
    let table = TrialTable::of(&full, |_| true);
    let violations = Violations::of(&full);
    let workloads = 0..space.workloads.len();
    let mut found: Vec<ConstraintEvidence> = Vec::new();
    for candidate in table.candidates() {
        let is_measured = |workload| !table.cell(candidate, workload).is_empty();
        if table.excluded(candidate).is_some() || !workloads.clone().all(is_measured) {
            continue;
        }
        // A workload without writes cannot exceed a constraint on writes.
        let writes = workloads
            .clone()
            .filter_map(|workload| Some((workload, violations.cells.get(&(candidate, workload))?)));
        let is_shown =
            writes.clone().all(|(_, values)| mean(values) + violations.half(values) <= 0.0);
        let worst = writes.max_by(|a, b| mean(a.1).total_cmp(&mean(b.1)));
        let worst = worst.map(|(workload, values)| WorstWorkload {
            workload,
            excess: mean(values),
            trials: values.len(),
        });
        found.push(ConstraintEvidence { candidate, worst, is_shown });
    }
    let excess = |found: &ConstraintEvidence| found.worst.map_or(f64::NEG_INFINITY, |at| at.excess);
    found.sort_by(|a, b| excess(a).total_cmp(&excess(b)));
    found
}

/// The space in which candidates that violate the constraint are not allowed.
pub fn without_broken(space: &SearchSpace, history: &[Observation]) -> SearchSpace {
    let mut space = space.clone();
    for candidate in broken(history).into_keys() {
        space.candidates[candidate].allowed = false;
    }
    space
}

#[cfg(test)]
mod tests {
    use flashfit_search::landscape::LandscapeKind;
    use flashfit_search::{Batch, Proposal, Purpose};

    use super::*;

    fn observation(candidate: usize, excess: Option<f64>) -> Observation {
        let batch = Batch { number: 0, size: 1 };
        let (length, purpose) = (TrialLength::Full, Purpose::Search);
        let proposal = Proposal { candidate, workload: 0, length, purpose, repeat: 0, batch };
        Observation {
            proposal,
            visit: 0,
            start: 0,
            outcome: TrialOutcome::Measured { log_merit: 0.0, excess },
        }
    }

    #[test]
    fn large_violations_exclude_a_setup_and_small_ones_do_not() {
        let history = [
            observation(0, Some(1.5)),
            observation(1, Some(0.1)),
            observation(2, Some(-1.0)),
            observation(3, None),
        ];
        assert_eq!(broken(&history).into_keys().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn repeated_small_violations_exclude_a_setup() {
        let again = [0.1, 0.12, 0.09, 0.11].map(|excess| observation(1, Some(excess)));
        let calm: Vec<Observation> =
            (0..40).map(|at| observation(2, Some(-1.0 + f64::from(at % 2) / 50.0))).collect();
        let history = [&again[..], &calm].concat();
        assert_eq!(broken(&history).into_keys().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_setup_meets_the_constraint_only_where_it_was_measured_under_every_workload() {
        let space = LandscapeKind::Small.make(1).space;
        let under = |candidate: usize, workload: usize, excess: Option<f64>| {
            let mut one = observation(candidate, excess);
            one.proposal.workload = workload;
            one
        };
        let all = |candidate: usize, excess: Option<f64>| {
            (0..6).map(move |workload| under(candidate, workload, excess))
        };
        let mut history: Vec<Observation> = all(3, Some(-1.0)).chain(all(4, Some(-0.1))).collect();
        history.extend(all(5, Some(4.6)));
        // One trial under one workload shows nothing.
        history.push(under(6, 0, Some(-2.0)));
        // Reading has no latency of writes.
        history.extend((0..5).map(|workload| under(7, workload, Some(-0.9))));
        history.push(under(7, 5, None));
        let found = evidence(&space, &history);
        let of: Vec<(usize, bool)> =
            found.iter().map(|found| (found.candidate, found.is_shown)).collect();
        assert_eq!(of, [(3, true), (7, true), (4, false), (5, false)]);
    }
}
