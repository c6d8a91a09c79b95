//! What was measured of each setup, as JSON: latencies and wear by workload, and
//! whether it meets the constraints.
//!
//! A trial counts with its worst point and stage; a setup with the median of its full trials, so
//! the values are those that a user would see, not those of a best case.

use flashfit_bench::Figures;
use flashfit_filesystem::Setup;
use flashfit_tune::stats::median;
use flashfit_tune::{Criterion, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;

use super::RunView;
use super::setup_constraints::{self, SetupConstraint};

/// A setup with at least one full trial.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SetupFigures {
    setup: String,
    is_baseline: bool,
    is_recommended: bool,
    workloads: Vec<WorkloadFigures>,
    /// The constraints of the run, with whether the setup meets them.
    constraints: Vec<SetupConstraint>,
}

/// Latencies in nanoseconds; `None` if nothing was read or written.
#[derive(Debug, JsonSchema, Serialize)]
struct WorkloadFigures {
    workload: String,
    trials: usize,
    p99_read_ns: Option<u64>,
    p99_write_ns: Option<u64>,
    p99_sync_ns: Option<u64>,
    /// Reads, writes and syncs.
    worst_ns: Option<u64>,
    /// Bytes programmed by the device, or written to it if it does not report those, per 1000
    /// bytes that the workload wrote.
    programmed_per_thousand: Option<u64>,
}

/// All setups with a full trial, in the order of their names.
pub fn of(view: &RunView<'_>) -> Vec<SetupFigures> {
    let found = view.recommendation();
    let figures = |setup: &Setup| {
        let of_workload = |workload: &String| of_workload(view, setup, workload);
        let workloads = view.results.workloads().iter().filter_map(of_workload);
        SetupFigures {
            setup: setup.label(),
            is_baseline: view.conclusion.problem.baseline() == setup,
            is_recommended: found.is_some_and(|found| found.recommended() == setup),
            workloads: workloads.collect(),
            constraints: view
                .conclusion
                .problem
                .candidate(setup)
                .map(|candidate| setup_constraints::of(view, candidate))
                .unwrap_or_default(),
        }
    };
    let all = view.results.setups().map(figures);
    all.filter(|setup| !setup.workloads.is_empty()).collect()
}

fn of_workload(view: &RunView<'_>, setup: &Setup, workload: &str) -> Option<WorkloadFigures> {
    let is_of = |trial: &&TrialRecord| {
        trial.key.setup == *setup
            && trial.key.workload == workload
            && trial.key.length.is_full()
            && trial.points().is_some()
    };
    let trials: Vec<&TrialRecord> = view.levelled.iter().filter(is_of).collect();
    let wear = view.results.merits(setup, workload, Criterion::Wear);
    let costs: Vec<f64> = wear.iter().map(|merit| 1000.0 / merit).collect();
    (!trials.is_empty()).then(|| WorkloadFigures {
        workload: workload.to_owned(),
        trials: trials.len(),
        p99_read_ns: typical(&trials, |read, _| Some(read?.latency.p99_ns)),
        p99_write_ns: typical(&trials, |_, write| Some(write?.latency.p99_ns)),
        p99_sync_ns: typical(&trials, |read, write| {
            let sync = |figures: Option<&Figures>| Some(figures?.sync?.p99_ns);
            sync(read).max(sync(write))
        }),
        worst_ns: typical(&trials, |read, write| {
            read.map(Figures::worst_ns).max(write.map(Figures::worst_ns))
        }),
        programmed_per_thousand: median(&costs).filter(|cost| cost.is_finite()).map(whole),
    })
}

/// The median over trials of the worst stage of each.
fn typical(
    trials: &[&TrialRecord],
    value: impl Fn(Option<&Figures>, Option<&Figures>) -> Option<u64>,
) -> Option<u64> {
    let worst = |trial: &&TrialRecord| {
        let stages = trial.points()?.iter().flat_map(|point| &point.stages);
        stages.filter_map(|stage| value(stage.read.as_ref(), stage.write.as_ref())).max()
    };
    let values: Vec<f64> = trials.iter().filter_map(worst).map(|ns| ns as f64).collect();
    median(&values).map(whole)
}

fn whole(value: f64) -> u64 {
    value.round() as u64
}
