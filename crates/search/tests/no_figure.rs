//! Trials that complete without the figure that candidates are ranked by: they count as spent, and
//! their candidate is tried again, unless that happens too often.

use flashfit_search::landscape::{Landscape, LandscapeKind, small_space};
use flashfit_search::{
    Adaptive, Exhaustive, Greedy, MAX_WITHOUT_FIGURE, NextStep, Observation, Proposal,
    RandomSearch, SearchEnd, SearchSettings, Strategy, TrialOutcome, TrialTable, all_failed,
    next_step, spent,
};

fn strategies() -> [Box<dyn Strategy>; 4] {
    [Box::new(Adaptive::default()), Box::new(Greedy), Box::new(Exhaustive), Box::new(RandomSearch)]
}

/// A search in which trials may have no figure, by their number.
fn run(
    strategy: &dyn Strategy,
    landscape: &Landscape,
    settings: &SearchSettings,
    has_figure: impl Fn(usize, &Proposal) -> bool,
) -> (Vec<Observation>, SearchEnd) {
    let mut history: Vec<Observation> = Vec::new();
    loop {
        match next_step(strategy, &landscape.space, &history, settings).expect("a space") {
            NextStep::Done(stop) => return (history, stop),
            NextStep::Try(proposals) => {
                for proposal in proposals {
                    let visit = history.len() as u64;
                    let outcome = match has_figure(history.len(), &proposal) {
                        true => landscape.measure(&proposal, visit),
                        false => TrialOutcome::NoFigure,
                    };
                    history.push(Observation { proposal, visit, start: 0, outcome });
                }
            }
        }
    }
}

#[test]
fn a_trial_without_a_figure_does_not_exclude_its_candidate() {
    let landscape = LandscapeKind::Tiny.make(150);
    for (at, strategy) in strategies().iter().enumerate() {
        let settings = SearchSettings { trials: Some(60.0), ..SearchSettings::default() };
        let (history, _) =
            run(strategy.as_ref(), &landscape, &settings, |number, _| number % 7 != 0);
        let table = TrialTable::of(&history, |_| true);
        assert_eq!(table.all_excluded().count(), 0, "{at}");
        // The first trial has none, and its candidate was measured later.
        let first = history[0].proposal.candidate;
        assert!(table.candidates().contains(&first), "{at}");
        assert!(spent(&history, &settings) <= 60.0 + 1e-6, "{at}");
        assert!(strategy.choice(&landscape.space, &history, &settings).is_some(), "{at}");
    }
}

#[test]
fn a_candidate_that_never_has_a_figure_is_left_out() {
    let landscape = LandscapeKind::Tiny.make(151);
    let never = (landscape.best() + 1) % landscape.space.candidates.len();
    for (at, strategy) in strategies().iter().enumerate() {
        let settings =
            SearchSettings { trials: Some(80.0), repeats: 4, ..SearchSettings::default() };
        let (history, _) = run(strategy.as_ref(), &landscape, &settings, |_, proposal| {
            proposal.candidate != never
        });
        let tried = history.iter().filter(|trial| trial.proposal.candidate == never).count();
        let table = TrialTable::of(&history, |_| true);
        let excluded = table.excluded(never);
        // Those of a batch that was under way are made all the same.
        assert!(tried <= 3 * MAX_WITHOUT_FIGURE, "{at}: {tried}");
        assert_eq!(excluded.is_some(), tried >= MAX_WITHOUT_FIGURE, "{at}: {tried}");
        assert!(excluded.is_none_or(|why| why == TrialOutcome::NoFigure), "{at}");
        assert_ne!(strategy.choice(&landscape.space, &history, &settings), Some(never), "{at}");
    }
}

#[test]
fn a_search_without_any_figure_ends() {
    let landscape = LandscapeKind::Tiny.make(152);
    for strategy in strategies() {
        let settings = SearchSettings { repeats: 2, ..SearchSettings::default() };
        let (history, stop) = run(strategy.as_ref(), &landscape, &settings, |_, _| false);
        let limit = (MAX_WITHOUT_FIGURE + 2) * landscape.space.candidates.len();
        assert!(history.len() <= 3 * limit, "{}", history.len());
        assert!(matches!(stop, SearchEnd::AllFailed { .. }), "{stop:?}");
    }
}

/// In a small space, all setups may have been tried once before one has a figure.
#[test]
fn few_setups_are_tried_again_after_trials_without_a_figure() {
    for count in [1, 2] {
        let mut landscape = small_space(2, 2, 154);
        landscape.space.candidates.truncate(count);
        landscape.truth.truncate(count);
        landscape.space.baseline = 0;
        for (at, strategy) in strategies().iter().enumerate() {
            let settings =
                SearchSettings { trials: Some(30.0), repeats: 4, ..SearchSettings::default() };
            let (history, stop) =
                run(strategy.as_ref(), &landscape, &settings, |number, _| number >= count);
            let first = &history[..count];
            assert!(first.iter().all(|trial| trial.log_merit().is_none()));
            for made in 0..history.len() {
                assert_eq!(all_failed(&landscape.space, &history[..made]), None, "{at}: {made}");
            }
            assert!(!matches!(stop, SearchEnd::AllFailed { .. }), "{at}: {stop:?}");
            assert!(strategy.choice(&landscape.space, &history, &settings).is_some(), "{at}");
        }
    }
}

/// The budget ends before anything is known of the only setup: it did not fail.
#[test]
fn a_budget_that_ends_without_a_figure_is_spent() {
    let mut landscape = small_space(2, 2, 155);
    landscape.space.candidates.truncate(1);
    landscape.space.baseline = 0;
    for strategy in strategies() {
        let settings = SearchSettings { trials: Some(2.0), ..SearchSettings::default() };
        let (history, stop) = run(strategy.as_ref(), &landscape, &settings, |_, _| false);
        assert!(history.len() <= 2);
        assert!(!matches!(stop, SearchEnd::AllFailed { .. }), "{stop:?}");
    }
}

/// Half of all trials lack it: what is measured decides, and the search comes to an end.
#[test]
fn candidates_with_more_figures_than_gaps_stay() {
    let landscape = LandscapeKind::Small.make(153);
    for (at, strategy) in strategies().iter().enumerate() {
        let settings = SearchSettings { trials: Some(150.0), ..SearchSettings::default() };
        let (history, _) =
            run(strategy.as_ref(), &landscape, &settings, |number, _| number % 3 != 0);
        let table = TrialTable::of(&history, |_| true);
        let excluded = table.all_excluded().count();
        assert!(excluded <= landscape.space.candidates.len() / 10, "{at}: {excluded}");
        assert!(history.len() >= 100, "{at}: {}", history.len());
    }
}
