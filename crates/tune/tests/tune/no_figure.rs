//! Trials that complete without the figure that a run is ranked by, such as a count of the bytes
//! written that could not be read.

use std::path::Path;

use flashfit_bench::Workload;
use flashfit_filesystem::Setup;
use flashfit_test_support::tempdir_in_memory;
use flashfit_tune::objective::{NoFigure, NoFigures};
use flashfit_tune::{
    Conclusion, ConclusionError, Criterion, Problem, RunDir, RunSpec, Space, StrategyKind,
    TrialRecord, TuneError, TuneSession,
};

use crate::support::{Answer, FakeTestBed, SpaceOf, Watcher, header, opt, spec, workload};

fn space() -> Space {
    SpaceOf::filesystem("x", &[opt("a")]).and("y", &[opt("a")]).build()
}

/// All write as much, so that the fastest wears the device least.
fn landscape(setup: &Setup, _: &str) -> Answer {
    let base = if setup.filesystem == "x" { 1000 } else { 700 };
    Answer::Kib(base + 200 * setup.options.len() as u64)
}

/// Starts or continues a run by wear in which these trials have no count.
fn go(
    dir: &Path,
    strategy: StrategyKind,
    is_uncounted: fn(usize, &str) -> bool,
) -> (RunSpec, Vec<TrialRecord>, Result<(), TuneError>) {
    go_in(&space(), 60, dir, strategy, is_uncounted)
}

/// The same in this space, with so many trials.
fn go_in(
    space: &Space,
    trials: u32,
    dir: &Path,
    strategy: StrategyKind,
    is_uncounted: fn(usize, &str) -> bool,
) -> (RunSpec, Vec<TrialRecord>, Result<(), TuneError>) {
    let mut spec = RunSpec { strategy, by: Criterion::Wear, ..spec(space, &["first", "second"]) };
    spec.limits.trials = Some(trials);
    let workloads: Vec<Workload> = ["first", "second"].map(workload).to_vec();
    let (run_dir, trials) = if dir.join("run.json").exists() {
        let (run_dir, run) = RunDir::resume(dir).unwrap();
        (run_dir, run.trials)
    } else {
        (RunDir::create(dir, &header(space, &spec)).unwrap(), Vec::new())
    };
    let problem = Problem::of_run(space, &spec).unwrap();
    let mut test_bed = FakeTestBed::new(&landscape);
    test_bed.is_uncounted = is_uncounted;
    let mut session = TuneSession::new(&spec, &problem, &workloads, run_dir, trials).unwrap();
    let ended = session.run(&mut test_bed, &mut Watcher::default()).map(drop);
    let trials = session.into_trials();
    (spec, trials, ended)
}

#[test]
fn a_trial_that_was_not_counted_does_not_end_the_run() {
    for strategy in [StrategyKind::Adaptive, StrategyKind::Greedy] {
        let dir = tempdir_in_memory().unwrap();
        let (spec, trials, ended) =
            go(dir.path(), strategy, |number, _| [0, 5, 9].contains(&number));
        ended.unwrap();
        let found = Conclusion::of_run(&space(), &spec, &trials).unwrap();
        assert_eq!(found.without_figure.len(), 3, "{strategy:?}");
        assert!(found.answer.unwrap().excluded.is_empty(), "{strategy:?}");
        let recommended = found.recommendation.unwrap();
        assert_eq!(recommended.winner.label(), "x a none", "{strategy:?}");
        // The setup of the first trial was tried again.
        let key = &trials[0].key;
        let same = |trial: &&TrialRecord| {
            (&trial.key.setup, &trial.key.workload) == (&key.setup, &key.workload)
        };
        assert!(trials.iter().filter(same).count() > 1, "{strategy:?}");
    }
}

#[test]
fn a_setup_that_is_left_out_for_lack_of_figures_is_named() {
    let dir = tempdir_in_memory().unwrap();
    let (spec, mut trials, ended) = go(dir.path(), StrategyKind::Greedy, |_, _| false);
    ended.unwrap();
    let baseline = &space().baseline().unwrap();
    let is_lacking = |trial: &&mut TrialRecord| {
        (&trial.key.setup, trial.key.workload.as_str()) == (baseline, "second")
    };
    let lacking: Vec<u32> = trials
        .iter_mut()
        .filter(is_lacking)
        .map(|trial| {
            (trial.written, trial.counters) = (None, None);
            trial.number
        })
        .collect();
    assert!(lacking.len() >= 3);
    let found = Conclusion::of_run(&space(), &spec, &trials).unwrap();
    let [only] = &found.setups_without_figure[..] else {
        panic!("{:?}", found.setups_without_figure)
    };
    assert_eq!(only.candidate, found.problem.space.baseline);
    assert_eq!(found.problem.workloads[only.workload], "second");
    assert_eq!((only.lacking, only.completed), (lacking.len(), lacking.len()));
    assert_eq!(only.last, NoFigure::Wear { number: *lacking.last().unwrap() });
}

#[test]
fn two_setups_without_a_count_in_their_first_trials_do_not_end_the_run() {
    for strategy in [StrategyKind::Adaptive, StrategyKind::Greedy] {
        let space = SpaceOf::filesystem("x", &[]).and("y", &[]).build();
        let dir = tempdir_in_memory().unwrap();
        let (_, trials, ended) = go_in(&space, 30, dir.path(), strategy, |number, _| number < 2);
        ended.unwrap();
        assert!(trials.len() > 4, "{strategy:?}: {}", trials.len());
    }
}

#[test]
fn a_run_that_ends_before_any_count_says_why() {
    let space = SpaceOf::filesystem("x", &[opt("a")]).build();
    let dir = tempdir_in_memory().unwrap();
    // A short trial counts as less than one.
    let (_, trials, ended) = go_in(&space, 1, dir.path(), StrategyKind::Adaptive, |_, _| true);
    let error = ended.unwrap_err();
    let made = trials.len();
    assert!((1..3).contains(&made), "{made}");
    let expected = format!("trial {made} has no count of what was written to the device");
    assert_eq!(error.to_string(), format!("no trial can be ranked by wear: {expected}"));
}

#[test]
fn a_run_without_any_count_ends_soon_and_says_why() {
    let dir = tempdir_in_memory().unwrap();
    let (spec, trials, ended) = go(dir.path(), StrategyKind::Adaptive, |_, _| true);
    let error = ended.unwrap_err();
    assert_eq!(trials.len(), 3);
    let expected = "no trial can be ranked by wear: trial 3 has no count of what was written to the \
        device";
    assert_eq!(error.to_string(), expected);
    assert!(matches!(&error, TuneError::NoFigures(NoFigures { workload: None, .. })));
    let found = Conclusion::of_run(&space(), &spec, &trials).unwrap_err();
    assert!(matches!(&found, ConclusionError::NoFigures(_)), "{found}");
    // Continuing does not help, and makes no more of them.
    let (_, trials, ended) = go(dir.path(), StrategyKind::Adaptive, |_, _| false);
    assert!(ended.is_err() && trials.len() == 3, "{}", trials.len());
}

#[test]
fn a_workload_without_any_count_ends_the_run_with_its_name() {
    let dir = tempdir_in_memory().unwrap();
    let (_, trials, ended) =
        go(dir.path(), StrategyKind::Adaptive, |_, workload| workload == "second");
    let error = ended.unwrap_err();
    assert!(error.to_string().starts_with("no trial under second can be ranked by wear: "));
    let of_it = trials.iter().filter(|trial| trial.key.workload == "second").count();
    assert_eq!(of_it, 3);
}

/// Of an earlier version, which ended at such a trial, the run can be continued.
#[test]
fn a_run_that_ended_at_such_a_trial_goes_on() {
    let dir = tempdir_in_memory().unwrap();
    let (_, _, ended) = go(dir.path(), StrategyKind::Adaptive, |number, _| number == 0);
    ended.unwrap();
    let lines = std::fs::read_to_string(dir.path().join("trials.jsonl")).unwrap();
    let first = lines.lines().next().unwrap().to_owned() + "\n";
    std::fs::write(dir.path().join("trials.jsonl"), first).unwrap();
    let (_, trials, ended) = go(dir.path(), StrategyKind::Adaptive, |_, _| false);
    ended.unwrap();
    assert!(trials.len() > 20, "{}", trials.len());
}
