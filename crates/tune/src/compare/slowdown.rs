//! Which slowdowns are sure.
//!
//! Every difference with an interval is a test: of each run over all workloads, of each workload,
//! of each setup, and of each setup under each workload. The probability that any of them is wrong
//! is at most 5 % (Bonferroni), so that a script does not fail by chance because it compares much.
//! Each run is one session, so a slowdown must exceed what two sessions without any change differ
//! by. Pairs that did not measure the same thing are not tested; runs without any test are listed,
//! except copies of the first run.

use flashfit_filesystem::Setup;

use super::{RunComparison, RunDifference, RunPair, SessionSpread};

/// The probability that a slowdown is reported where there is none, over all tests together.
const ERROR_PROBABILITY: f64 = 0.05;

/// A difference that is surely a slowdown, also for two sessions.
#[derive(Debug, Clone)]
pub struct Slowdown {
    /// The place of the run.
    pub run: usize,
    /// `None` for all workloads.
    pub workload: Option<String>,
    /// `None` for all setups.
    pub setup: Option<Setup>,
    pub difference: RunDifference,
}

/// A run of which nothing was tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntestedRun {
    /// The place of the run.
    pub run: usize,
    pub reason: UntestedReason,
}

/// Why nothing of a run was tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UntestedReason {
    /// It, or the first run, has no completed trial.
    NoTrial,
    /// It differs from the first run in what it measured.
    OtherMeasurement,
    /// Both runs have no setup in common that they measured under the same workload.
    NothingInCommon,
    /// Every common workload was measured at other points or stages.
    OtherPoints,
    /// Too few repeats for an interval.
    NoInterval,
}

/// The tests of a comparison.
#[derive(Debug, Clone)]
pub struct SlowdownCheck {
    /// How many differences were tested; without any, nothing can be concluded.
    pub tests: usize,
    /// The probability of error of each.
    pub error_probability: f64,
    /// The worst first.
    pub slowdowns: Vec<Slowdown>,
    pub untested: Vec<UntestedRun>,
}

impl SlowdownCheck {
    /// Tests all differences for slowdowns by more than `least`, a logarithm of at least 0, between
    /// sessions that differ by `spread` without any change.
    pub fn of(comparison: &RunComparison, least: f64, spread: SessionSpread) -> Self {
        let has_interval = |test: &Slowdown| test.difference.error.is_some();
        let mut tested: Vec<Slowdown> = Vec::new();
        let mut untested = Vec::new();
        let (first, runs) = (&comparison.runs[0], &comparison.runs);
        // The same trials are neither slower nor of another session.
        for pair in &comparison.pairs {
            let is_comparable = pair.is_comparable();
            if is_comparable && runs[pair.run].has_same_trials(first) {
                continue;
            }
            let of_pair: Vec<Slowdown> = tests(pair)
                .into_iter()
                .filter(|test| is_comparable && has_interval(test))
                .collect();
            if of_pair.is_empty() {
                untested.push(UntestedRun { run: pair.run, reason: reason(comparison, pair) });
            }
            tested.extend(of_pair);
        }
        let error_probability = ERROR_PROBABILITY / tested.len().max(1) as f64;
        let count = tested.len();
        let mut slowdowns: Vec<Slowdown> = tested
            .into_iter()
            .filter(|test| test.difference.is_surely_worse_by(least, spread, error_probability))
            .collect();
        slowdowns.sort_by(|a, b| a.difference.log.total_cmp(&b.difference.log));
        Self { tests: count, error_probability, slowdowns, untested }
    }
}

/// Why nothing of a run can be tested.
fn reason(comparison: &RunComparison, pair: &RunPair) -> UntestedReason {
    let mut runs = [0, pair.run].into_iter().map(|index| &comparison.runs[index]);
    if runs.any(|run| run.completed() == 0) {
        return UntestedReason::NoTrial;
    }
    if !pair.is_comparable() {
        return UntestedReason::OtherMeasurement;
    }
    let common = || pair.workloads.iter().filter(|workload| workload.difference.is_some());
    if common().next().is_none() {
        return UntestedReason::NothingInCommon;
    }
    match common().any(|workload| workload.has_same_points) {
        true => UntestedReason::NoInterval,
        false => UntestedReason::OtherPoints,
    }
}

fn tests(pair: &RunPair) -> Vec<Slowdown> {
    let test =
        |workload: Option<&str>, setup: Option<&Setup>, difference: &RunDifference| Slowdown {
            run: pair.run,
            workload: workload.map(str::to_owned),
            setup: setup.cloned(),
            difference: difference.clone(),
        };
    let mut tests: Vec<Slowdown> =
        pair.overall.iter().map(|found| test(None, None, found)).collect();
    let workloads: Vec<_> = pair.workloads.iter().filter(|found| found.has_same_points).collect();
    // With one workload or setup, the total is the same test.
    if workloads.len() > 1 {
        tests.extend(pair.setups.iter().map(|(setup, found)| test(None, Some(setup), found)));
    }
    for workload in workloads {
        let name = Some(workload.workload.as_str());
        if pair.workloads.len() > 1 {
            tests.extend(workload.difference.iter().map(|found| test(name, None, found)));
        }
        if pair.setups.len() > 1 {
            let setups = workload.setups.iter();
            tests.extend(setups.map(|cell| test(name, Some(&cell.setup), &cell.difference)));
        }
    }
    tests
}
