//! Runs of the adaptive search and runs with budgets, on a fake test bed.

use flashfit_filesystem::Setup;
use flashfit_search::{SearchEnd, SearchError};
use flashfit_test_support::tempdir_in_memory;
use flashfit_tune::budget::BudgetReached;
use flashfit_tune::life::{EstimatedLife, GivenLife, RunLife};
use flashfit_tune::{
    Budget, Conclusion, GainVerdict, LeastBudget, Problem, RunDir, RunEnd, RunSpec, Space,
    StoredRun, StrategyKind, TrialKey, TrialPurpose, TrialRecord, TuneError, TuneSession,
};
use flashfit_user_error::{ExitClass, UserError};

use crate::support::{Answer, FakeTestBed, SpaceOf, Watcher, header, opt, spec, workload};

fn space() -> Space {
    SpaceOf::filesystem("x", &[opt("a"), opt("b"), opt("c")])
        .and("y", &[opt("a"), opt("bad")])
        .schedulers(&["none", "bfq"])
        .build()
}

/// Noise of a few parts per thousand, determined by the setup, so that no two are equal.
fn jitter(setup: &Setup, workload: &str) -> u64 {
    let text = format!("{setup}{workload}");
    text.bytes().fold(7u64, |sum, byte| (sum * 31 + u64::from(byte)) % 1009) % 9
}

/// `x a+b` is the best by a fifth and more; `bad` fails.
fn landscape(setup: &Setup, workload: &str) -> Answer {
    let has = |name: &str| setup.options.iter().any(|option| option == name);
    if has("bad") {
        return Answer::Fails;
    }
    let mut rate = if setup.filesystem == "x" { 10_000 } else { 8000 };
    rate += if has("a") { 2000 } else { 0 };
    rate += if has("b") { 2500 } else { 0 };
    rate -= if has("c") { 1500 } else { 0 };
    rate -= if setup.scheduler.name() == "bfq" { 700 } else { 0 };
    Answer::Kib(rate + jitter(setup, workload))
}

fn adaptive(trials: Option<u32>) -> RunSpec {
    let mut spec = spec(&space(), &["first", "second"]);
    spec.strategy = StrategyKind::Adaptive;
    spec.limits = Budget { trials, ..Budget::default() };
    spec
}

/// The result of a run or a part of it.
struct Went {
    ended: Result<RunEnd, TuneError>,
    trials: Vec<TrialRecord>,
    watcher: Watcher,
}

fn go(dir: &std::path::Path, spec: &RunSpec, stand: FakeTestBed<'_>) -> Went {
    go_in(&space(), dir, spec, stand)
}

fn go_in(space: &Space, dir: &std::path::Path, spec: &RunSpec, mut stand: FakeTestBed<'_>) -> Went {
    let problem = Problem::of_run(space, spec).unwrap();
    let workloads = ["first", "second"].map(workload);
    let (run_dir, trials) = if dir.join("run.json").exists() {
        let (run_dir, StoredRun { trials, .. }) = RunDir::resume(dir).unwrap();
        (run_dir, trials)
    } else {
        (RunDir::create(dir, &header(space, spec)).unwrap(), Vec::new())
    };
    let mut watcher = Watcher::default();
    let mut session = TuneSession::new(spec, &problem, &workloads, run_dir, trials).unwrap();
    let ended = session.run(&mut stand, &mut watcher);
    Went { ended, trials: session.into_trials(), watcher }
}

fn whole(spec: &RunSpec) -> Went {
    let dir = tempdir_in_memory().unwrap();
    go(dir.path(), spec, FakeTestBed::new(&landscape))
}

fn keys(trials: &[TrialRecord]) -> Vec<TrialKey> {
    trials.iter().map(|trial| trial.key.clone()).collect()
}

#[test]
fn the_adaptive_search_finds_the_best_setup_and_skips_failures() {
    let spec = adaptive(Some(120));
    let went = whole(&spec);
    went.ended.unwrap();
    let found = Conclusion::of_run(&space(), &spec, &went.trials).unwrap();
    let recommendation = found.recommendation.as_ref().unwrap();
    assert_eq!(recommendation.winner.label(), "x a+b none");
    assert_eq!(recommendation.recommended().label(), "x a+b none");
    assert_eq!(recommendation.verdict, GainVerdict::Better);
    let gain = recommendation.gain.unwrap().middle;
    assert!((gain - 1.45f64.ln()).abs() < 0.02, "{gain}");
    let confirming = went.trials.iter().filter(|trial| trial.key.purpose == TrialPurpose::Confirm);
    assert!(confirming.clone().count() >= 8);
    assert!(confirming.clone().all(|trial| trial.key.length.is_full()));
    // Each of them is tried only once.
    let mut failed: Vec<String> = went
        .trials
        .iter()
        .filter(|trial| trial.points().is_none())
        .map(|trial| trial.key.setup.label())
        .collect();
    let count = failed.len();
    failed.sort();
    failed.dedup();
    assert_eq!(failed.len(), count, "a setup that failed was tried again");
    assert!(!went.watcher.thoughts.is_empty());
}

/// Short trials take as long as others here, as where most of the time is that of mkfs.
#[test]
fn the_least_budget_confirms_what_it_finds_where_short_trials_cost_as_much() {
    let least = flashfit_search::least_trials(usize::MAX, 2, 2);
    for trials in [least, least + 1] {
        let spec = adaptive(Some(u32::try_from(trials).unwrap()));
        let went = whole(&spec);
        went.ended.unwrap();
        let found = Conclusion::of_run(&space(), &spec, &went.trials).unwrap();
        let recommendation = found.recommendation.unwrap();
        let rounds = recommendation.gain.unwrap().count;
        assert!(rounds >= flashfit_search::MIN_ROUNDS, "{rounds} rounds of {trials} trials");
    }
}

#[test]
fn an_adaptive_run_interrupted_anywhere_resumes_with_the_same_trials() {
    let spec = adaptive(Some(36));
    let expected = whole(&spec);
    expected.ended.unwrap();
    let count = expected.trials.len();
    assert!(count >= 30, "{count}");
    for first_part in 0..=count {
        let dir = tempdir_in_memory().unwrap();
        let mut dying = FakeTestBed::new(&landscape);
        dying.gone_after = Some(first_part);
        go(dir.path(), &spec, dying);
        let rest = go(dir.path(), &spec, FakeTestBed::new(&landscape));
        rest.ended.unwrap();
        assert_eq!(keys(&rest.trials), keys(&expected.trials), "stopped after {first_part}");
    }
}

#[test]
fn no_strategy_exceeds_its_trial_budget() {
    let kinds = [
        StrategyKind::Adaptive,
        StrategyKind::Greedy,
        StrategyKind::Exhaustive,
        StrategyKind::Random,
    ];
    for kind in kinds {
        for trials in [4, 17, 60] {
            let spec = RunSpec { strategy: kind, ..adaptive(Some(trials)) };
            let went = whole(&spec);
            went.ended.unwrap();
            let short = went.trials.iter().filter(|trial| !trial.key.length.is_full()).count();
            let full = went.trials.len() - short;
            // Short trials take as long as full-length ones on this test bed, so they count nearly
            // as much.
            let spent = 0.4 * short as f64 + full as f64;
            assert!(spent <= f64::from(trials) + 1e-9, "{kind:?}, {trials}: {full} and {short}");
        }
    }
}

#[test]
fn a_time_budget_ends_a_run_and_reserves_time_for_confirming() {
    for kind in [StrategyKind::Greedy, StrategyKind::Exhaustive] {
        let mut spec = RunSpec { strategy: kind, ..adaptive(None) };
        // Trials take a second each.
        spec.limits.budget_ns = Some(90_000_000_000);
        let went = whole(&spec);
        went.ended.unwrap();
        assert!(went.trials.len() <= 90, "{kind:?}: {}", went.trials.len());
        let confirms = |trial: &TrialRecord| trial.key.purpose == TrialPurpose::Confirm;
        assert!(went.trials.iter().any(confirms), "{kind:?} confirms nothing");
    }
    let mut spec = adaptive(None);
    spec.limits.max_write_bytes = Some(12 << 20);
    let went = whole(&spec);
    assert!(went.trials.len() <= 12, "a trial writes a MiB, and {} were made", went.trials.len());
    let ended = went.ended.unwrap();
    assert!(
        matches!(ended, RunEnd::Limit(BudgetReached::MaxWrite) | RunEnd::Search(SearchEnd::Budget)),
        "{ended:?}"
    );
}

#[test]
fn the_trials_left_are_what_the_budget_allows_from_the_first_trial_on() {
    let mut spec = adaptive(None);
    spec.limits.budget_ns = Some(90_000_000_000);
    let left = whole(&spec).watcher.left;
    // A trial takes a second. It is not known what one costs before the first.
    for (made, left) in left.iter().enumerate().skip(1) {
        assert_eq!(left.unwrap(), (90 - made as u64).max(1), "after {made} trials");
    }
}

#[test]
fn budgets_too_small_for_every_file_system_are_rejected_with_the_required_one() {
    let refused = |spec: &RunSpec| {
        let error = whole(spec).ended.unwrap_err();
        assert_eq!(error.class(), ExitClass::Usage);
        error
    };
    let error = refused(&adaptive(Some(1)));
    assert!(error.to_string().contains("too few"), "{error}");
    let TuneError::Search(SearchError::TooFewTrials { least, .. }) = error else {
        panic!("{error:?}")
    };
    assert!(least > 1.0, "{least}");
    let mut spec = adaptive(None);
    spec.limits.budget_ns = Some(1_500_000_000);
    let error = refused(&spec);
    assert!(error.to_string().contains("about 2 s"), "{error}");
    let least = LeastBudget::Seconds(2);
    assert!(matches!(&error, TuneError::BudgetTooSmall { least: found, .. } if *found == least));
    let mut spec = adaptive(None);
    spec.limits.max_write_bytes = Some(1 << 20);
    let error = refused(&spec);
    assert!(error.to_string().contains("2 MiB"), "{error}");
    let least = LeastBudget::WrittenMib(2);
    assert!(matches!(&error, TuneError::BudgetTooSmall { least: found, .. } if *found == least));
    // What is asked for is enough.
    spec.limits.max_write_bytes = Some(2 << 20);
    let dir = tempdir_in_memory().unwrap();
    go(dir.path(), &spec, FakeTestBed::new(&landscape)).ended.unwrap();
}

#[test]
fn a_run_that_was_refused_for_its_budget_goes_on_with_what_it_named() {
    for strategy in [StrategyKind::Adaptive, StrategyKind::Greedy, StrategyKind::Exhaustive] {
        let dir = tempdir_in_memory().unwrap();
        let mut spec = RunSpec { strategy, ..adaptive(None) };
        spec.limits.budget_ns = Some(1_500_000_000);
        let error = go(dir.path(), &spec, FakeTestBed::new(&landscape)).ended.unwrap_err();
        let TuneError::BudgetTooSmall { least: LeastBudget::Seconds(seconds), .. } = error else {
            panic!("{error:?}")
        };
        spec.limits.budget_ns = Some(seconds * 1_000_000_000);
        let went = go(dir.path(), &spec, FakeTestBed::new(&landscape));
        went.ended.unwrap();
        assert_eq!(went.trials.len(), 2, "{strategy:?}");
    }
}

#[test]
fn an_adaptive_run_in_which_everything_fails_stops_early_with_the_reason() {
    let fails = |_: &Setup, _: &str| Answer::Fails;
    let dir = tempdir_in_memory().unwrap();
    let spec = adaptive(Some(500));
    for _ in 0..2 {
        let went = go(dir.path(), &spec, FakeTestBed::new(&fails));
        let error = went.ended.unwrap_err();
        assert!(matches!(error, TuneError::AllFailed { .. }), "{error}");
        assert!(went.trials.len() <= 16, "{}", went.trials.len());
    }
}

#[test]
fn a_setup_that_violates_the_constraint_is_not_recommended() {
    // The 99th percentile follows from the rate; only the fastest setups violate the constraint.
    let spec = RunSpec { p99_write_max_ns: Some(1_000_000_000 / 12_200), ..adaptive(Some(120)) };
    let slow = |setup: &Setup, workload: &str| match landscape(setup, workload) {
        Answer::Kib(rate) if rate > 12_900 => Answer::SlowAt99(rate),
        other => other,
    };
    let dir = tempdir_in_memory().unwrap();
    let went = go(dir.path(), &spec, FakeTestBed::new(&slow));
    went.ended.unwrap();
    let found = Conclusion::of_run(&space(), &spec, &went.trials).unwrap();
    // The search left it after the first slow trials.
    let of_fastest = |trial: &&TrialRecord| trial.key.setup.label() == "x a+b none";
    let slow = went.trials.iter().filter(of_fastest).count();
    assert!((1..=6).contains(&slow), "{slow}");
    let winner = found.recommendation.unwrap().winner.label();
    assert_eq!(winner, "x b none");
}

/// Setups that exceed it wait, so that the others get the budget.
#[test]
fn the_search_goes_on_among_those_that_may_meet_the_constraint() {
    let spec = RunSpec { p99_write_max_ns: Some(1_000_000_000 / 5000), ..adaptive(Some(60)) };
    let has_a = |setup: &Setup| setup.options.iter().any(|option| option == "a");
    let fast = |setup: &Setup, workload: &str| match landscape(setup, workload) {
        Answer::Kib(rate) if has_a(setup) => Answer::SlowAt99(rate * 3 / 2),
        other => other,
    };
    let dir = tempdir_in_memory().unwrap();
    let went = go(dir.path(), &spec, FakeTestBed::new(&fast));
    went.ended.unwrap();
    let beyond = went.trials.iter().filter(|trial| has_a(&trial.key.setup)).count();
    assert!(3 * beyond < went.trials.len(), "{beyond} of {}", went.trials.len());
    let found = Conclusion::of_run(&space(), &spec, &went.trials).unwrap().recommendation.unwrap();
    assert_eq!(found.winner.label(), "x b none");
}

#[test]
fn a_baseline_that_violates_the_constraint_is_not_recommended() {
    let spec = RunSpec { p99_write_max_ns: Some(1_000_000), ..adaptive(Some(90)) };
    // Only `a` is fast enough, and it has no gain.
    let slow = |setup: &Setup, _: &str| match setup.options_label().as_str() {
        "a" => Answer::Kib(10_000),
        "bad" | "a+bad" => Answer::Fails,
        _ => Answer::SlowAt99(10_000),
    };
    let dir = tempdir_in_memory().unwrap();
    let went = go(dir.path(), &spec, FakeTestBed::new(&slow));
    went.ended.unwrap();
    let found = Conclusion::of_run(&space(), &spec, &went.trials).unwrap();
    let recommended = found.recommendation.unwrap();
    assert!(!recommended.baseline_is_allowed && recommended.baseline_violates);
    assert_eq!(recommended.recommended().options_label(), "a");
    let never = |_: &Setup, _: &str| Answer::SlowAt99(10_000);
    let spec = RunSpec { p99_write_max_ns: Some(1_000_000), ..adaptive(Some(400)) };
    let dir = tempdir_in_memory().unwrap();
    let went = go(dir.path(), &spec, FakeTestBed::new(&never));
    assert_eq!(went.ended.unwrap(), RunEnd::Search(SearchEnd::Exhausted));
    let found = Conclusion::of_run(&space(), &spec, &went.trials).unwrap();
    assert!(found.recommendation.is_none() && !found.broken.is_empty());
}

/// The search goes on with a setup after a slow trial of it.
#[test]
fn a_setup_with_one_slow_trial_under_each_workload_is_still_recommended() {
    let spec = RunSpec { p99_write_max_ns: Some(1_000_000), ..adaptive(Some(120)) };
    let seen = std::cell::RefCell::new(std::collections::BTreeSet::new());
    let first_is_slow = |setup: &Setup, workload: &str| match landscape(setup, workload) {
        Answer::Kib(rate) if seen.borrow_mut().insert(format!("{setup} {workload}")) => {
            Answer::P99(rate, 3_000_000)
        }
        Answer::Kib(rate) => Answer::P99(rate, 100_000),
        other => other,
    };
    let dir = tempdir_in_memory().unwrap();
    go(dir.path(), &spec, FakeTestBed::new(&first_is_slow)).ended.unwrap();
    let (_, StoredRun { trials, .. }) = RunDir::resume(dir.path()).unwrap();
    let found = Conclusion::of_run(&space(), &spec, &trials).unwrap();
    assert!(found.broken.is_empty(), "{:?}", found.broken);
    assert_eq!(found.recommendation.unwrap().winner.label(), "x a+b none");
}

#[test]
fn a_run_in_which_nothing_can_last_long_enough_ends_after_the_first_batch() {
    let estimate = |filesystem: &str| EstimatedLife {
        filesystem: filesystem.to_owned(),
        options: Vec::new(),
        years_thousandths: [1000, 2000, 4000],
        limit: String::new(),
    };
    let life = |min_years_thousandths: u32| RunLife {
        usage: "kiosk".to_owned(),
        gib_a_day_thousandths: 1,
        device: String::new(),
        rated_cycles: 1,
        given: GivenLife {
            min_years_thousandths: Some(min_years_thousandths),
            ..GivenLife::default()
        },
        setups: vec![estimate("x"), estimate("y")],
        unknown: Vec::new(),
    };
    let spec = RunSpec { life: Some(life(50_000)), ..adaptive(Some(120)) };
    let went = whole(&spec);
    assert_eq!(went.ended.unwrap(), RunEnd::Search(SearchEnd::Exhausted));
    assert!(went.trials.len() <= 16, "{}", went.trials.len());
    let found = Conclusion::of_run(&space(), &spec, &went.trials).unwrap();
    assert!(found.recommendation.is_none() && found.longest_lasting().is_some());
    // The test bed writes as much for each setup, so that the fastest one wears the device least.
    let spec = RunSpec { life: Some(life(1100)), ..adaptive(Some(120)) };
    let went = whole(&spec);
    let found = Conclusion::of_run(&space(), &spec, &went.trials).unwrap();
    let recommended = found.recommendation.unwrap();
    assert_eq!(recommended.winner.label(), "x a+b none");
    assert!(!recommended.baseline_is_allowed && !recommended.baseline_violates);
}

#[test]
fn a_baseline_within_the_noise_of_the_constraint_does_not_violate_it() {
    // The 99th percentile of the baseline is the limit, that of `a` is far below.
    let limit_ns = Some(1_000_000_000 / 10_000);
    let spec = RunSpec { p99_write_max_ns: limit_ns, ..adaptive(Some(90)) };
    let near = |setup: &Setup, _: &str| match setup.options_label().as_str() {
        "a" => Answer::Kib(10_000),
        "bad" | "a+bad" => Answer::Fails,
        _ => Answer::P99(10_000, 100_000),
    };
    let dir = tempdir_in_memory().unwrap();
    let went = go(dir.path(), &spec, FakeTestBed::new(&near));
    went.ended.unwrap();
    let found = Conclusion::of_run(&space(), &spec, &went.trials).unwrap();
    assert!(found.broken.is_empty());
    let recommended = found.recommendation.unwrap();
    assert_eq!(recommended.recommended().options_label(), "a");
    assert!(!recommended.baseline_is_allowed && !recommended.baseline_violates);
}

/// With a budget of little more than the confirming trials, options are still tried.
#[test]
fn a_small_budget_is_not_spent_on_confirming_alone() {
    use flashfit_tune::TrialPurpose;
    for strategy in [StrategyKind::Greedy, StrategyKind::Exhaustive, StrategyKind::Random] {
        for trials in [20, 27, 45] {
            let confirm_rounds = 3;
            let mut spec = RunSpec { strategy, confirm_rounds, ..adaptive(Some(trials)) };
            spec.repeats = 1;
            let made = whole(&spec).trials;
            let confirming = |trial: &&TrialRecord| trial.key.purpose == TrialPurpose::Confirm;
            let confirming = made.iter().filter(confirming).count();
            assert!(2 * confirming <= made.len() + 1, "{strategy:?} {trials}: {confirming}");
            let with_options = made.iter().filter(|trial| !trial.key.setup.options.is_empty());
            assert!(with_options.count() > 0, "{strategy:?} {trials}: no option is tried");
            assert!(made.len() <= trials as usize, "{strategy:?} {trials}: {}", made.len());
        }
    }
}

#[test]
fn a_write_budget_below_the_first_trial_of_a_single_file_system_is_rejected() {
    let space = SpaceOf::filesystem("x", &[opt("a")]).build();
    let mut spec = spec(&space, &["first", "second"]);
    spec.strategy = StrategyKind::Adaptive;
    spec.limits = Budget { max_write_bytes: Some(1 << 19), ..Budget::default() };
    let dir = tempdir_in_memory().unwrap();
    let went = go_in(&space, dir.path(), &spec, FakeTestBed::new(&landscape));
    assert_eq!(went.trials.len(), 1);
    let error = went.ended.unwrap_err();
    assert!(error.to_string().contains("one trial takes about 1 MiB"), "{error}");
    let least = LeastBudget::WrittenMib(1);
    assert!(matches!(&error, TuneError::BudgetTooSmall { least: found, .. } if *found == least));
}
