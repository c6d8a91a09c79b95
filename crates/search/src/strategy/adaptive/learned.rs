//! A cache of the learned variances. Because learning takes longer than fitting, variances are
//! learned again only when the history has grown by a quarter.
//!
//! From [`FRESH`] trials on, learning starts from the result of the previous size. Variances depend
//! on the space and the history only, so a resumed search makes the same decisions; the cache only
//! avoids working through the earlier sizes again.

use std::hash::{DefaultHasher, Hasher};
use std::sync::{Mutex, PoisonError};

use crate::history::{Observation, TrialLength};
use crate::model::{Coding, Model, Scales, Variances};
use crate::prior::PriorMean;
use crate::space::SearchSpace;

/// Up to this many trials, variances are learned from a guess; beyond, from those of the previous
/// size.
const FRESH: usize = 200;
const LEAST: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Learned(Mutex<Option<Known>>);

/// Variances and the history they were learned from.
#[derive(Debug, Clone)]
struct Known {
    size: usize,
    fingerprint: u64,
    scales: Scales,
}

impl Learned {
    /// The variances for fitting a nonempty history.
    pub(crate) fn from(
        &self,
        space: &SearchSpace,
        coding: &Coding,
        history: &[Observation],
        prior: Option<&PriorMean>,
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
            let relative = prior.map(|prior| prior.relative(before).history);
            let values = relative.as_deref().unwrap_or(before);
            let from = last.map_or(Variances::Learned, |last| Variances::LearnedFrom(last.scales));
            let scales = Model::fit(space, coding, values, from).scales();
            last = Some(Known { size, fingerprint: fingerprint(space, before), scales });
        }
        let scales = last.as_ref().map(|last| last.scales.clone());
        *remembered = last;
        scales.map_or(Variances::Learned, Variances::Known)
    }
}

/// The history sizes at which variances are learned for a history of `trials`: each is a quarter
/// larger than the one before, and the first is the last one learned from a guess.
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

/// Identifies a history and the parts of a space that learning depends on: the allowed candidates
/// determine the model's columns. Only kept in memory.
fn fingerprint(space: &SearchSpace, history: &[Observation]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut take = |part: u64| hasher.write_u64(part);
    space.candidates.iter().for_each(|candidate| take(u64::from(candidate.allowed)));
    space.workloads.iter().for_each(|workload| take(workload.weight.to_bits()));
    for observation in history {
        take(observation.proposal.candidate as u64);
        take(observation.proposal.workload as u64);
        take(u64::from(observation.proposal.length == TrialLength::Short));
        take(observation.log_merit().unwrap_or(f64::NAN).to_bits());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_trials_start_from_a_guess_and_many_go_size_by_size() {
        assert!(sizes(0).is_empty());
        assert_eq!(sizes(5), vec![5]);
        assert_eq!(sizes(9), vec![8]);
        assert_eq!(sizes(171), vec![137]);
        assert_eq!(sizes(214), vec![172]);
        assert_eq!(sizes(300), vec![172, 215, 269]);
    }
}
