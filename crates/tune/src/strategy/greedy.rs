//! The methodology's iteration (section 3.1), for each file system apart: measure the base; measure
//! it with each remaining option alone, under each scheduler; adopt the option that gains most;
//! repeat until none gains.
//!
//! Added to it: the score is a median of repeats, and an option that is less safe than the user
//! allows is measured in the first round, so that what it would gain is known, but never adopted.
//! With everything allowed this is the methodology's procedure to the letter. Limit: a gain that is
//! noise is adopted too; the confirming trials of the winner are there to show it.

use flashfit_filesystem::Setup;

use super::{Strategy, best_of, incomplete};
use crate::results::Results;
use crate::space::{Choices, Space};

/// One option at a time.
#[derive(Debug, Clone, Copy)]
pub struct Greedy;

impl Strategy for Greedy {
    fn next(&self, space: &Space, results: &Results) -> Vec<Setup> {
        let rounds: Vec<Round> =
            space.choices.iter().filter_map(|choices| next_of(space, choices, results)).collect();
        // A file system that is ahead waits for the others, so that a run that was interrupted
        // within a round ends that round first, as it would have done.
        let first = rounds.iter().map(|round| round.number).min();
        let due = rounds.into_iter().filter(|round| Some(round.number) == first);
        due.flat_map(|round| round.missing).collect()
    }

    fn most_setups(&self, space: &Space) -> usize {
        let of = |choices: &Choices| {
            let options = choices.free.len();
            // The base, then ever one option fewer.
            choices.schedulers.len() * (1 + options * (options + 1) / 2)
        };
        space.choices.iter().map(of).sum()
    }
}

/// A round of one file system that has not ended.
struct Round {
    /// 0 for that of the base.
    number: usize,
    missing: Vec<Setup>,
}

/// Follows the path of adopted options from the start until something is not yet measured.
fn next_of(space: &Space, choices: &Choices, results: &Results) -> Option<Round> {
    let base = choices.over_schedulers(&[]);
    let missing = incomplete(base.clone(), results);
    if !missing.is_empty() {
        return Some(Round { number: 0, missing });
    }
    let (_, mut score) = best_of(base.iter(), results, |_| true)?;
    let mut adopted: Vec<String> = Vec::new();
    let mut remaining = choices.free.clone();
    loop {
        let first_round = adopted.is_empty();
        let mut round = Vec::new();
        for option in &remaining {
            let with: Vec<String> = adopted.iter().cloned().chain([option.clone()]).collect();
            let setups = choices.over_schedulers(&with);
            let wanted = |setup: &Setup| first_round || space.allows(setup);
            round.extend(setups.into_iter().filter(wanted).map(|setup| (option.clone(), setup)));
        }
        let missing = incomplete(round.iter().map(|(_, setup)| setup.clone()).collect(), results);
        if !missing.is_empty() {
            return Some(Round { number: adopted.len() + 1, missing });
        }
        let best =
            best_of(round.iter().map(|(_, setup)| setup), results, |setup| space.allows(setup));
        match best {
            Some((setup, found)) if found > score => {
                let (option, _) = round
                    .iter()
                    .find(|(_, candidate)| candidate == setup)
                    .expect("the best is one of the round");
                adopted.push(option.clone());
                remaining.retain(|left| left != option);
                score = found;
            }
            _ => return None,
        }
    }
}
