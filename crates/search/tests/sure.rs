//! When a search is sure: it has tried every two levels together, because a model that fits all
//! trials says nothing of what was never tried.

use std::collections::BTreeSet;

use flashfit_search::landscape::{Landscape, LandscapeKind, TableKind, run, small_space};
use flashfit_search::{
    Adaptive, CandidateIndex, FactorRole, Observation, SearchEnd, SearchSettings, ShortRun, answer,
};

type Pair = (usize, u16, usize, u16);

fn pairs(landscape: &Landscape, candidate: CandidateIndex) -> Vec<Pair> {
    let levels = &landscape.space.candidates[candidate].levels;
    let known = |at: usize| levels[at].map(|level| (at, level));
    let each = (0..levels.len()).flat_map(|one| (one + 1..levels.len()).map(move |b| (one, b)));
    each.filter_map(|(one, other)| {
        let ((one, a), (other, b)) = (known(one)?, known(other)?);
        Some((one, a, other, b))
    })
    .collect()
}

/// Untested pairs, and those of them and of all in which both levels differ from the default.
fn untested(landscape: &Landscape, history: &[Observation]) -> (usize, usize, usize) {
    let failed: BTreeSet<CandidateIndex> = history
        .iter()
        .filter(|trial| trial.log_merit().is_none())
        .map(|trial| trial.proposal.candidate)
        .collect();
    let possible = (0..landscape.space.candidates.len())
        .filter(|index| landscape.space.candidates[*index].allowed && !failed.contains(index));
    let all: BTreeSet<Pair> = possible.flat_map(|index| pairs(landscape, index)).collect();
    let measured = history.iter().filter(|trial| trial.log_merit().is_some());
    let tried: BTreeSet<Pair> =
        measured.flat_map(|trial| pairs(landscape, trial.proposal.candidate)).collect();
    let factors = &landscape.space.factors;
    let differs = |factor: usize, level: u16| {
        factors[factor].role != FactorRole::Family && factors[factor].default != level
    };
    let is_change = |(one, a, other, b): &&Pair| differs(*one, *a) && differs(*other, *b);
    let untested = all.difference(&tried);
    (
        untested.clone().count(),
        untested.filter(is_change).count(),
        all.iter().filter(is_change).count(),
    )
}

#[test]
fn a_sure_search_has_tried_all_pairs_of_levels() {
    let (mut sure, mut fewer) = (0, 0);
    let mut check = |landscape: &Landscape, trials: f64, short: bool, seed: u64| {
        let short = short.then_some(ShortRun { cost: 0.4 });
        let trials = Some(trials);
        let settings = SearchSettings { trials, short, seed, ..SearchSettings::default() };
        let trace = run(&Adaptive::default(), landscape, &settings).expect("a space");
        let untested = untested(landscape, &trace.history);
        let choice = trace.choice.expect("something was measured");
        let answer = answer(&landscape.space, &trace.history, &settings, choice, &[]);
        let found = answer.pairs;
        let (untested, of_changes, all_changes) = untested;
        assert_eq!((found.untested, found.changes_untested), (untested, of_changes), "{seed}");
        assert_eq!(found.all_changes, all_changes, "{seed}");
        assert!(0 < all_changes && all_changes < found.all, "{seed}: {found:?}");
        fewer += usize::from(of_changes < untested);
        if matches!(trace.stop, SearchEnd::Confident { .. }) {
            sure += 1;
            assert_eq!(untested, 0, "{seed}");
        }
    };
    for seed in 150..154 {
        check(&TableKind::Additive.make(seed), 100.0, false, seed);
        check(&TableKind::Tuned.make(seed), 100.0, false, seed);
        check(&small_space(48, 2, seed), 200.0, true, seed);
        check(&LandscapeKind::Failing.make(seed), 250.0, true, seed);
    }
    assert!(sure >= 6 && fewer > 0, "{sure} {fewer}");
}

/// Two options that are bad alone and good together: what is learned of each alone predicts the
/// opposite, and fits all trials.
#[test]
fn options_that_are_good_only_together_are_not_overlooked() {
    let (mut sure, mut right) = (0, 0);
    for seed in 100..116 {
        let landscape = TableKind::Trap.make(seed);
        let trials = Some(100.0);
        let settings = SearchSettings { trials, seed, ..SearchSettings::default() };
        let trace = run(&Adaptive::default(), &landscape, &settings).expect("a space");
        if matches!(trace.stop, SearchEnd::Confident { .. }) {
            let choice = trace.choice.expect("something was measured");
            let answer = answer(&landscape.space, &trace.history, &settings, choice, &[]);
            sure += 1;
            right += usize::from(landscape.regret(answer.recommended) <= 0.02);
        }
    }
    assert!(sure > 0 && right >= sure - sure / 10, "{right} of {sure}");
}
