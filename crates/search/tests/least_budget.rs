//! Budgets that are just enough to confirm what a search finds, and why a search ends with them.

use flashfit_search::landscape::{LandscapeKind, SearchTrace, run};
use flashfit_search::{
    Adaptive, ConfirmingTrials, MIN_ROUNDS, SearchEnd, SearchSettings, least_trials,
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
