//! What every strategy has to keep to, whatever it searches: it asks only for what there is, within
//! the budget, always the same, resumable at any trial, and it ends.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_search::landscape::{Landscape, LandscapeKind, run};
use flashfit_search::{
    Adaptive, ConfirmingTrials, Exhaustive, Greedy, Limits, NextStep, Observation, Purpose,
    RandomSearch, SearchEnd, SearchError, ShortRun, SpaceError, Strategy, TrialLength,
    TrialOutcome, next_step, spent,
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

fn limits(trials: f64, seed: u64) -> Limits {
    Limits { trials: Some(trials), seed, short: Some(ShortRun { cost: 0.4 }), ..Limits::default() }
}

#[test]
fn nothing_is_asked_for_outside_the_space_or_beyond_the_budget() {
    for kind in [LandscapeKind::Tiny, LandscapeKind::Small, LandscapeKind::Failing] {
        let landscape = kind.make(150);
        for (at, strategy) in strategies().iter().enumerate() {
            for budget in [5.0, 33.0, 90.0] {
                let limits = limits(budget, 150);
                let trace = run(strategy.as_ref(), &landscape, &limits).expect("a space");
                let spent = spent(&trace.history, &limits);
                assert!(spent <= budget + 1e-6, "{kind:?} {at} {budget}: {spent}");
                assert!(!trace.history.is_empty());
                for told in &trace.history {
                    assert!(told.ask.candidate < landscape.space.candidates.len());
                    assert!(told.ask.workload < landscape.space.workloads.len());
                }
                let mut asks: Vec<String> =
                    trace.history.iter().map(|told| format!("{:?}", told.ask)).collect();
                asks.sort();
                asks.dedup();
                assert_eq!(asks.len(), trace.history.len(), "an ask is made once");
            }
        }
    }
}

/// A search that is interrupted after `trials` and taken up by a strategy that remembers nothing.
fn taken_up(
    strategy: &dyn Strategy,
    fresh: &dyn Strategy,
    landscape: &Landscape,
    limits: &Limits,
    trials: usize,
) -> Vec<Observation> {
    let mut history: Vec<Observation> = Vec::new();
    let mut strategy = strategy;
    loop {
        let step = next_step(strategy, &landscape.space, &history, limits).expect("a space");
        let NextStep::Try(asks) = step else { return history };
        for ask in asks {
            let visit = history.len() as u64;
            history.push(Observation { ask, visit, outcome: landscape.measure(&ask, visit) });
            if history.len() == trials {
                strategy = fresh;
                break;
            }
        }
    }
}

#[test]
fn a_search_goes_on_after_any_trial_as_if_nothing_had_happened() {
    let landscape = LandscapeKind::Tiny.make(151);
    let limits = limits(30.0, 151);
    for (strategy, fresh) in strategies().iter().zip(strategies()) {
        let whole = run(strategy.as_ref(), &landscape, &limits).expect("a space").history;
        for trials in 1..whole.len() {
            let parts = taken_up(strategy.as_ref(), fresh.as_ref(), &landscape, &limits, trials);
            assert_eq!(parts, whole, "interrupted after {trials}");
        }
    }
}

#[test]
fn confirming_rounds_are_of_two_batches_under_other_workloads_whoever_joined_late() {
    let mut joined_late = 0;
    for seed in 150..156 {
        let landscape = LandscapeKind::Small.make(seed);
        let trace = run(&Adaptive::default(), &landscape, &limits(400.0, seed)).expect("a space");
        let mut rounds: BTreeMap<u32, BTreeMap<u32, BTreeMap<usize, BTreeSet<usize>>>> =
            BTreeMap::new();
        for told in trace.history.iter().filter(|told| told.ask.purpose == Purpose::Confirm) {
            let batches = rounds.entry(told.ask.repeat).or_default();
            let batch = batches.entry(told.ask.batch.number).or_default();
            batch.entry(told.ask.candidate).or_default().insert(told.ask.workload);
        }
        let mut known: BTreeSet<usize> = BTreeSet::new();
        for (round, batches) in &rounds {
            let halves: Vec<_> = batches.values().collect();
            let [first, second] = halves[..] else { panic!("{seed} {round}: {batches:?}") };
            assert!(first.keys().eq(second.keys()), "{seed} {round}: {batches:?}");
            for (candidate, workloads) in first {
                let others = &second[candidate];
                assert_eq!((workloads.len(), others.len()), (3, 3), "{seed} {round}");
                assert!(workloads.is_disjoint(others), "{seed} {round}");
                joined_late += usize::from(known.insert(*candidate) && *round > 0);
            }
        }
    }
    assert!(joined_late > 0, "some joined a race that was under way");
}

#[test]
fn when_all_finalists_fail_in_half_a_round_the_reference_does_not_run_the_other_half_alone() {
    let landscape = LandscapeKind::Small.make(155);
    let reference = landscape.space.reference;
    let limits = limits(250.0, 155);
    let strategy = Adaptive::default();
    let mut history: Vec<Observation> = Vec::new();
    let mut after = None;
    while after.is_none() {
        let step = next_step(&strategy, &landscape.space, &history, &limits).expect("a space");
        let NextStep::Try(asks) = step else { panic!("no race was begun") };
        for &ask in &asks {
            let fails = ask.purpose == Purpose::Confirm && ask.candidate != reference;
            let visit = history.len() as u64;
            let measured = landscape.measure(&ask, visit);
            let outcome = if fails { TrialOutcome::Failed } else { measured };
            history.push(Observation { ask, visit, outcome });
        }
        if asks.iter().any(|ask| ask.purpose == Purpose::Confirm) {
            after = Some(next_step(&strategy, &landscape.space, &history, &limits));
        }
    }
    let Some(Ok(NextStep::Try(asks))) = after else {
        panic!("there are others to race: {after:?}")
    };
    assert!(asks.iter().any(|ask| ask.candidate != reference), "{asks:?}");
}

#[test]
fn the_reference_rests_once_a_gain_over_it_is_sure_and_comes_back_to_see_drift() {
    let (mut rested, mut back) = (0, 0);
    for seed in 150..152 {
        let landscape = LandscapeKind::Smooth.make(seed);
        let trace = run(&Adaptive::default(), &landscape, &limits(800.0, seed)).expect("a space");
        let mut rounds: BTreeMap<u32, Vec<Observation>> = BTreeMap::new();
        for told in trace.history.iter().filter(|told| told.ask.purpose == Purpose::Confirm) {
            rounds.entry(told.ask.repeat).or_default().push(*told);
        }
        let mut before: Vec<Observation> = Vec::new();
        let mut was_resting = false;
        for round in rounds.values() {
            let reference = landscape.space.reference;
            let resting = round.iter().all(|told| told.ask.candidate != reference);
            if resting {
                let confirmed = ConfirmingTrials::of(&landscape.space, &before);
                let gain = |one: &usize| confirmed.gain(*one, reference);
                let sure = confirmed.finalists().iter().filter_map(gain).any(|gain| gain.is_sure());
                assert!(sure, "{seed}: nobody's gain was sure");
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
fn who_may_be_chosen_can_change_between_batches_without_a_trace() {
    let landscape = LandscapeKind::Small.make(154);
    let limits = limits(200.0, 154);
    let trace = run(&RandomSearch, &landscape, &limits).expect("a space");
    let history = &trace.history[..60];
    let mut fewer = landscape.space.clone();
    // A level that nobody has any more is nothing to tell apart.
    for candidate in &mut fewer.candidates {
        candidate.allowed = candidate.levels[1] != Some(1);
    }
    let remembering = Adaptive::default();
    for space in [&fewer, &landscape.space, &fewer] {
        let step = |strategy: &Adaptive| next_step(strategy, space, history, &limits);
        assert_eq!(step(&remembering), step(&Adaptive::default()));
    }
}

#[test]
fn other_seeds_search_otherwise() {
    let landscape = LandscapeKind::Small.make(152);
    let first = |seed| {
        let trace = run(&Adaptive::default(), &landscape, &limits(40.0, seed)).expect("a space");
        trace.history.iter().map(|told| told.ask.candidate).collect::<Vec<_>>()
    };
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
}

#[test]
fn a_failing_candidate_is_out_and_never_chosen() {
    let mut landscape = LandscapeKind::Tiny.make(153);
    let best = landscape.best();
    if best == landscape.space.reference {
        landscape.space.reference = usize::from(best == 0);
    }
    landscape.failing = vec![best];
    for strategy in strategies() {
        let trace = run(strategy.as_ref(), &landscape, &limits(60.0, 153)).expect("a space");
        assert_ne!(trace.choice, Some(best));
        assert!(trace.choice.is_some());
        let tries = trace.history.iter().filter(|told| told.ask.candidate == best);
        assert!(tries.count() <= 16, "no more than one batch has it");
    }
}

#[test]
fn when_all_fails_the_search_ends_early_and_says_so() {
    let mut landscape = LandscapeKind::Smooth.make(154);
    landscape.failing = (0..landscape.space.candidates.len()).collect();
    for strategy in strategies() {
        let limits = Limits { trials: None, ..limits(1.0, 154) };
        let trace = run(strategy.as_ref(), &landscape, &limits).expect("a space");
        assert!(matches!(trace.stop, SearchEnd::AllFailed { .. }), "{:?}", trace.stop);
        assert!(trace.history.len() <= 600, "{}", trace.history.len());
        assert_eq!(trace.choice, None);
    }
}

#[test]
fn a_failing_reference_ends_nothing() {
    let mut landscape = LandscapeKind::Tiny.make(155);
    landscape.failing = vec![landscape.space.reference];
    for strategy in strategies() {
        let trace = run(strategy.as_ref(), &landscape, &limits(40.0, 155)).expect("a space");
        assert!(trace.choice.is_some_and(|choice| choice != landscape.space.reference));
    }
}

#[test]
fn workloads_that_some_candidates_lack_take_those_out() {
    let landscape = LandscapeKind::Small.make(156);
    let lacks = |candidate: usize, workload: usize| candidate % 3 == 1 && workload == 2;
    for strategy in strategies() {
        let limits = limits(150.0, 156);
        let mut history: Vec<Observation> = Vec::new();
        while let NextStep::Try(asks) =
            next_step(strategy.as_ref(), &landscape.space, &history, &limits).expect("a space")
        {
            for ask in asks {
                let visit = history.len() as u64;
                let outcome = if lacks(ask.candidate, ask.workload) {
                    TrialOutcome::Missing
                } else {
                    landscape.measure(&ask, visit)
                };
                history.push(Observation { ask, visit, outcome });
            }
        }
        let choice = strategy.choice(&landscape.space, &history, &limits).expect("some are whole");
        let lacked = history
            .iter()
            .any(|told| told.ask.candidate == choice && told.outcome == TrialOutcome::Missing);
        assert!(!lacked);
    }
}

#[test]
fn what_may_not_be_chosen_is_not_chosen() {
    let mut landscape = LandscapeKind::Tiny.make(157);
    for candidate in &mut landscape.space.candidates {
        candidate.allowed = candidate.distance <= 1;
    }
    for strategy in strategies() {
        let trace = run(strategy.as_ref(), &landscape, &limits(80.0, 157)).expect("a space");
        let choice = trace.choice.expect("some may be chosen");
        assert!(landscape.space.candidates[choice].allowed);
    }
}

#[test]
fn a_candidate_that_breaks_a_demand_is_not_chosen() {
    let landscape = LandscapeKind::Tiny.make(158);
    let best = landscape.best();
    for strategy in strategies() {
        let limits = limits(80.0, 158);
        let mut history: Vec<Observation> = Vec::new();
        while let NextStep::Try(asks) =
            next_step(strategy.as_ref(), &landscape.space, &history, &limits).expect("a space")
        {
            for ask in asks {
                let visit = history.len() as u64;
                let TrialOutcome::Measured { log_merit, .. } = landscape.measure(&ask, visit)
                else {
                    panic!("nothing fails here");
                };
                let excess = Some(if ask.candidate == best { 0.3 } else { -0.3 });
                let outcome = TrialOutcome::Measured { log_merit, excess };
                history.push(Observation { ask, visit, outcome });
            }
        }
        assert_ne!(strategy.choice(&landscape.space, &history, &limits), Some(best));
    }
}

#[test]
fn what_cannot_be_searched_is_refused() {
    let space = LandscapeKind::Small.make(159).space;
    for strategy in strategies() {
        let refused = |space: &flashfit_search::SearchSpace, limits: &Limits| {
            next_step(strategy.as_ref(), space, &[], limits).expect_err("refused")
        };
        let mut empty = space.clone();
        empty.candidates.clear();
        assert_eq!(refused(&empty, &limits(10.0, 1)), SearchError::Space(SpaceError::NoCandidate));
        let mut none = space.clone();
        none.candidates.iter_mut().for_each(|candidate| candidate.allowed = false);
        assert!(matches!(
            refused(&none, &limits(10.0, 1)),
            SearchError::Space(SpaceError::NoneAllowed { .. })
        ));
        assert_eq!(
            refused(&space, &limits(1.0, 1)),
            SearchError::TooFewTrials { trials: 1.0, least: 2.0 }
        );
    }
}

#[test]
fn a_small_budget_still_tries_something_of_each_family() {
    let landscape = LandscapeKind::Smooth.make(160);
    let trace = run(&Adaptive::default(), &landscape, &limits(4.0, 160)).expect("a space");
    let mut families: Vec<Option<u16>> = trace
        .history
        .iter()
        .map(|told| landscape.space.candidates[told.ask.candidate].levels[0])
        .collect();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), 4);
}

#[test]
fn without_a_budget_the_adaptive_search_ends_by_itself() {
    let landscape = LandscapeKind::Tiny.make(161);
    let limits = Limits { trials: None, ..limits(0.0, 161) };
    let trace = run(&Adaptive::default(), &landscape, &limits).expect("a space");
    assert!(
        matches!(trace.stop, SearchEnd::SureEnough { .. } | SearchEnd::Exhausted),
        "{:?}",
        trace.stop
    );
    let confirming: Vec<&Observation> =
        trace.history.iter().filter(|told| told.ask.purpose == Purpose::Confirm).collect();
    assert!(confirming.iter().all(|told| told.ask.length == TrialLength::Full));
    assert!(landscape.regret(trace.choice.expect("a choice")) < 0.05);
}

#[test]
fn a_space_of_one_candidate_is_searched_at_once() {
    let mut landscape = LandscapeKind::Tiny.make(162);
    landscape.space.candidates.truncate(1);
    landscape.space.reference = 0;
    let trace = run(&Adaptive::default(), &landscape, &limits(20.0, 162)).expect("a space");
    assert_eq!(trace.choice, Some(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_budget_and_seed_end_within_the_budget(
        budget in 2.0f64..70.0,
        seed in 100u64..200,
        short in any::<bool>(),
        which in 0usize..4,
    ) {
        let landscape = LandscapeKind::Small.make(seed);
        let short = short.then_some(ShortRun { cost: 0.3 });
        let limits = Limits { trials: Some(budget), seed, short, ..Limits::default() };
        let trace = run(strategies()[which].as_ref(), &landscape, &limits).expect("a space");
        prop_assert!(spent(&trace.history, &limits) <= budget + 1e-6);
        prop_assert!(trace.choice.is_some());
    }
}
