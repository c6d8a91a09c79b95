//! Runs on a fake test bed: trials made, recorded and resumed.

use std::path::Path;

use flashfit_bench::Workload;
use flashfit_filesystem::Setup;
use flashfit_test_support::tempdir_in_memory;
use flashfit_tune::{
    Conclusion, GainVerdict, Problem, RecordedOutcome, RunDir, RunEnd, RunSpec, Space, StoredRun,
    StrategyKind, TrialKey, TrialPurpose, TrialRecord, TuneError, TuneSession,
};
use flashfit_user_error::{ExitClass, UserError};

use crate::support::{Answer, FakeTestBed, SpaceOf, Watcher, header, opt, spec, workload};

fn space() -> Space {
    SpaceOf::filesystem("x", &[opt("a"), opt("b")]).and("y", &[opt("a"), opt("bad")]).build()
}

/// `x a+b` is the best; whatever has `bad` fails under the second workload.
fn landscape(setup: &Setup, workload: &str) -> Answer {
    let options = setup.options_label();
    if options.contains("bad") && workload == "second" {
        return Answer::Fails;
    }
    let base = if setup.filesystem == "x" { 1000 } else { 900 };
    let gain = if options == "base" { 0 } else { 100 * setup.options.len() as u64 };
    Answer::Kib(base + gain)
}

fn workloads() -> Vec<Workload> {
    ["first", "second"].map(workload).to_vec()
}

/// The result of a run or a part of it.
struct Went {
    ended: Result<RunEnd, TuneError>,
    trials: Vec<TrialRecord>,
    watcher: Watcher,
    seeds: Vec<u64>,
}

/// Starts or resumes a run in `dir` until the test bed fails.
fn go(dir: &Path, space: &Space, spec: &RunSpec, stand: FakeTestBed<'_>) -> Went {
    let mut stand = stand;
    let workloads = workloads();
    let (run_dir, trials) = if dir.join("run.json").exists() {
        let (run_dir, run) = RunDir::resume(dir).unwrap();
        (run_dir, run.trials)
    } else {
        (RunDir::create(dir, &header(space, spec)).unwrap(), Vec::new())
    };
    let mut watcher = Watcher::default();
    let problem = Problem::of_run(space, spec).unwrap();
    let mut session = TuneSession::new(spec, &problem, &workloads, run_dir, trials).unwrap();
    let ended = session.run(&mut stand, &mut watcher);
    let seeds = stand.made.iter().map(|(_, _, seed)| *seed).collect();
    Went { ended, trials: session.into_trials(), watcher, seeds }
}

/// A complete run in a new directory.
fn whole(spec: &RunSpec) -> Went {
    let dir = tempdir_in_memory().unwrap();
    let went = go(dir.path(), &space(), spec, FakeTestBed::new(&landscape));
    went.ended.as_ref().unwrap();
    went
}

fn keys(trials: &[TrialRecord]) -> Vec<TrialKey> {
    trials.iter().map(|trial| trial.key.clone()).collect()
}

#[test]
fn every_trial_is_recorded_with_raw_output_and_kernel_messages() {
    let dir = tempdir_in_memory().unwrap();
    let spec = spec(&space(), &["first", "second"]);
    let went = go(dir.path(), &space(), &spec, FakeTestBed::new(&landscape));
    went.ended.unwrap();
    let read = StoredRun::read(dir.path()).unwrap();
    let text = |trials: &[TrialRecord]| serde_json::to_string(trials).unwrap();
    assert_eq!(text(&read.trials), text(&went.trials));
    let numbers: Vec<u32> = read.trials.iter().map(|trial| trial.number).collect();
    assert_eq!(numbers, (1..=u32::try_from(read.trials.len()).unwrap()).collect::<Vec<_>>());
    assert_eq!(went.watcher.kept, numbers);
    for trial in &read.trials {
        let raw = dir.path().join(format!("fio/{:05}-only.json", trial.number));
        let log = dir.path().join(format!("kernel/{:05}.log", trial.number));
        match &trial.outcome {
            RecordedOutcome::Completed { points } => {
                assert_eq!(points[0].raw_json, "");
                assert!(std::fs::read_to_string(raw).unwrap().starts_with('['));
            }
            RecordedOutcome::Failed { .. } => assert!(!raw.exists()),
        }
        assert_eq!(std::fs::read_to_string(log).unwrap(), "a line of the kernel's\n");
    }
}

#[test]
fn no_trial_repeats_and_the_best_setup_is_found_and_confirmed() {
    let spec = spec(&space(), &["first", "second"]);
    let went = whole(&spec);
    let mut once = keys(&went.trials);
    once.sort();
    once.dedup();
    assert_eq!(once.len(), went.trials.len());
    let found = Conclusion::of_run(&space(), &spec, &went.trials).unwrap();
    let found = found.recommendation.unwrap();
    assert_eq!(found.winner.label(), "x a+b none");
    assert_eq!(found.verdict, GainVerdict::Better);
    let confirming = went.trials.iter().filter(|t| t.key.purpose == TrialPurpose::Confirm).count();
    // Winner, runner-up and baseline, four rounds, two workloads.
    assert_eq!(confirming, 24);
}

#[test]
fn setups_share_the_seed_of_a_repeat_and_repeats_differ() {
    let went = whole(&spec(&space(), &["first", "second"]));
    let mut by_repeat = std::collections::BTreeMap::new();
    for (trial, seed) in went.trials.iter().zip(&went.seeds) {
        let key = &trial.key;
        let known = by_repeat.entry((key.purpose, &key.workload, key.repeat)).or_insert(*seed);
        assert_eq!(known, seed);
    }
    let mut seeds: Vec<u64> = by_repeat.into_values().collect();
    let count = seeds.len();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!((seeds.len(), count), (12, 12));
}

#[test]
fn a_run_interrupted_anywhere_makes_the_same_trials_in_the_same_order() {
    let spec = spec(&space(), &["first"]);
    let expected = whole(&spec);
    let count = expected.trials.len();
    assert!(count > 15, "{count}");
    for first_part in 0..=count {
        let dir = tempdir_in_memory().unwrap();
        let mut dying = FakeTestBed::new(&landscape);
        dying.gone_after = Some(first_part);
        let part = go(dir.path(), &space(), &spec, dying);
        assert_eq!(part.ended.is_err(), first_part < count);
        assert_eq!(part.trials.len(), first_part);
        let rest = go(dir.path(), &space(), &spec, FakeTestBed::new(&landscape));
        rest.ended.unwrap();
        assert_eq!(keys(&rest.trials), keys(&expected.trials), "stopped after {first_part}");
        assert_eq!([part.seeds, rest.seeds].concat(), expected.seeds);
    }
}

#[test]
fn a_finished_run_has_no_trials_left() {
    let dir = tempdir_in_memory().unwrap();
    let mut spec = spec(&space(), &["first"]);
    spec.strategy = StrategyKind::Exhaustive;
    go(dir.path(), &space(), &spec, FakeTestBed::new(&landscape)).ended.unwrap();
    let again = go(dir.path(), &space(), &spec, FakeTestBed::new(&landscape));
    again.ended.unwrap();
    assert!(again.seeds.is_empty());
}

#[test]
fn a_fatal_error_ends_the_run_and_keeps_its_trials() {
    let dir = tempdir_in_memory().unwrap();
    let spec = spec(&space(), &["first"]);
    let mut dying = FakeTestBed::new(&landscape);
    dying.gone_after = Some(5);
    let went = go(dir.path(), &space(), &spec, dying);
    let error = went.ended.unwrap_err();
    assert_eq!(error.class(), ExitClass::Io);
    assert_eq!(error.to_string(), "the device is gone");
    assert_eq!(keys(&StoredRun::read(dir.path()).unwrap().trials), keys(&went.trials));
    assert_eq!(went.trials.len(), 5);
}

#[test]
fn a_failing_setup_is_recorded_once_and_the_run_continues() {
    let went = whole(&spec(&space(), &["first", "second"]));
    let failures: Vec<String> = went
        .trials
        .iter()
        .filter(|trial| matches!(trial.outcome, RecordedOutcome::Failed { .. }))
        .map(|trial| trial.key.setup.label())
        .collect();
    assert_eq!(failures, ["y bad none", "y a+bad none"]);
    let last = went.trials.iter().rposition(|trial| trial.key.setup.label() == "y bad none");
    assert!(matches!(went.trials[last.unwrap()].outcome, RecordedOutcome::Failed { .. }));
}

#[test]
fn a_run_in_which_all_setups_fail_reports_it_every_time() {
    let dir = tempdir_in_memory().unwrap();
    let spec = spec(&space(), &["first"]);
    let fails = |_: &Setup, _: &str| Answer::Fails;
    for made in [2, 0] {
        let went = go(dir.path(), &space(), &spec, FakeTestBed::new(&fails));
        assert_eq!(went.seeds.len(), made);
        let error = went.ended.unwrap_err();
        assert!(matches!(error, TuneError::AllFailed { .. }), "{error}");
        assert!(error.to_string().ends_with(" base none fails"), "{error}");
        assert_eq!(error.class(), ExitClass::BadVerdict);
    }
}

#[test]
fn the_remaining_trials_are_never_underestimated() {
    for strategy in [StrategyKind::Greedy, StrategyKind::Exhaustive] {
        let mut spec = spec(&space(), &["first", "second"]);
        spec.strategy = strategy;
        let left = whole(&spec).watcher.left;
        for (made, left_then) in left.iter().enumerate() {
            let least = u64::try_from(left.len() - made).unwrap();
            assert!(left_then.unwrap() >= least, "{strategy:?}: {made} of {left:?}");
        }
    }
}

#[test]
fn a_trial_whose_line_was_removed_is_repeated_with_a_new_number() {
    let dir = tempdir_in_memory().unwrap();
    let spec = spec(&space(), &["first"]);
    let before = go(dir.path(), &space(), &spec, FakeTestBed::new(&landscape)).trials;
    let file = dir.path().join("trials.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').skip(1).collect();
    std::fs::write(&file, lines.concat()).unwrap();
    let after = go(dir.path(), &space(), &spec, FakeTestBed::new(&landscape));
    after.ended.unwrap();
    assert_eq!(after.seeds.len(), 1);
    let last = after.trials.last().unwrap();
    assert_eq!(last.key, before[0].key);
    assert_eq!(last.number, before.last().unwrap().number + 1);
}
