//! Budgets that are just enough to confirm what a search finds, and why a search ends with them.

use flashfit_search::landscape::{LandscapeKind, SearchTrace, run};
use flashfit_search::{
    Adaptive, ConfirmingTrials, MIN_ROUNDS, NextStep, Purpose, SearchEnd, SearchSettings,
    least_trials, next_step,
};

fn search(kind: LandscapeKind, seed: u64, more: usize) -> (SearchTrace, usize) {
    let landscape = kind.make(seed);
    let space = &landscape.space;
    let least = least_trials(space.candidates.len(), space.families().len(), space.workloads.len());
    let trials = Some((least + more) as f64);
    let settings = SearchSettings { trials, ..SearchSettings::default() };
    let trace = run(&Adaptive::default(), &landscape, &settings).expect("a search");
    let choice = trace.choice.expect("something was measured");
    let rounds = ConfirmingTrials::of(space, &trace.history).rounds(choice);
    (trace, rounds)
}

#[test]
fn the_fewest_trials_of_an_answer_are_enough_to_confirm_it() {
    for kind in [LandscapeKind::Tiny, LandscapeKind::Small, LandscapeKind::Smooth] {
        for seed in 0..3 {
            for more in 0..2 {
                let (trace, rounds) = search(kind, seed, more);
                assert!(rounds >= MIN_ROUNDS, "{kind:?} {seed} {more}: {:?}", trace.stop);
            }
        }
    }
}

/// Both finalists of the first rounds failed or lost, and the rest is not enough for others.
#[test]
fn a_budget_that_cannot_confirm_another_setup_is_the_reason_of_the_end() {
    let (trace, _) = search(LandscapeKind::Failing, 2, 1);
    assert!(matches!(trace.stop, SearchEnd::Budget), "{:?}", trace.stop);
}

/// As with a budget of time, when trials cost more than those before.
#[test]
fn what_is_left_is_searched_if_it_is_too_little_for_a_round() {
    let landscape = LandscapeKind::Tiny.make(1);
    let settings = |trials: f64| SearchSettings { trials: Some(trials), ..Default::default() };
    let trace = run(&Adaptive::default(), &landscape, &settings(9.0)).expect("a search");
    let is_search = |trial: &&_| -> bool {
        let trial: &flashfit_search::Observation = trial;
        trial.proposal.purpose != Purpose::Confirm
    };
    let history: Vec<_> = trace.history.iter().take_while(is_search).copied().collect();
    assert!(history.len() < trace.history.len(), "nothing was confirmed");
    let next = |left: f64| {
        let settings = settings(history.len() as f64 + left);
        next_step(&Adaptive::default(), &landscape.space, &history, &settings).unwrap()
    };
    let NextStep::Try(rest) = next(1.5) else { panic!("a trial is left") };
    assert_eq!(rest.len(), 1);
    assert_ne!(rest[0].purpose, Purpose::Confirm);
    assert!(matches!(next(0.5), NextStep::Done(SearchEnd::Budget)));
    let NextStep::Try(round) = next(2.5) else { panic!("a round is left") };
    assert!(round.iter().all(|trial| trial.purpose == Purpose::Confirm));
}
