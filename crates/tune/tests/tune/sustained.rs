//! Longer trials at the end of a run on a fake test bed.

use std::path::Path;

use flashfit_filesystem::Setup;
use flashfit_test_support::tempdir_in_memory;
use flashfit_tune::run_dir::read_sustained;
use flashfit_tune::sustained::SustainedGain;
use flashfit_tune::{
    Conclusion, Problem, RunDir, RunSpec, Space, StrategyKind, TrialRecord, TuneSession,
};

use crate::support::{Answer, FakeTestBed, SpaceOf, Watcher, header, opt, spec, workload};

const MINUTE_NS: u64 = 60_000_000_000;

fn space() -> Space {
    SpaceOf::filesystem("x", &[opt("a")]).and("y", &[]).build()
}

/// `y` is the fastest in short trials.
fn short(setup: &Setup, _: &str) -> Answer {
    Answer::Kib(if setup.filesystem == "y" { 1500 } else { 1000 })
}

/// `y` is the slowest in longer ones.
fn long(setup: &Setup, _: &str) -> Answer {
    Answer::Kib(if setup.filesystem == "y" { 500 } else { 1000 })
}

fn adaptive(budget_ns: Option<u64>) -> RunSpec {
    let mut spec = spec(&space(), &["first", "second"]);
    spec.strategy = StrategyKind::Adaptive;
    spec.limits.budget_ns = budget_ns;
    spec
}

/// Starts or resumes a run; returns its trials and how many were made now.
fn go(dir: &Path, spec: &RunSpec, stand: &mut FakeTestBed<'_>) -> (Vec<TrialRecord>, bool) {
    let workloads = ["first", "second"].map(workload).to_vec();
    let (run_dir, trials) = if dir.join("run.json").exists() {
        let (run_dir, run) = RunDir::resume(dir).unwrap();
        (run_dir, run.trials)
    } else {
        (RunDir::create(dir, &header(&space(), spec)).unwrap(), Vec::new())
    };
    let space = space();
    let problem = Problem::of_run(&space, spec).unwrap();
    let mut session = TuneSession::new(spec, &problem, &workloads, run_dir, trials).unwrap();
    let ended = session.run(stand, &mut Watcher::default()).is_ok();
    (session.into_trials(), ended)
}

#[test]
fn longer_trials_compare_the_recommended_setup_with_the_baseline() {
    let dir = tempdir_in_memory().unwrap();
    let spec = adaptive(Some(30 * MINUTE_NS));
    let mut stand = FakeTestBed::new(&short);
    stand.longer = Some(&long);
    let (trials, ended) = go(dir.path(), &spec, &mut stand);
    assert!(ended);
    let found = Conclusion::of_run(&space(), &spec, &trials).unwrap().recommendation.unwrap();
    assert_eq!(found.recommended().filesystem, "y");
    let kept = read_sustained(dir.path()).unwrap().expect("there are longer trials");
    assert!((8_000..=30_000).contains(&kept.runtime_ms), "{}", kept.runtime_ms);
    assert_eq!(kept.trials.len(), 8, "two setups, two workloads, two rounds");
    assert_eq!(stand.made.len(), trials.len() + kept.trials.len());
    let gain = SustainedGain::of(&spec, &kept, &found.baseline).unwrap();
    assert_eq!(gain.setup.filesystem, "y");
    assert!((gain.mean() - 0.5_f64.ln()).abs() < 0.01, "{gain:?}");
    assert!(gain.contradicts(found.gain.unwrap().middle, 0.02), "{gain:?}");
    assert!(!gain.contradicts(-1.0, 0.02), "{gain:?}");
    // They are no trials of the search, and are not made again.
    let mut again = FakeTestBed::new(&short);
    assert!(go(dir.path(), &spec, &mut again).1);
    assert!(again.made.is_empty(), "{:?}", again.made);
}

#[test]
fn a_run_that_was_killed_within_longer_trials_makes_the_rest() {
    let whole = tempdir_in_memory().unwrap();
    let spec = adaptive(Some(30 * MINUTE_NS));
    let mut stand = FakeTestBed::new(&short);
    let (trials, _) = go(whole.path(), &spec, &mut stand);
    let dir = tempdir_in_memory().unwrap();
    let mut killed = FakeTestBed::new(&short);
    killed.gone_after = Some(trials.len() + 3);
    assert!(!go(dir.path(), &spec, &mut killed).1);
    let mut rest = FakeTestBed::new(&short);
    assert!(go(dir.path(), &spec, &mut rest).1);
    assert_eq!(rest.made.len(), 5);
    assert_eq!(read_sustained(dir.path()).unwrap().unwrap().trials.len(), 8);
}

#[test]
fn they_keep_to_their_share_of_the_budget_and_are_left_out_where_it_is_small() {
    let runtime_ms = |spec: &RunSpec| {
        let dir = tempdir_in_memory().unwrap();
        let mut stand = FakeTestBed::new(&short);
        stand.trial_ns = 10_000_000_000;
        go(dir.path(), spec, &mut stand);
        read_sustained(dir.path()).unwrap().map(|found| found.runtime_ms)
    };
    // A round of four trials takes 20 s and another 20 s for each time as long, out of 300 s.
    assert_eq!(runtime_ms(&adaptive(Some(30 * MINUTE_NS))), Some(13_000));
    assert_eq!(runtime_ms(&adaptive(None)), Some(30_000));
    assert_eq!(runtime_ms(&adaptive(Some(5 * MINUTE_NS))), None);
    // Four times as long is longer than they may be: nothing is kept for them.
    let mut standard = adaptive(Some(30 * MINUTE_NS));
    standard.runtime_ms = 10_000;
    assert_eq!(runtime_ms(&standard), None);
    let mut few = adaptive(None);
    few.limits.trials = Some(40);
    assert_eq!(runtime_ms(&few), None);
    few.limits.trials = None;
    few.limits.max_write_bytes = Some(32 << 20);
    assert_eq!(runtime_ms(&few), None, "the writes would be more than their share");
}
