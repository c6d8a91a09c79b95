//! Conclusions from confirming trials.

use flashfit_device::random::Random;
use flashfit_filesystem::Scheduler;
use flashfit_tune::{
    Conclusion, GainVerdict, Recommendation, Space, StrategyKind, TrialPurpose, TrialRecord,
};

use crate::support::{SpaceOf, failed, measured, opt, setup, spec};

fn space() -> Space {
    SpaceOf::filesystem("x", &[opt("a"), opt("risky").risky()]).and("y", &[opt("a")]).build()
}

/// Trials with equal results under both workloads.
fn trials(purpose: TrialPurpose, label: &str, rates: &[u64]) -> Vec<TrialRecord> {
    let setup = setup(&space(), label);
    let of = |workload: &'static str| {
        let setup = setup.clone();
        (0..).zip(rates).map(move |(round, &rate)| measured(purpose, &setup, workload, round, rate))
    };
    of("r").chain(of("w")).collect()
}

/// A search won by `x a` with ten times the rate.
fn searched() -> Vec<TrialRecord> {
    [
        trials(TrialPurpose::Search, "x base none", &[1000, 1000]),
        trials(TrialPurpose::Search, "x a none", &[10_000, 10_000]),
    ]
    .concat()
}

fn recommended(trials: &[TrialRecord]) -> Recommendation {
    let spec = spec(&space(), &["r", "w"]);
    Conclusion::of_run(&space(), &spec, trials).unwrap().recommendation.unwrap()
}

/// After that search, with these confirming trials of the winner and the baseline.
fn confirmed(winner: &[u64], baseline: &[u64]) -> Recommendation {
    let found = recommended(
        &[
            searched(),
            trials(TrialPurpose::Confirm, "x a none", winner),
            trials(TrialPurpose::Confirm, "x base none", baseline),
        ]
        .concat(),
    );
    assert_eq!(found.winner.label(), "x a none");
    assert_eq!(found.baseline.label(), "x base none");
    found
}

#[test]
fn better_if_the_whole_interval_is_a_gain() {
    let found = confirmed(&[1200, 1210, 1195, 1202], &[1000, 1005, 998, 1001]);
    assert_eq!(found.verdict, GainVerdict::Better);
    let gain = found.gain.unwrap();
    // The search measured a factor of ten, which must not affect the gain.
    assert!(gain.is_above(1.15f64.ln()) && gain.is_below(1.25f64.ln()), "{gain:?}");
    assert_eq!(gain.count, 4);
    let three = confirmed(&[1200, 1210, 1195], &[1000, 1005, 998]);
    assert_eq!(three.verdict, GainVerdict::NotConfirmed, "fewer than four rounds");
    let names: Vec<&str> = found.gain_by_workload.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["r", "w"]);
    assert!(found.gain_by_workload.iter().all(|(_, gain)| gain.is_above(1.15f64.ln())));
    assert_eq!((found.runner_up, found.better_but_less_safe), (None, None));
}

#[test]
fn tied_if_the_interval_includes_no_gain() {
    let found = confirmed(&[1200, 900, 1000, 1010], &[1000, 1100, 950, 1000]);
    assert_eq!(found.verdict, GainVerdict::CannotTell);
    let same = confirmed(&[1000; 4], &[1000; 4]);
    assert_eq!(same.verdict, GainVerdict::CannotTell);
}

#[test]
fn a_likely_gain_is_recommended_and_not_claimed() {
    for found in [confirmed(&[5000], &[1000]), recommended(&searched())] {
        assert_eq!(found.verdict, GainVerdict::Likely);
        assert_eq!(found.recommended().label(), "x a none");
        assert!(found.likely.is_some_and(|likely| likely.probability > 0.98), "{found:?}");
        assert_eq!(found.subject, found.winner);
    }
    let contradicted = confirmed(&[990, 1000], &[1000, 1000]);
    assert_eq!(contradicted.verdict, GainVerdict::NotConfirmed);
    assert_eq!(contradicted.recommended(), &contradicted.baseline);
}

/// The setup that is recommended is the one whose probability is reported.
#[test]
fn the_reported_probability_is_that_of_the_recommended_setup() {
    let kept = confirmed(&[990, 1000], &[1000, 1000]);
    assert!(kept.keeps_baseline() && kept.within < 0.1, "{kept:?}");
    let left = kept.left_to_gain.expect("the model has both");
    assert!(left.mean > 0.0, "{left:?}");
}

/// A small gain of the winner does not pass to a setup whose own gain is not shown.
#[test]
fn the_setup_that_is_better_is_the_one_that_is_recommended() {
    let space = SpaceOf::filesystem("x", &[opt("a"), opt("b")]).build();
    let mut better = 0;
    for seed in 1..=40 {
        let mut spec = spec(&space, &["r", "w"]);
        if seed % 2 == 0 {
            spec.strategy = StrategyKind::Adaptive;
        }
        let mut random = Random::new(seed);
        let mut trials = Vec::new();
        // The race dropped one of them early.
        let all = [("x base none", 1.0, 10), ("x a+b none", 1.013, 10), ("x a none", 1.006, 4)];
        for (label, gain, rounds) in all {
            let setup = setup(&space, label);
            for workload in ["r", "w"] {
                let mut rate = || {
                    let noise: f64 = (0..12).map(|_| random.below(1000) as f64 / 1000.0).sum();
                    (100_000.0 * gain * (1.0 + 0.01 * (noise - 6.0))) as u64
                };
                for round in 0..4 {
                    trials.push(measured(TrialPurpose::Search, &setup, workload, round, rate()));
                }
                for round in 0..rounds {
                    trials.push(measured(TrialPurpose::Confirm, &setup, workload, round, rate()));
                }
            }
        }
        let found = Conclusion::of_run(&space, &spec, &trials).unwrap().recommendation.unwrap();
        if found.verdict == GainVerdict::Better {
            better += 1;
            assert_eq!(found.recommended(), &found.subject, "{seed}: {found:?}");
        }
    }
    assert!(better > 5, "{better}");
}

#[test]
fn without_a_trial_of_the_baseline_nothing_is_said_of_the_difference() {
    let mut spec = spec(&space(), &["r", "w"]);
    spec.strategy = StrategyKind::Adaptive;
    let of = |labels: &[&str]| {
        let trials: Vec<TrialRecord> =
            labels.iter().flat_map(|label| trials(TrialPurpose::Search, label, &[1000])).collect();
        Conclusion::of_run(&space(), &spec, &trials).unwrap().recommendation.unwrap()
    };
    for label in ["y base none", "x base none"] {
        let found = of(&[label]);
        assert_eq!(found.verdict, GainVerdict::NotConfirmed, "{label}");
        assert!(!found.is_compared && found.left_to_gain.is_none(), "{label}: {found:?}");
    }
    assert!(of(&["y base none", "x base none"]).is_compared);
}

#[test]
fn worse_if_the_whole_interval_is_a_loss() {
    let found = confirmed(&[900, 905, 899, 902], &[1000, 1001, 1003, 999]);
    assert_eq!(found.verdict, GainVerdict::Worse);
    assert!(found.gain.unwrap().is_below(0.0));
}

#[test]
fn rounds_are_compared_in_pairs() {
    // The device slows down to a tenth, but the winner is faster by 2 % in each round.
    let found = confirmed(&[10_200, 5100, 1020, 2040], &[10_000, 5000, 1000, 2000]);
    assert_eq!(found.verdict, GainVerdict::Better);
}

#[test]
fn rounds_are_paired_by_number_in_any_order() {
    let mut winner = trials(TrialPurpose::Confirm, "x a none", &[10_200, 5100, 1020, 2040]);
    winner.reverse();
    let baseline = trials(TrialPurpose::Confirm, "x base none", &[10_000, 5000, 1000, 2000]);
    let found = recommended(&[searched(), winner, baseline].concat());
    assert_eq!(found.verdict, GainVerdict::Better);
}

#[test]
fn not_confirmed_without_confirming_trials() {
    let close = [
        trials(TrialPurpose::Search, "x base none", &[1000, 1100]),
        trials(TrialPurpose::Search, "x a none", &[1110, 1030]),
    ];
    let found = recommended(&close.concat());
    assert_eq!((found.verdict, found.gain), (GainVerdict::NotConfirmed, None));
    assert!(found.gain_by_workload.is_empty());
    let rounds = trials(TrialPurpose::Confirm, "x a none", &[2000, 2000]);
    let found = recommended(&[close.concat(), rounds].concat());
    assert_eq!((found.verdict, found.gain), (GainVerdict::NotConfirmed, None));
}

#[test]
fn a_winner_that_fails_a_confirming_trial_is_not_better() {
    let fails = failed(TrialPurpose::Confirm, &setup(&space(), "x a none"), "w", 2);
    let found = recommended(
        &[
            searched(),
            trials(TrialPurpose::Confirm, "x a none", &[1200, 1210]),
            trials(TrialPurpose::Confirm, "x base none", &[1000, 1005, 998]),
            vec![fails],
        ]
        .concat(),
    );
    assert_eq!((found.verdict, found.gain), (GainVerdict::Worse, None));
}

#[test]
fn the_baseline_can_be_the_winner() {
    let trials = [
        trials(TrialPurpose::Search, "x base none", &[1000; 4]),
        trials(TrialPurpose::Search, "x a none", &[500; 4]),
        trials(TrialPurpose::Search, "y base none", &[500; 4]),
        trials(TrialPurpose::Search, "y a none", &[500; 4]),
    ];
    let found = recommended(&trials.concat());
    assert_eq!(found.verdict, GainVerdict::NothingBeatsUntuned, "{}", found.within);
    assert_eq!(found.winner, found.baseline);
}

#[test]
fn a_baseline_that_hardly_anything_was_compared_with_is_not_the_best() {
    let found = recommended(&trials(TrialPurpose::Search, "x base none", &[1000]));
    assert_eq!((found.verdict, found.gain), (GainVerdict::NotConfirmed, None));
    assert_eq!(found.winner, found.baseline);
    assert!(found.within < 0.5, "{}", found.within);
}

/// More likely than not is not the confidence that was asked for.
#[test]
fn a_baseline_that_may_be_the_best_is_not_said_to_be() {
    let mut unsure = 0;
    for rate in (900..=1100).step_by(10) {
        let found = recommended(
            &[
                trials(TrialPurpose::Search, "x base none", &[1010, 990, 1040]),
                trials(TrialPurpose::Search, "x a none", &[rate, rate - 30, rate + 20]),
            ]
            .concat(),
        );
        let is_unsure = found.keeps_baseline() && (0.5..0.9).contains(&found.within);
        unsure += usize::from(is_unsure);
        let says_no_gain = [GainVerdict::NothingBeatsUntuned, GainVerdict::BaselineTied];
        let is_said = says_no_gain.contains(&found.verdict);
        assert!(!is_said || found.within >= 0.9, "{rate}: {found:?}");
    }
    assert!(unsure > 0, "no baseline that may be the best");
}

#[test]
fn few_rounds_without_a_gain_confirm_nothing() {
    let found = confirmed(&[1010, 990], &[1000, 1001]);
    assert_eq!(found.verdict, GainVerdict::NotConfirmed);
    let found = confirmed(&[1010, 990, 1005, 1000], &[1000, 1001, 999, 1002]);
    assert_eq!(found.verdict, GainVerdict::CannotTell);
}

#[test]
fn another_file_system_is_also_compared_with_its_own_defaults() {
    let found = recommended(
        &[
            searched(),
            trials(TrialPurpose::Search, "y base none", &[20_000, 20_000]),
            trials(TrialPurpose::Search, "y a none", &[30_000, 30_000]),
            trials(TrialPurpose::Confirm, "y a none", &[3000, 3001]),
            trials(TrialPurpose::Confirm, "y base none", &[2000, 2001]),
            trials(TrialPurpose::Confirm, "x base none", &[1000, 1001]),
        ]
        .concat(),
    );
    assert_eq!(
        (found.winner.label(), found.baseline.label().as_str()),
        ("y a none".into(), "x base none")
    );
    assert!((found.gain.unwrap().middle - 3f64.ln()).abs() < 0.01);
    let (own, gain) = found.gain_within.unwrap();
    assert_eq!(own.label(), "y base none");
    assert!((gain.middle - 1.5f64.ln()).abs() < 0.01);
}

#[test]
fn a_better_but_less_safe_setup_is_reported_and_not_recommended() {
    let risky = trials(TrialPurpose::Search, "x risky none", &[50_000, 50_000]);
    let found = recommended(&[searched(), risky].concat());
    assert_eq!(found.winner.label(), "x a none");
    assert_eq!(found.better_but_less_safe.unwrap().label(), "x risky none");
    let slower = trials(TrialPurpose::Search, "x risky none", &[5000, 5000]);
    assert_eq!(recommended(&[searched(), slower].concat()).better_but_less_safe, None);
}

/// The user chose schedulers without that of the baseline: it cannot be recommended, and is neither
/// less safe nor in breach of a limit.
#[test]
fn a_baseline_that_the_user_left_out_is_not_called_unsafe() {
    let mut space = SpaceOf::filesystem("x", &[opt("a")]).schedulers(&["bfq"]).build();
    space.default_scheduler = Scheduler::new("none");
    let mut trials = Vec::new();
    for (label, rate) in [("x base none", 9000), ("x base bfq", 1000), ("x a bfq", 2000)] {
        let setup = setup(&space, label);
        let of =
            |round| measured(TrialPurpose::Search, &setup, "r", round, rate + u64::from(round));
        trials.extend((0..3).map(of));
    }
    let spec = spec(&space, &["r"]);
    // Of the others, one is probably the best, but not confirmed.
    let found = Conclusion::of_run(&space, &spec, &trials).unwrap().recommendation.unwrap();
    assert_eq!(found.recommended().label(), "x a bfq");
    assert_eq!(found.verdict, GainVerdict::NotConfirmed);
    for (label, rate) in [("x base none", 9000), ("x a bfq", 2000)] {
        let setup = setup(&space, label);
        let of =
            |round| measured(TrialPurpose::Confirm, &setup, "r", round, rate + u64::from(round));
        trials.extend((0..4).map(of));
    }
    let found = Conclusion::of_run(&space, &spec, &trials).unwrap().recommendation.unwrap();
    assert_eq!(found.recommended().label(), "x a bfq");
    assert_eq!(found.baseline.label(), "x base none");
    assert_eq!(found.better_but_less_safe, None);
    assert!(!found.baseline_is_listed && !found.baseline_violates, "{found:?}");
}

#[test]
fn without_a_setup_measured_under_all_workloads_there_is_no_recommendation() {
    let only_reads: Vec<TrialRecord> =
        searched().into_iter().filter(|trial| trial.key.workload == "r").collect();
    let spec = spec(&space(), &["r", "w"]);
    let found = Conclusion::of_run(&space(), &spec, &only_reads).unwrap();
    // The search may have a preliminary choice, but there is no recommendation.
    let verdict = found.recommendation.map(|found| found.verdict);
    assert!(matches!(verdict, None | Some(GainVerdict::NotConfirmed)), "{verdict:?}");
}
