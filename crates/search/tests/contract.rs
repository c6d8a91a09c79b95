//! Requirements on every strategy: it proposes only existing trials, keeps to the budget, is
//! deterministic, can be resumed after any trial, and terminates.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_search::landscape::{Landscape, LandscapeKind, run};
use flashfit_search::{
    Adaptive, ConfirmingTrials, Exhaustive, Greedy, MIN_ROUNDS, NextStep, Observation, Purpose,
    RandomSearch, SearchEnd, SearchError, SearchSettings, ShortRun, SpaceError, Strategy,
    TrialLength, TrialOutcome, next_step, spent,
};
use proptest::prelude::*;

fn strategies() -> Vec<Box<dyn Strategy>> {
    vec![
        Box::new(Adaptive::default()),
        Box::new(Greedy),
        Box::new(Exhaustive),
        Box::new(RandomSearch),
    ]
}

fn settings(trials: f64, seed: u64) -> SearchSettings {
    SearchSettings {
        trials: Some(trials),
        seed,
        short: Some(ShortRun { cost: 0.4 }),
        ..SearchSettings::default()
    }
}

#[test]
fn proposals_stay_within_the_space_and_the_budget() {
    for kind in [LandscapeKind::Tiny, LandscapeKind::Small, LandscapeKind::Failing] {
        let landscape = kind.make(150);
        for (at, strategy) in strategies().iter().enumerate() {
            for budget in [5.0, 33.0, 90.0] {
                let settings = settings(budget, 150);
                let trace = run(strategy.as_ref(), &landscape, &settings).expect("a space");
                let spent = spent(&trace.history, &settings);
                assert!(spent <= budget + 1e-6, "{kind:?} {at} {budget}: {spent}");
                assert!(!trace.history.is_empty());
                for observation in &trace.history {
                    assert!(observation.proposal.candidate < landscape.space.candidates.len());
                    assert!(observation.proposal.workload < landscape.space.workloads.len());
                }
                let mut proposals: Vec<String> = trace
                    .history
                    .iter()
                    .map(|observation| format!("{:?}", observation.proposal))
                    .collect();
                proposals.sort();
                proposals.dedup();
                assert_eq!(proposals.len(), trace.history.len(), "no proposal is repeated");
            }
        }
    }
}

/// Runs a search that is interrupted after `trials` and resumed by a new strategy object.
fn resumed_run(
    strategy: &dyn Strategy,
    fresh: &dyn Strategy,
    landscape: &Landscape,
    settings: &SearchSettings,
    trials: usize,
) -> Vec<Observation> {
    let mut history: Vec<Observation> = Vec::new();
    let mut strategy = strategy;
    loop {
        let step = next_step(strategy, &landscape.space, &history, settings).expect("a space");
        let NextStep::Try(proposals) = step else { return history };
        for proposal in proposals {
            let visit = history.len() as u64;
            history.push(Observation {
                proposal,
                visit,
                start: 0,
                outcome: landscape.measure(&proposal, visit),
            });
            if history.len() == trials {
                strategy = fresh;
                break;
            }
        }
    }
}

#[test]
fn a_search_resumed_after_any_trial_matches_an_uninterrupted_one() {
    let landscape = LandscapeKind::Tiny.make(151);
    let settings = settings(30.0, 151);
    for (strategy, fresh) in strategies().iter().zip(strategies()) {
        let whole = run(strategy.as_ref(), &landscape, &settings).expect("a space").history;
        for trials in 1..whole.len() {
            let parts =
                resumed_run(strategy.as_ref(), fresh.as_ref(), &landscape, &settings, trials);
            assert_eq!(parts, whole, "interrupted after {trials}");
        }
    }
}

#[test]
fn confirming_rounds_have_two_batches_with_disjoint_workloads() {
    let mut joined_late = 0;
    for seed in 150..156 {
        let landscape = LandscapeKind::Small.make(seed);
        let trace = run(&Adaptive::default(), &landscape, &settings(400.0, seed)).expect("a space");
        let mut rounds: BTreeMap<u32, BTreeMap<u32, BTreeMap<usize, BTreeSet<usize>>>> =
            BTreeMap::new();
        for observation in trace
            .history
            .iter()
            .filter(|observation| observation.proposal.purpose == Purpose::Confirm)
        {
            let batches = rounds.entry(observation.proposal.repeat).or_default();
            let batch = batches.entry(observation.proposal.batch.number).or_default();
            batch
                .entry(observation.proposal.candidate)
                .or_default()
                .insert(observation.proposal.workload);
        }
        let mut known: BTreeSet<usize> = BTreeSet::new();
        for (round, batches) in &rounds {
            let halves: Vec<_> = batches.values().collect();
            // After the first rounds, workloads with little noise sit out some; three or fewer
            // make one batch.
            let has_all = (*round as usize) < MIN_ROUNDS;
            if let ([only], false) = (&halves[..], has_all) {
                assert!(only.values().all(|workloads| workloads.len() < 4), "{seed} {round}");
                continue;
            }
            let [first, second] = halves[..] else { panic!("{seed} {round}: {batches:?}") };
            assert!(first.keys().eq(second.keys()), "{seed} {round}: {batches:?}");
            for (candidate, workloads) in first {
                let others = &second[candidate];
                let sizes = [workloads.len(), others.len()];
                assert!(!has_all || sizes == [3, 3], "{seed} {round}");
                assert!(sizes[0].abs_diff(sizes[1]) <= 1, "{seed} {round}");
                assert!(workloads.is_disjoint(others), "{seed} {round}");
                joined_late += usize::from(known.insert(*candidate) && *round > 0);
            }
        }
    }
    assert!(joined_late > 0, "some candidates joined after the first round");
}

#[test]
fn the_baseline_does_not_finish_a_round_alone_after_all_finalists_failed() {
    let landscape = LandscapeKind::Small.make(155);
    let baseline = landscape.space.baseline;
    let settings = settings(250.0, 155);
    let strategy = Adaptive::default();
    let mut history: Vec<Observation> = Vec::new();
    let mut after = None;
    while after.is_none() {
        let step = next_step(&strategy, &landscape.space, &history, &settings).expect("a space");
        let NextStep::Try(proposals) = step else { panic!("the search ended before a race") };
        for &proposal in &proposals {
            let fails = proposal.purpose == Purpose::Confirm && proposal.candidate != baseline;
            let visit = history.len() as u64;
            let measured = landscape.measure(&proposal, visit);
            let outcome = if fails { TrialOutcome::Failed } else { measured };
            history.push(Observation { proposal, visit, start: 0, outcome });
        }
        if proposals.iter().any(|proposal| proposal.purpose == Purpose::Confirm) {
            after = Some(next_step(&strategy, &landscape.space, &history, &settings));
        }
    }
    let Some(Ok(NextStep::Try(proposals))) = after else {
        panic!("other candidates are available: {after:?}")
    };
    assert!(proposals.iter().any(|proposal| proposal.candidate != baseline), "{proposals:?}");
}

#[test]
fn the_baseline_is_skipped_after_a_significant_gain_and_repeated_for_drift() {
    let (mut rested, mut back) = (0, 0);
    for seed in 150..152 {
        let landscape = LandscapeKind::Smooth.make(seed);
        let trace = run(&Adaptive::default(), &landscape, &settings(800.0, seed)).expect("a space");
        let mut rounds: BTreeMap<u32, Vec<Observation>> = BTreeMap::new();
        for observation in trace
            .history
            .iter()
            .filter(|observation| observation.proposal.purpose == Purpose::Confirm)
        {
            rounds.entry(observation.proposal.repeat).or_default().push(*observation);
        }
        let mut before: Vec<Observation> = Vec::new();
        let mut was_resting = false;
        for round in rounds.values() {
            let baseline = landscape.space.baseline;
            let resting =
                round.iter().all(|observation| observation.proposal.candidate != baseline);
            if resting {
                let confirmed = ConfirmingTrials::of(&landscape.space, &before);
                let gain = |one: &usize| confirmed.gain(*one, baseline);
                let confident =
                    confirmed.finalists().iter().filter_map(gain).any(|gain| gain.is_significant());
                assert!(confident, "{seed}: nobody's gain was sure");
            }
            rested += usize::from(resting);
            back += usize::from(was_resting && !resting);
            was_resting = resting;
            before.extend(round);
        }
    }
    assert!(rested > 2 && back > 0, "{rested} {back}");
}

#[test]
fn changing_the_allowed_candidates_between_batches_leaves_no_state() {
    let landscape = LandscapeKind::Small.make(154);
    let settings = settings(200.0, 154);
    let trace = run(&RandomSearch, &landscape, &settings).expect("a space");
    let history = &trace.history[..60];
    let mut fewer = landscape.space.clone();
    // No candidate has this level any more, so it needs no column.
    for candidate in &mut fewer.candidates {
        candidate.allowed = candidate.levels[1] != Some(1);
    }
    let remembering = Adaptive::default();
    for space in [&fewer, &landscape.space, &fewer] {
        let step = |strategy: &Adaptive| next_step(strategy, space, history, &settings);
        assert_eq!(step(&remembering), step(&Adaptive::default()));
    }
}

#[test]
fn different_seeds_give_different_searches() {
    let landscape = LandscapeKind::Small.make(152);
    let first = |seed| {
        let trace = run(&Adaptive::default(), &landscape, &settings(40.0, seed)).expect("a space");
        trace.history.iter().map(|observation| observation.proposal.candidate).collect::<Vec<_>>()
    };
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
}

#[test]
fn a_failing_candidate_is_excluded_and_never_chosen() {
    let mut landscape = LandscapeKind::Tiny.make(153);
    let best = landscape.best();
    if best == landscape.space.baseline {
        landscape.space.baseline = usize::from(best == 0);
    }
    landscape.failing = vec![best];
    for strategy in strategies() {
        let trace = run(strategy.as_ref(), &landscape, &settings(60.0, 153)).expect("a space");
        assert_ne!(trace.choice, Some(best));
        assert!(trace.choice.is_some());
        let tries =
            trace.history.iter().filter(|observation| observation.proposal.candidate == best);
        assert!(tries.count() <= 16, "only one batch contains it");
    }
}

#[test]
fn a_search_in_which_every_trial_fails_ends_early() {
    let mut landscape = LandscapeKind::Smooth.make(154);
    landscape.failing = (0..landscape.space.candidates.len()).collect();
    for strategy in strategies() {
        let settings = SearchSettings { trials: None, ..settings(1.0, 154) };
        let trace = run(strategy.as_ref(), &landscape, &settings).expect("a space");
        assert!(matches!(trace.stop, SearchEnd::AllFailed { .. }), "{:?}", trace.stop);
        assert!(trace.history.len() <= 600, "{}", trace.history.len());
        assert_eq!(trace.choice, None);
    }
}

#[test]
fn a_failing_baseline_does_not_end_the_search() {
    let mut landscape = LandscapeKind::Tiny.make(155);
    landscape.failing = vec![landscape.space.baseline];
    for strategy in strategies() {
        let trace = run(strategy.as_ref(), &landscape, &settings(40.0, 155)).expect("a space");
        assert!(trace.choice.is_some_and(|choice| choice != landscape.space.baseline));
    }
}

#[test]
fn candidates_with_missing_workloads_are_excluded() {
    let landscape = LandscapeKind::Small.make(156);
    let lacks = |candidate: usize, workload: usize| candidate % 3 == 1 && workload == 2;
    for strategy in strategies() {
        let settings = settings(150.0, 156);
        let mut history: Vec<Observation> = Vec::new();
        while let NextStep::Try(proposals) =
            next_step(strategy.as_ref(), &landscape.space, &history, &settings).expect("a space")
        {
            for proposal in proposals {
                let visit = history.len() as u64;
                let outcome = if lacks(proposal.candidate, proposal.workload) {
                    TrialOutcome::Missing
                } else {
                    landscape.measure(&proposal, visit)
                };
                history.push(Observation { proposal, visit, start: 0, outcome });
            }
        }
        let choice =
            strategy.choice(&landscape.space, &history, &settings).expect("some are complete");
        let lacked = history.iter().any(|observation| {
            observation.proposal.candidate == choice && observation.outcome == TrialOutcome::Missing
        });
        assert!(!lacked);
    }
}

#[test]
fn disallowed_candidates_are_not_chosen() {
    let mut landscape = LandscapeKind::Tiny.make(157);
    for candidate in &mut landscape.space.candidates {
        candidate.allowed = candidate.distance <= 1;
    }
    for strategy in strategies() {
        let trace = run(strategy.as_ref(), &landscape, &settings(80.0, 157)).expect("a space");
        let choice = trace.choice.expect("some may be chosen");
        assert!(landscape.space.candidates[choice].allowed);
    }
}

#[test]
fn a_candidate_that_violates_a_constraint_is_not_chosen() {
    let landscape = LandscapeKind::Tiny.make(158);
    let best = landscape.best();
    for strategy in strategies() {
        let settings = settings(80.0, 158);
        let mut history: Vec<Observation> = Vec::new();
        while let NextStep::Try(proposals) =
            next_step(strategy.as_ref(), &landscape.space, &history, &settings).expect("a space")
        {
            for proposal in proposals {
                let visit = history.len() as u64;
                let TrialOutcome::Measured { log_merit, .. } = landscape.measure(&proposal, visit)
                else {
                    panic!("nothing fails here");
                };
                let excess = Some(if proposal.candidate == best { 0.3 } else { -0.3 });
                let outcome = TrialOutcome::Measured { log_merit, excess };
                history.push(Observation { proposal, visit, start: 0, outcome });
            }
        }
        assert_ne!(strategy.choice(&landscape.space, &history, &settings), Some(best));
    }
}

#[test]
fn invalid_spaces_and_budgets_are_rejected() {
    let space = LandscapeKind::Small.make(159).space;
    for strategy in strategies() {
        let refused = |space: &flashfit_search::SearchSpace, settings: &SearchSettings| {
            next_step(strategy.as_ref(), space, &[], settings).expect_err("refused")
        };
        let mut empty = space.clone();
        empty.candidates.clear();
        assert_eq!(
            refused(&empty, &settings(10.0, 1)),
            SearchError::Space(SpaceError::NoCandidate)
        );
        let mut none = space.clone();
        none.candidates.iter_mut().for_each(|candidate| candidate.allowed = false);
        assert!(matches!(
            refused(&none, &settings(10.0, 1)),
            SearchError::Space(SpaceError::NoneAllowed { .. })
        ));
        assert_eq!(
            refused(&space, &settings(1.0, 1)),
            SearchError::TooFewTrials { trials: 1.0, least: 2.0 }
        );
    }
}

#[test]
fn a_small_budget_still_tries_something_of_each_family() {
    let landscape = LandscapeKind::Smooth.make(160);
    let trace = run(&Adaptive::default(), &landscape, &settings(4.0, 160)).expect("a space");
    let mut families: Vec<Option<u16>> = trace
        .history
        .iter()
        .map(|observation| landscape.space.candidates[observation.proposal.candidate].levels[0])
        .collect();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), 4);
}

#[test]
fn without_a_budget_the_adaptive_search_terminates() {
    let landscape = LandscapeKind::Tiny.make(161);
    let settings = SearchSettings { trials: None, ..settings(0.0, 161) };
    let trace = run(&Adaptive::default(), &landscape, &settings).expect("a space");
    assert!(
        matches!(trace.stop, SearchEnd::Confident { .. } | SearchEnd::Exhausted),
        "{:?}",
        trace.stop
    );
    let confirming: Vec<&Observation> = trace
        .history
        .iter()
        .filter(|observation| observation.proposal.purpose == Purpose::Confirm)
        .collect();
    assert!(confirming.iter().all(|observation| observation.proposal.length == TrialLength::Full));
    assert!(landscape.regret(trace.choice.expect("a choice")) < 0.05);
}

#[test]
fn a_space_with_one_candidate_chooses_it() {
    let mut landscape = LandscapeKind::Tiny.make(162);
    landscape.space.candidates.truncate(1);
    landscape.space.baseline = 0;
    let trace = run(&Adaptive::default(), &landscape, &settings(20.0, 162)).expect("a space");
    assert_eq!(trace.choice, Some(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_strategy_keeps_to_any_budget_with_any_seed(
        budget in 2.0f64..70.0,
        seed in 100u64..200,
        short in any::<bool>(),
        which in 0usize..4,
    ) {
        let landscape = LandscapeKind::Small.make(seed);
        let short = short.then_some(ShortRun { cost: 0.3 });
        let unlimited = SearchSettings::default();
        let settings = SearchSettings { trials: Some(budget), seed, short, ..unlimited };
        let trace = run(strategies()[which].as_ref(), &landscape, &settings).expect("a space");
        prop_assert!(spent(&trace.history, &settings) <= budget + 1e-6);
        prop_assert!(trace.choice.is_some());
    }
}

/// A search of a landscape, stopped after this share of the budget: the rounds of confirming trials
/// of the choice, and whether the search went on after the first ones.
fn stopped_after(share: f64, kind: LandscapeKind, seed: u64) -> (usize, bool) {
    const TRIALS: f64 = 1000.0;
    let landscape = kind.make(seed);
    let strategy = Adaptive::default();
    let settings = settings(TRIALS, seed);
    let mut history: Vec<Observation> = Vec::new();
    'search: loop {
        let step = next_step(&strategy, &landscape.space, &history, &settings).expect("a space");
        let NextStep::Try(proposals) = step else { panic!("it ended early") };
        for proposal in proposals {
            let cost = spent(&history, &settings) + settings.cost(proposal.length);
            if cost > share * TRIALS {
                break 'search;
            }
            let visit = history.len() as u64;
            let outcome = landscape.measure(&proposal, visit);
            history.push(Observation { proposal, visit, start: 0, outcome });
        }
    }
    let first = history.iter().position(|o| o.proposal.purpose == Purpose::Confirm);
    let goes_on = first.is_some_and(|first| {
        history[first..].iter().any(|o| o.proposal.purpose == Purpose::Search)
    });
    let choice = strategy.choice(&landscape.space, &history, &settings).expect("measured");
    let confirmed = ConfirmingTrials::of(&landscape.space, &history);
    let rounds =
        if choice == landscape.space.baseline { usize::MAX } else { confirmed.rounds(choice) };
    (rounds, goes_on)
}

fn assert_confirmed_when_stopped_early(kind: LandscapeKind, seed: u64) {
    let (rounds, goes_on) = stopped_after(0.5, kind, seed);
    assert!(rounds >= MIN_ROUNDS, "{kind:?} {seed}: {rounds} rounds");
    assert!(goes_on, "{kind:?} {seed}: the search went on");
}

#[test]
fn a_search_that_is_stopped_early_has_a_confirmed_choice() {
    for kind in [LandscapeKind::Smooth, LandscapeKind::Rugged] {
        assert_confirmed_when_stopped_early(kind, 0);
    }
}

#[test]
#[ignore = "full: more large searches"]
fn searches_with_other_seeds_that_are_stopped_early_have_a_confirmed_choice() {
    for kind in [LandscapeKind::Smooth, LandscapeKind::Rugged] {
        for seed in 1..3 {
            assert_confirmed_when_stopped_early(kind, seed);
        }
    }
}
