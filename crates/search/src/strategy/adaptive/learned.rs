//! The variances that the model is fitted with: learned when the history has grown by a quarter,
//! and kept until it has again, because learning takes longer than fitting.
//!
//! From [`FRESH`] trials on, learning begins with what the size before gave. So that a resumed
//! search goes on the same, variances are a function of the space and the history alone: what is
//! remembered here only saves working through the sizes again.

use std::hash::{DefaultHasher, Hasher};
use std::sync::{Mutex, PoisonError};

use crate::history::{Observation, TrialLength};
use crate::model::{Coding, Model, Scales, Variances};
use crate::space::SearchSpace;

/// With so many trials variances are learned from a guess; with more, from those of fewer.
const FRESH: usize = 200;
/// The least size.
const LEAST: usize = 8;

/// What was learned last.
#[derive(Debug, Default)]
pub(super) struct Learned(Mutex<Option<Known>>);

/// Variances, and what they were learned from.
#[derive(Debug, Clone)]
struct Known {
    size: usize,
    fingerprint: u64,
    scales: Scales,
}

impl Learned {
    /// The variances to fit a history with that has a trial.
    pub(super) fn from(
        &self,
        space: &SearchSpace,
        coding: &Coding,
        history: &[Observation],
    ) -> Variances {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sizes = sizes(history.len());
        let place = |known: &Known| {
            let at = sizes.iter().position(|size| *size == known.size)?;
            let same = fingerprint(space, &history[..known.size]) == known.fingerprint;
            same.then_some(at + 1)
        };
        let found = remembered.take().and_then(|known| Some((place(&known)?, known)));
        let (done, mut last) = found.map_or((0, None), |(done, known)| (done, Some(known)));
        for &size in &sizes[done..] {
            let before = &history[..size];
            let from = last.map_or(Variances::Learned, |last| Variances::LearnedFrom(last.scales));
            let scales = Model::fit(space, coding, before, from).scales();
            last = Some(Known { size, fingerprint: fingerprint(space, before), scales });
        }
        let scales = last.as_ref().map(|last| last.scales.clone());
        *remembered = last;
        scales.map_or(Variances::Learned, Variances::Known)
    }
}

/// The sizes at which the variances for so many trials are learned, one after the other: they grow
/// by a quarter, and the first is the last at which learning is fresh.
fn sizes(trials: usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut size = LEAST.min(trials);
    while size > 0 && size <= trials {
        let next = size + size.div_ceil(4);
        if next > FRESH.min(trials) {
            sizes.push(size);
        }
        size = next;
    }
    sizes
}

/// A number that identifies a history, and a space as far as what is learned depends on it: which
/// candidates are allowed decides which columns there are. It is kept in memory only.
fn fingerprint(space: &SearchSpace, history: &[Observation]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut take = |part: u64| hasher.write_u64(part);
    space.candidates.iter().for_each(|candidate| take(u64::from(candidate.allowed)));
    space.workloads.iter().for_each(|workload| take(workload.weight.to_bits()));
    for told in history {
        take(told.ask.candidate as u64);
        take(told.ask.workload as u64);
        take(u64::from(told.ask.length == TrialLength::Short));
        take(told.log_merit().unwrap_or(f64::NAN).to_bits());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_trials_are_learned_from_afresh_and_many_size_by_size() {
        assert!(sizes(0).is_empty());
        assert_eq!(sizes(5), vec![5]);
        assert_eq!(sizes(9), vec![8]);
        assert_eq!(sizes(171), vec![137]);
        assert_eq!(sizes(214), vec![172]);
        assert_eq!(sizes(300), vec![172, 215, 269]);
    }
}
