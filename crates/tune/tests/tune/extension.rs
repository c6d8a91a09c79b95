//! Runs that are continued with more workloads, file systems, options and repeats.

use std::collections::BTreeSet;
use std::path::Path;

use flashfit_filesystem::Setup;
use flashfit_test_support::tempdir_in_memory;
use flashfit_tune::run_dir::read_sustained;
use flashfit_tune::{
    Conclusion, Problem, RunDir, RunEnd, RunSpec, SearchPhase, Space, StrategyKind, TrialKey,
    TrialPurpose, TrialRecord, TuneError, TuneSession,
};

use crate::support::{Answer, FakeTestBed, SpaceOf, Watcher, header, opt, spec, workload};

const STRATEGIES: [StrategyKind; 4] =
    [StrategyKind::Adaptive, StrategyKind::Greedy, StrategyKind::Exhaustive, StrategyKind::Random];

fn small() -> Space {
    SpaceOf::filesystem("x", &[opt("a"), opt("b")]).build()
}

fn large() -> Space {
    SpaceOf::filesystem("x", &[opt("a"), opt("b"), opt("c")]).and("y", &[opt("a")]).build()
}

/// `x a+b` is the best of the small space under the first workload, `x a+b+c` of the large one.
fn landscape(setup: &Setup, workload: &str) -> Answer {
    let base = if setup.filesystem == "x" { 1000 } else { 900 };
    let gain = 100 * setup.options.len() as u64;
    Answer::Kib(if workload == "first" { base + gain } else { 2 * base + gain })
}

fn go(
    dir: &Path,
    space: &Space,
    spec: &RunSpec,
    gone_after: Option<usize>,
) -> (Result<RunEnd, TuneError>, Vec<TrialRecord>, usize) {
    let (run_dir, trials) = if dir.join("run.json").exists() {
        let (run_dir, run) = RunDir::resume(dir).unwrap();
        (run_dir, run.trials)
    } else {
        (RunDir::create(dir, &header(space, spec)).unwrap(), Vec::new())
    };
    let workloads = ["first", "second"].map(workload);
    let problem = Problem::of_run(space, spec).unwrap();
    let mut session = TuneSession::new(spec, &problem, &workloads, run_dir, trials).unwrap();
    let mut stand = FakeTestBed::new(&landscape);
    stand.gone_after = gone_after;
    let ended = session.run(&mut stand, &mut Watcher::default());
    (ended, session.into_trials(), stand.made.len())
}

fn of(strategy: StrategyKind, space: &Space, workloads: &[&str]) -> RunSpec {
    RunSpec { strategy, ..spec(space, workloads) }
}

/// What a run becomes after these trials.
fn extended(strategy: StrategyKind, trials: &[TrialRecord]) -> RunSpec {
    let phase = SearchPhase::after(trials);
    RunSpec { phase, repeats: 3, ..of(strategy, &large(), &["first", "second"]) }
}

fn keys(trials: &[TrialRecord]) -> Vec<TrialKey> {
    trials.iter().map(|trial| trial.key.clone()).collect()
}

#[test]
fn only_what_is_missing_is_measured_and_the_answer_is_confirmed_again() {
    for strategy in STRATEGIES {
        let dir = tempdir_in_memory().unwrap();
        let first = of(strategy, &small(), &["first"]);
        let (ended, before, _) = go(dir.path(), &small(), &first, None);
        ended.unwrap();
        let more = extended(strategy, &before);
        let (ended, after, made) = go(dir.path(), &large(), &more, None);
        ended.unwrap();
        assert_eq!(keys(&after[..before.len()]), keys(&before), "{strategy:?}: kept");
        let longer = read_sustained(dir.path()).unwrap().map_or(0, |found| found.trials.len());
        assert_eq!(after.len() + longer, before.len() + made);
        let unique: BTreeSet<TrialKey> = keys(&after).into_iter().collect();
        assert_eq!(unique.len(), after.len(), "{strategy:?}: a key twice");
        let new = &after[before.len()..];
        let is_search = |trial: &&TrialRecord| trial.key.purpose == TrialPurpose::Search;
        let of_old = |trial: &&TrialRecord| {
            let setup = &trial.key.setup;
            trial.key.workload == "first"
                && setup.filesystem == "x"
                && !setup.options.contains(&"c".to_owned())
        };
        if strategy != StrategyKind::Adaptive {
            // Two repeats of the small space are there; the third is missing, unless a confirming
            // trial counts for it.
            let again = new.iter().filter(is_search).filter(of_old).count();
            assert!(again <= 4, "{strategy:?}: {again}");
        }
        let has = |what: &dyn Fn(&TrialKey) -> bool| new.iter().any(|trial| what(&trial.key));
        assert!(has(&|key| key.workload == "second"), "{strategy:?}");
        assert!(has(&|key| key.setup.filesystem == "y"), "{strategy:?}");
        assert!(has(&|key| key.setup.options.contains(&"c".to_owned())), "{strategy:?}");

        let found = Conclusion::of_run(&large(), &more, &after).unwrap();
        let found = found.recommendation.unwrap();
        assert_eq!(found.winner.label(), "x a+b+c none", "{strategy:?}");
        let gain = found.gain.unwrap_or_else(|| panic!("{strategy:?}"));
        let rounds: BTreeSet<u32> = new
            .iter()
            .filter(|trial| trial.key.purpose == TrialPurpose::Confirm)
            .filter(|trial| trial.key.setup.label() == "x a+b+c none")
            .map(|trial| trial.key.repeat)
            .collect();
        assert_eq!(gain.count, rounds.len(), "{strategy:?}: only fresh rounds confirm");
        let is_fresh = |round: &u32| *round >= more.phase.confirm_round;
        assert!(rounds.iter().all(is_fresh), "{strategy:?}: {rounds:?}");
    }
}

#[test]
fn a_killed_extension_ends_like_one_that_was_not_killed() {
    for strategy in STRATEGIES {
        // The run is extended in the middle of a batch, too.
        for (stopped, step) in [(None, 5), (Some(3), 7)] {
            let first = of(strategy, &small(), &["first"]);
            let whole = tempdir_in_memory().unwrap();
            let (_, before, _) = go(whole.path(), &small(), &first, stopped);
            let more = extended(strategy, &before);
            let (ended, wanted, _) = go(whole.path(), &large(), &more, None);
            ended.unwrap();

            let killed = tempdir_in_memory().unwrap();
            let _ = go(killed.path(), &small(), &first, stopped);
            let mut times = 0;
            let found = loop {
                let (ended, trials, _) = go(killed.path(), &large(), &more, Some(step));
                times += 1;
                assert!(times < 1000, "{strategy:?}: it ends");
                if ended.is_ok() {
                    break trials;
                }
            };
            assert!(times > 1, "{strategy:?}: it was killed");
            // The order within a round of confirming trials is drawn again.
            let sorted = |trials: &[TrialRecord]| keys(trials).into_iter().collect::<BTreeSet<_>>();
            assert!(sorted(&found) == sorted(&wanted), "{strategy:?} {stopped:?}");
            assert_eq!(found.len(), wanted.len(), "{strategy:?} {stopped:?}");
        }
    }
}

#[test]
fn more_budget_continues_a_search_that_had_too_little() {
    for strategy in STRATEGIES {
        let dir = tempdir_in_memory().unwrap();
        let limited = |trials: u32| {
            let mut spec = of(strategy, &large(), &["first"]);
            spec.limits.trials = Some(trials);
            spec
        };
        let (_, before, _) = go(dir.path(), &large(), &limited(12), None);
        let mut more = limited(60);
        more.phase = SearchPhase::after(&before);
        let (ended, after, _) = go(dir.path(), &large(), &more, None);
        ended.unwrap();
        assert!(before.len() <= 24 && after.len() > before.len(), "{strategy:?}");
        let tried: BTreeSet<String> = before.iter().map(|one| one.key.setup.label()).collect();
        let is_new = |trial: &&TrialRecord| {
            let key = &trial.key;
            key.purpose == TrialPurpose::Search && !tried.contains(&key.setup.label())
        };
        assert!(after[before.len()..].iter().any(|trial| is_new(&trial)), "{strategy:?}");
        let unique: BTreeSet<TrialKey> = keys(&after).into_iter().collect();
        assert_eq!(unique.len(), after.len(), "{strategy:?}: a key twice");
    }
}
