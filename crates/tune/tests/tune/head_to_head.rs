//! Any two setups compared with each other, and the status of each constraint.

use flashfit_tune::constraint_status::{self, ConstraintKind, ConstraintStatus};
use flashfit_tune::head_to_head::{HeadToHead, PairBasis, PairVerdict, SetupComparisons};
use flashfit_tune::{Conclusion, RunSpec, Space, TrialPurpose, TrialRecord};

use crate::support::{SpaceOf, failed, measured, opt, setup, spec};

const WORKLOADS: [&str; 2] = ["r", "w"];

fn space() -> Space {
    SpaceOf::filesystem("x", &[opt("a"), opt("b"), opt("risky").risky()]).build()
}

/// Trials whose 99th percentile of writes is 10 ms, with these rates under both workloads.
fn trials(purpose: TrialPurpose, label: &str, rates: &[u64]) -> Vec<TrialRecord> {
    let setup = setup(&space(), label);
    let of = |workload: &'static str| {
        let setup = setup.clone();
        (0..).zip(rates).map(move |(round, &rate)| measured(purpose, &setup, workload, round, rate))
    };
    of("r").chain(of("w")).collect()
}

/// Confirming rounds of the baseline, `x a` (better by a fifth) and `x b` (as good as `x a`);
/// `x a+b` was only searched, `x risky` under one workload.
fn all() -> Vec<TrialRecord> {
    let confirm = |label, rates| trials(TrialPurpose::Confirm, label, rates);
    let mut risky = trials(TrialPurpose::Search, "x risky none", &[900]);
    risky.truncate(1);
    [
        trials(TrialPurpose::Search, "x base none", &[1000, 1010]),
        trials(TrialPurpose::Search, "x a none", &[1200, 1210]),
        trials(TrialPurpose::Search, "x b none", &[1190, 1215]),
        trials(TrialPurpose::Search, "x a+b none", &[1500]),
        risky,
        confirm("x base none", &[1000, 1005, 998, 1001, 1003]),
        confirm("x a none", &[1200, 1210, 1195, 1202, 1199]),
        confirm("x b none", &[1205, 1200, 1201, 1196, 1204]),
    ]
    .concat()
}

fn conclusion(trials: &[TrialRecord]) -> Conclusion {
    Conclusion::of_run(&space(), &spec(&space(), &WORKLOADS), trials).unwrap()
}

fn pair(found: &Conclusion, one: &str, other: &str) -> HeadToHead {
    let index = |label| found.problem.candidate(&setup(&space(), label)).unwrap();
    SetupComparisons::of(found).pair(index(one), index(other))
}

#[test]
fn setups_with_common_rounds_are_compared_within_them() {
    let found = conclusion(&all());
    let better = pair(&found, "x a none", "x base none");
    assert_eq!((better.basis, better.verdict), (PairBasis::ConfirmingRounds, PairVerdict::Better));
    assert_eq!((better.paired_rounds, better.by_workload.len()), (5, 2));
    assert!(better.by_workload.iter().all(|under| under.verdict == PairVerdict::Better));
    let worse = pair(&found, "x base none", "x a none");
    assert_eq!(worse.verdict, PairVerdict::Worse);
    assert_eq!(pair(&found, "x a none", "x b none").verdict, PairVerdict::Tied);
    // It agrees with the recommendation.
    let recommended = found.recommendation.as_ref().unwrap();
    let other = recommended.subject.label();
    let gain = recommended.gain.unwrap();
    let same = pair(&found, &other, "x base none").overall.unwrap();
    assert_eq!((same.mean, same.count), (gain.middle, gain.count));
    assert_eq!(same.interval.unwrap().0, gain.interval.unwrap().0);
}

#[test]
fn setups_without_common_rounds_get_no_verdict() {
    let found = conclusion(&all());
    let searched = pair(&found, "x a+b none", "x base none");
    assert_eq!(searched.basis, PairBasis::AllTrials);
    assert_eq!((searched.verdict, searched.paired_rounds), (PairVerdict::NotConfirmed, 0));
    let difference = searched.overall.unwrap();
    assert!(difference.mean > 0.3 && difference.better_probability.unwrap() > 0.95);
    let partly = pair(&found, "x risky none", "x base none");
    assert_eq!((partly.basis, partly.overall), (PairBasis::NotMeasured, None));
    let measured: Vec<bool> =
        partly.by_workload.iter().map(|under| under.difference.is_some()).collect();
    assert_eq!(measured, [true, false]);
}

#[test]
fn all_pairs_of_finalists_are_listed_best_first() {
    let found = conclusion(&all());
    let label = |candidate: usize| found.problem.setups[candidate].label();
    let pairs = SetupComparisons::of(&found).of_finalists();
    let shown: Vec<(String, String)> =
        pairs.iter().map(|pair| (label(pair.one), label(pair.other))).collect();
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert_eq!(shown.last().unwrap().1, "x base none");
    assert!(pairs.iter().all(|pair| pair.overall.unwrap().mean > -1e-9), "{pairs:?}");
    assert!(SetupComparisons::of(&conclusion(&all()[..8])).of_finalists().is_empty());
}

#[test]
fn a_failed_confirming_trial_is_said() {
    let mut trials = all();
    trials.push(failed(TrialPurpose::Confirm, &setup(&space(), "x b none"), "r", 5));
    let found = conclusion(&trials);
    assert_eq!(pair(&found, "x b none", "x base none").verdict, PairVerdict::Failed);
    assert_eq!(pair(&found, "x a none", "x base none").verdict, PairVerdict::Better);
}

#[test]
fn a_constraint_is_met_missed_or_not_measured() {
    // The worst latency of these trials is 1 s divided by the rate; the percentile is unknown (0),
    // so it is set here.
    let mut trials = all();
    for trial in &mut trials {
        let label = trial.key.setup.label();
        let p99_ms = if label == "x b none" { 80 } else { 10 };
        set_p99(trial, p99_ms * 1_000_000);
    }
    let limited = RunSpec { p99_write_max_ns: Some(30_000_000), ..spec(&space(), &WORKLOADS) };
    let found = Conclusion::of_run(&space(), &limited, &trials).unwrap();
    let status = |label: &str| {
        let candidate = found.problem.candidate(&setup(&space(), label)).unwrap();
        constraint_status::of_setup(&found, &space(), &limited, candidate)
    };
    use ConstraintKind::{Safety, WriteLatency};
    use ConstraintStatus::{Met, NotMeasured, NotMet};
    assert_eq!(status("x a none"), [(Safety, Met), (WriteLatency, Met)]);
    assert_eq!(status("x b none"), [(Safety, Met), (WriteLatency, NotMet)]);
    assert_eq!(status("x risky none"), [(Safety, NotMet), (WriteLatency, NotMeasured)]);
    // Without a limit, nothing is said of latencies.
    let free = conclusion(&trials);
    let first = constraint_status::of_setup(&free, &space(), &spec(&space(), &WORKLOADS), 0);
    assert_eq!(first.len(), 1);
}

fn set_p99(trial: &mut TrialRecord, p99_ns: u64) {
    let flashfit_tune::RecordedOutcome::Completed { points } = &mut trial.outcome else { return };
    for stage in points.iter_mut().flat_map(|point| &mut point.stages) {
        stage.write.as_mut().unwrap().latency.p99_ns = p99_ns;
    }
}
