//! Which setups are tried next.
//!
//! A strategy is a function of the results so far and nothing else, so an interrupted run goes on
//! as if nothing had happened.

mod exhaustive;
mod greedy;

use flashfit_filesystem::Setup;

use crate::choice::StrategyKind;
use crate::results::{Results, Standing};
use crate::space::Space;

pub use exhaustive::Exhaustive;
pub use greedy::Greedy;

/// A way to search a space.
pub trait Strategy {
    /// The setups whose trials are to be made next; empty when the search has ended.
    fn next(&self, space: &Space, results: &Results) -> Vec<Setup>;

    /// How many setups will be tried, at the most.
    fn most_setups(&self, space: &Space) -> usize;
}

/// The strategy of that kind.
pub fn strategy(kind: StrategyKind) -> Box<dyn Strategy> {
    match kind {
        StrategyKind::Greedy => Box::new(Greedy),
        StrategyKind::Exhaustive => Box::new(Exhaustive),
    }
}

/// The best setup of the search that is safe enough, with its score.
pub fn best<'a>(space: &Space, results: &'a Results) -> Option<(&'a Setup, f64)> {
    best_of(results.setups(crate::record::Purpose::Search), results, |setup| space.allows(setup))
}

/// The best of some setups among those that `may` holds for. Of equal ones the first.
fn best_of<'a>(
    setups: impl Iterator<Item = &'a Setup>,
    results: &Results,
    may: impl Fn(&Setup) -> bool,
) -> Option<(&'a Setup, f64)> {
    let mut best: Option<(&Setup, f64)> = None;
    for setup in setups.filter(|setup| may(setup)) {
        if let Standing::Score(score) = results.standing(setup) {
            if best.is_none_or(|(_, known)| score > known) {
                best = Some((setup, score));
            }
        }
    }
    best
}

/// Those of some setups whose trials are not all made.
fn incomplete(setups: Vec<Setup>, results: &Results) -> Vec<Setup> {
    setups.into_iter().filter(|setup| results.standing(setup) == Standing::Incomplete).collect()
}
