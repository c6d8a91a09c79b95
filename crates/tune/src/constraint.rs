//! Setups that significantly violate the user's constraint.
//!
//! Each trial yields the violation by its slowest writes, as a logarithm. Its noise is pooled over
//! all repeats of a setup under a workload. A setup is excluded if its mean violation under some
//! workload is above 0 by more than `SURE` standard errors, in at least `MIN_TRIALS` trials: 99th
//! percentiles have rare values far above the others, more than the pooled noise accounts for.
//! Short trials exclude only a setup without a full-length trial under that workload. Conversely, a
//! setup is shown to meet the constraint only if it was measured at full length under every
//! workload, and is below it by more than the noise. Limit: before there are repeats, the noise is
//! a guess.

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
/// The fewest trials under one workload that exclude a setup.
const MIN_TRIALS: usize = 3;

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

/// The violation of an excluded candidate under the workload where it is largest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConstraintViolation {
    pub worst: WorstWorkload,
    /// Whether the trials are short ones, because none is of full length.
    pub is_of_short: bool,
}

/// The excluded candidates.
pub fn broken(history: &[Observation]) -> BTreeMap<CandidateIndex, ConstraintViolation> {
    exceeding(history, MIN_TRIALS)
}

/// The candidates that exceed the constraint by more than the noise, in at least so many trials
/// under some workload.
fn exceeding(
    history: &[Observation],
    least: usize,
) -> BTreeMap<CandidateIndex, ConstraintViolation> {
    let [full, short] = [TrialLength::Full, TrialLength::Short]
        .map(|length| Violations::of(&of_length(history, length)));
    let without_full = short.cells.iter().filter(|(cell, _)| !full.cells.contains_key(*cell));
    let cells = full.cells.iter().map(|cell| (cell, &full, false));
    let cells = cells.chain(without_full.map(|cell| (cell, &short, true)));
    let mut broken: BTreeMap<CandidateIndex, ConstraintViolation> = BTreeMap::new();
    for ((&(candidate, workload), values), violations, is_of_short) in cells {
        let (excess, trials) = (mean(values), values.len());
        if trials < least || excess <= violations.half(values) {
            continue;
        }
        let found =
            ConstraintViolation { worst: WorstWorkload { workload, excess, trials }, is_of_short };
        let known = broken.entry(candidate).or_insert(found);
        // What full-length trials show counts first.
        let rank = |of: &ConstraintViolation| (!of.is_of_short, of.worst.excess);
        if rank(&found) > rank(known) {
            *known = found;
        }
    }
    broken
}

fn of_length(history: &[Observation], length: TrialLength) -> Vec<Observation> {
    history.iter().filter(|observation| observation.proposal.length == length).copied().collect()
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
    let full = of_length(history, TrialLength::Full);
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

/// The space without those that exceed the constraint so far, in however few trials; `None` if that
/// leaves out nothing, or everything. They are not excluded for good, but come last.
pub fn without_suspects(space: &SearchSpace, history: &[Observation]) -> Option<SearchSpace> {
    let mut others = space.clone();
    let mut is_narrower = false;
    for suspect in exceeding(history, 1).into_keys() {
        is_narrower |= others.candidates[suspect].allowed;
        others.candidates[suspect].allowed = false;
    }
    let is_any_left = others.candidates.iter().any(|candidate| candidate.allowed);
    (is_narrower && is_any_left).then_some(others)
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

    fn short(observation: Observation) -> Observation {
        let proposal = Proposal { length: TrialLength::Short, ..observation.proposal };
        Observation { proposal, ..observation }
    }

    fn excluded(history: &[Observation]) -> Vec<usize> {
        broken(history).into_keys().collect()
    }

    #[test]
    fn large_violations_exclude_a_setup_and_small_ones_do_not() {
        let large = [1.5, 1.4, 1.6].map(|excess| observation(0, Some(excess)));
        let small = [0.1, 0.1, 0.1].map(|excess| observation(1, Some(excess)));
        let others = [observation(2, Some(-1.0)), observation(3, None)];
        assert_eq!(excluded(&[&large[..], &small, &others].concat()), [0]);
    }

    #[test]
    fn a_single_slow_trial_does_not_exclude_a_setup() {
        let slow = observation(0, Some(3.0));
        assert_eq!(excluded(&[slow]), [0; 0]);
        assert_eq!(excluded(&[slow, slow]), [0; 0]);
        let mostly_fast = [slow, observation(0, Some(-1.0)), observation(0, Some(-1.1))];
        assert_eq!(excluded(&mostly_fast), [0; 0]);
        // Nor together with one under another workload.
        let mut other = observation(0, Some(3.0));
        other.proposal.workload = 1;
        assert_eq!(excluded(&[slow, slow, other]), [0; 0]);
        assert_eq!(excluded(&[slow, slow, slow]), [0]);
    }

    #[test]
    fn short_trials_exclude_only_what_was_not_measured_at_full_length() {
        let slow = observation(0, Some(1.5));
        let of_short = [short(slow); 3];
        let found = broken(&of_short)[&0];
        assert!(found.is_of_short && found.worst.trials == 3);
        let fast = observation(0, Some(-1.0));
        assert_eq!(excluded(&[&of_short[..], &[fast]].concat()), [0; 0]);
        // The shown violation is that of the full-length trials.
        let found = broken(&[&of_short[..], &[observation(0, Some(2.5)); 3]].concat())[&0];
        assert!(!found.is_of_short && found.worst.trials == 3);
        assert!((found.worst.excess - 2.5).abs() < 1e-9);
    }

    #[test]
    fn repeated_small_violations_exclude_a_setup() {
        let again = [0.1, 0.12, 0.09, 0.11].map(|excess| observation(1, Some(excess)));
        let calm: Vec<Observation> =
            (0..40).map(|at| observation(2, Some(-1.0 + f64::from(at % 2) / 50.0))).collect();
        assert_eq!(excluded(&[&again[..], &calm].concat()), [1]);
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
