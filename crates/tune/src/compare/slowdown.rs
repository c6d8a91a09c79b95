//! Which slowdowns are sure.
//!
//! Every difference with an interval is a test: of each run over all workloads, of each workload,
//! of each setup, and of each setup under each workload. The probability that any of them is wrong
//! is at most 5 % (Bonferroni), so that a script does not fail by chance because it compares much.
//! Pairs that did not measure the same thing are not tested.

use flashfit_filesystem::Setup;

use super::{RunComparison, RunDifference, RunPair};

/// The probability that a slowdown is reported where there is none, over all tests together.
const ERROR_PROBABILITY: f64 = 0.05;

/// A difference that is surely a slowdown.
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

/// The tests of a comparison.
#[derive(Debug, Clone)]
pub struct SlowdownCheck {
    /// How many differences were tested; without any, nothing can be concluded.
    pub tests: usize,
    /// The probability of error of each.
    pub error_probability: f64,
    /// The worst first.
    pub slowdowns: Vec<Slowdown>,
}

impl SlowdownCheck {
    /// Tests all differences for slowdowns by more than `least`, a logarithm of at least 0.
    pub fn of(comparison: &RunComparison, least: f64) -> Self {
        let comparable = comparison.pairs.iter().filter(|pair| pair.is_comparable());
        let tested: Vec<Slowdown> =
            comparable.flat_map(tests).filter(|test| test.difference.error.is_some()).collect();
        let error_probability = ERROR_PROBABILITY / tested.len().max(1) as f64;
        let count = tested.len();
        let mut slowdowns: Vec<Slowdown> = tested
            .into_iter()
            .filter(|test| test.difference.is_surely_worse_by(least, error_probability))
            .collect();
        slowdowns.sort_by(|a, b| a.difference.log.total_cmp(&b.difference.log));
        Self { tests: count, error_probability, slowdowns }
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
