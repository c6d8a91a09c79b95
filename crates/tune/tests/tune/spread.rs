//! Runs on several fake test beds: distribution of trials, differing devices, and failing boards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flashfit_bench::Workload;
use flashfit_filesystem::Setup;
use flashfit_search::SearchEnd;
use flashfit_test_support::tempdir_in_memory;
use flashfit_testbed::TrialError;
use flashfit_tune::budget::BudgetReached;
use flashfit_tune::spread::device_effects::EffectKey;
use flashfit_tune::spread::{DeviceEffects, WorkerPool};
use flashfit_tune::{
    Budget, Conclusion, GainVerdict, LeastBudget, Problem, RunDir, RunEnd, RunSpec, Space,
    StoredRun, TrialDevice, TrialKey, TrialPurpose, TrialRecord, TuneError, TuneSession,
};
use flashfit_user_error::{ExitClass, UserError};

use crate::support::{Answer, FakeTestBed, SpaceOf, Watcher, header, opt, spec, workload};

fn space() -> Space {
    SpaceOf::filesystem("x", &[opt("a"), opt("b")]).and("y", &[opt("a")]).build()
}

/// `x a+b` is the best, by a tenth.
fn kib(setup: &Setup) -> u64 {
    let base = if setup.filesystem == "x" { 1000 } else { 900 };
    base + 50 * setup.options.len() as u64
}

fn fast(setup: &Setup, _: &str) -> Answer {
    Answer::Kib(kib(setup))
}

/// Four times slower, more than any option gains.
fn slow(setup: &Setup, _: &str) -> Answer {
    Answer::Kib(kib(setup) / 4)
}

fn workloads() -> Vec<Workload> {
    vec![workload("first")]
}

fn board(name: &str) -> TrialDevice {
    TrialDevice { board: name.to_owned(), device: format!("device of {name}") }
}

/// A board: its name, its device's landscape, and the trials after which it fails.
type Board = (&'static str, fn(&Setup, &str) -> Answer, Option<usize>);

/// Starts or resumes a run in `dir` on these boards.
fn go(
    dir: &Path,
    spec: &RunSpec,
    boards: &[Board],
) -> (Result<RunEnd, TuneError>, Vec<TrialRecord>) {
    let (space, workloads) = (space(), workloads());
    let (run_dir, trials) = if dir.join("run.json").exists() {
        let (run_dir, run) = RunDir::resume(dir).unwrap();
        (run_dir, run.trials)
    } else {
        (RunDir::create(dir, &header(&space, spec)).unwrap(), Vec::new())
    };
    let problem = Problem::of_run(&space, spec).unwrap();
    let (pool, desks) = WorkerPool::new(boards.iter().map(|(name, ..)| board(name)).collect());
    std::thread::scope(|scope| {
        for ((_, landscape, gone_after), desk) in boards.iter().zip(desks) {
            let workloads = &workloads;
            scope.spawn(move || {
                let mut stand = FakeTestBed::new(landscape);
                stand.gone_after = *gone_after;
                if let Err(error) = desk.serve(&mut stand, spec, workloads, &mut || Ok(())) {
                    desk.leave(error);
                }
            });
        }
        let mut pool = pool;
        let mut session = TuneSession::new(spec, &problem, &workloads, run_dir, trials).unwrap();
        let ended = session.run_spread(&mut pool, &mut Watcher::default());
        (ended, session.into_trials())
    })
}

fn keys(trials: &[TrialRecord]) -> BTreeSet<&TrialKey> {
    trials.iter().map(|trial| &trial.key).collect()
}

fn on(trial: &TrialRecord) -> &str {
    &trial.made_on.as_ref().unwrap().board
}

#[test]
fn differences_between_devices_are_separated_from_those_between_setups() {
    let spec = spec(&space(), &["first"]);
    let dir = tempdir_in_memory().unwrap();
    let (ended, trials) = go(dir.path(), &spec, &[("one", fast, None), ("two", slow, None)]);
    ended.unwrap();
    assert_eq!(keys(&trials).len(), trials.len(), "no two have the same key");
    let boards: BTreeSet<&str> = trials.iter().map(on).collect();
    assert_eq!(boards.len(), 2, "both have work");
    let levels = DeviceEffects::of(&trials);
    let ratio = levels.level(EffectKey::Rate, "first", 1).unwrap().log;
    assert!((ratio.abs() - 4f64.ln()).abs() < 0.01, "{ratio}");
    let found = Conclusion::of_run(&space(), &spec, &trials).unwrap().recommendation.unwrap();
    assert_eq!(found.winner.label(), "x a+b none");
    assert_eq!(found.verdict, GainVerdict::Better);
    assert_eq!(StoredRun::read(dir.path()).unwrap().trials.len(), trials.len());
}

#[test]
fn each_confirming_round_stays_on_one_board() {
    let spec = spec(&space(), &["first"]);
    let dir = tempdir_in_memory().unwrap();
    let (ended, trials) = go(dir.path(), &spec, &[("one", fast, None), ("two", fast, None)]);
    ended.unwrap();
    let mut rounds: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.key.purpose == TrialPurpose::Confirm) {
        rounds.entry(trial.key.repeat).or_default().insert(on(trial));
    }
    assert_eq!(rounds.len(), 4);
    assert!(rounds.values().all(|boards| boards.len() == 1), "{rounds:?}");
}

#[test]
fn a_single_board_needs_no_comparison() {
    let spec = spec(&space(), &["first"]);
    let dir = tempdir_in_memory().unwrap();
    let (ended, trials) = go(dir.path(), &spec, &[("one", fast, None)]);
    ended.unwrap();
    assert!(trials.iter().all(|trial| trial.key.purpose != TrialPurpose::Overlap));
    assert!(!DeviceEffects::of(&trials).are_several());
}

#[test]
fn the_comparison_of_devices_keeps_to_the_budget() {
    const FOUR: [Board; 4] =
        [("1", fast, None), ("2", fast, None), ("3", fast, None), ("4", fast, None)];
    // A trial takes a second and writes a MiB. The comparison takes eight of them, and each of two
    // file systems one.
    let seconds =
        |count: u64| Budget { budget_ns: Some(count * 1_000_000_000), ..Budget::default() };
    let mib = |count: u64| Budget { max_write_bytes: Some(count << 20), ..Budget::default() };
    let all = (LeastBudget::Seconds(10), LeastBudget::WrittenMib(10));
    for most in [4, 5, 8, 9] {
        for (limits, least) in [(seconds(most), all.0), (mib(most), all.1)] {
            let dir = tempdir_in_memory().unwrap();
            let spec = RunSpec { limits, ..spec(&space(), &["first"]) };
            let (ended, trials) = go(dir.path(), &spec, &FOUR);
            assert!(trials.len() as u64 <= most, "{} of {most}", trials.len());
            let Err(TuneError::BudgetTooSmall { least: found, needed }) = ended else {
                panic!("{most}: {ended:?}")
            };
            assert_eq!(found, least, "{needed}");
            assert!(needed.contains("comparing 4 devices"), "{needed}");
        }
    }
    let dir = tempdir_in_memory().unwrap();
    let limited = RunSpec { limits: seconds(14), ..spec(&space(), &["first"]) };
    let (ended, trials) = go(dir.path(), &limited, &FOUR);
    assert!(matches!(ended, Ok(RunEnd::Limit(_) | RunEnd::Search(_))), "{ended:?}");
    assert!((11..=14).contains(&trials.len()), "{}", trials.len());
}

#[test]
fn boards_that_the_budget_cannot_compare_make_no_trials() {
    let limits = Budget { budget_ns: Some(16_000_000_000), ..Budget::default() };
    let limited = RunSpec { limits, ..spec(&space(), &["first"]) };
    let dir = tempdir_in_memory().unwrap();
    let gone: [Board; 2] = [("one", fast, Some(7)), ("two", fast, Some(8))];
    let (ended, part) = go(dir.path(), &spec(&space(), &["first"]), &gone);
    assert!(matches!(ended, Err(TuneError::NoBoardLeft { .. })), "{ended:?}");
    assert_eq!(part.len(), 15);
    let (ended, trials) = go(dir.path(), &limited, &[("three", slow, None)]);
    let is_spent = matches!(
        ended,
        Ok(RunEnd::Limit(BudgetReached::Budget) | RunEnd::Search(SearchEnd::Budget))
    );
    assert!(is_spent, "{ended:?}");
    assert_eq!(trials.len(), 16);
    assert!(trials[15].key.purpose == TrialPurpose::Overlap);
}

#[test]
fn trials_of_a_failed_board_go_to_the_others() {
    let spec = spec(&space(), &["first"]);
    let expected = {
        let dir = tempdir_in_memory().unwrap();
        let (ended, trials) = go(dir.path(), &spec, &[("one", fast, None), ("two", fast, None)]);
        ended.unwrap();
        trials
    };
    for trials_before in 0..10 {
        let dir = tempdir_in_memory().unwrap();
        let boards: [Board; 2] = [("one", fast, Some(trials_before)), ("two", fast, None)];
        let (ended, trials) = go(dir.path(), &spec, &boards);
        ended.unwrap();
        assert!(trials.iter().filter(|trial| on(trial) == "one").count() <= trials_before);
        let searched = |trials: &[TrialRecord]| -> BTreeSet<TrialKey> {
            let of_search =
                trials.iter().filter(|trial| trial.key.purpose != TrialPurpose::Overlap);
            of_search.map(|trial| trial.key.clone()).collect()
        };
        assert_eq!(searched(&trials), searched(&expected), "lost after {trials_before}");
    }
}

#[test]
fn a_run_without_boards_ends_and_can_resume_on_another() {
    let spec = spec(&space(), &["first"]);
    for trials_each in [0, 1, 2, 3, 5, 8] {
        let dir = tempdir_in_memory().unwrap();
        let gone = Some(trials_each);
        let (ended, part) = go(dir.path(), &spec, &[("one", fast, gone), ("two", slow, gone)]);
        let error = ended.unwrap_err();
        assert!(matches!(error, TuneError::NoBoardLeft { .. }), "{error}");
        assert_eq!(error.class(), ExitClass::Io);
        assert_eq!(part.len(), 2 * trials_each);
        let (ended, trials) = go(dir.path(), &spec, &[("three", slow, None), ("two", slow, None)]);
        ended.unwrap();
        assert_eq!(keys(&trials).len(), trials.len(), "no two have the same key");
        let found = Conclusion::of_run(&space(), &spec, &trials).unwrap().recommendation.unwrap();
        assert_eq!(found.winner.label(), "x a+b none", "ended after {trials_each}");
    }
}

#[test]
fn an_interrupted_board_ends_the_run_as_interrupted() {
    let spec = spec(&space(), &["first"]);
    let (space, workloads) = (space(), workloads());
    let dir = tempdir_in_memory().unwrap();
    let run_dir = RunDir::create(dir.path(), &header(&space, &spec)).unwrap();
    let problem = Problem::of_run(&space, &spec).unwrap();
    let (mut pool, desks) = WorkerPool::new(vec![board("one")]);
    for desk in desks {
        desk.leave(TrialError::Stopped {
            message: "interrupted".to_owned(),
            class: ExitClass::Interrupted,
            hint: None,
        });
    }
    let mut session = TuneSession::new(&spec, &problem, &workloads, run_dir, Vec::new()).unwrap();
    let ended = session.run_spread(&mut pool, &mut Watcher::default());
    assert_eq!(ended.unwrap_err().class(), ExitClass::Interrupted);
}
