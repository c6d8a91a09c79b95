//! Setups whose trials under one workload fall into two groups: a mean and an interval of such
//! results describe neither.
//!
//! The logarithms are split at their largest gap. They count as two groups if each has at least
//! `MIN_GROUP` trials and the groups are further apart than normal noise makes them. Groups that
//! differ in how their trials started are explained by that ([`crate::start_effect`]). Limit: a
//! slow mode that was met only once is an outlier, not a group.

use std::collections::BTreeMap;

use flashfit_search::{CandidateIndex, Observation, TrialLength, WorkloadIndex};

/// The fewest trials of a group, and of both.
const MIN_GROUP: usize = 2;
const MIN_TRIALS: usize = 5;
/// The smallest distance of groups: 20 %.
const MIN_DISTANCE: f64 = 0.18;
/// The smallest distance in standard deviations within groups, and the least such deviation. Up to
/// `FEW_TRIALS`, normal noise often has a large gap by chance: more is required of it. Both keep
/// false findings below 1 in 200.
const MIN_DEVIATIONS: f64 = 9.0;
const MIN_DEVIATIONS_OF_FEW: f64 = 16.0;
const FEW_TRIALS: usize = 6;
const MIN_SD: f64 = 0.005;

/// Two groups of trials of one setup under one workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoModes {
    pub candidate: CandidateIndex,
    pub workload: WorkloadIndex,
    /// The ratio of the two groups' means, as a logarithm above 0.
    pub ratio: f64,
    /// The number of trials in the worse and in the better group.
    pub worse: usize,
    pub better: usize,
}

/// All setups and workloads with two groups, the furthest apart first.
pub fn two_modes(history: &[Observation]) -> Vec<TwoModes> {
    let mut cells: BTreeMap<(CandidateIndex, WorkloadIndex), Vec<(f64, u64)>> = BTreeMap::new();
    for observation in history {
        let proposal = &observation.proposal;
        if proposal.length == TrialLength::Full {
            let cell = cells.entry((proposal.candidate, proposal.workload)).or_default();
            cell.extend(observation.log_merit().map(|value| (value, observation.start)));
        }
    }
    let mut found: Vec<TwoModes> = cells
        .into_iter()
        .filter_map(|((candidate, workload), values)| {
            let all: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
            let (ratio, worse, better) = split(all)?;
            if is_explained(values, worse) {
                return None;
            }
            Some(TwoModes { candidate, workload, ratio, worse, better })
        })
        .collect();
    found.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    found
}

/// Whether the `worse` lowest values started differently from the others.
fn is_explained(mut values: Vec<(f64, u64)>, worse: usize) -> bool {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (low, high) = values.split_at(worse);
    low.iter().all(|(_, start)| high.iter().all(|(_, other)| other != start))
}

/// The distance of two groups, and the number of values in each.
fn split(mut values: Vec<f64>) -> Option<(f64, usize, usize)> {
    if values.len() < MIN_TRIALS {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let gaps = MIN_GROUP..=values.len() - MIN_GROUP;
    let gap = |at: &usize| values[*at] - values[*at - 1];
    let at = gaps.max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    let (low, high) = values.split_at(at);
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let squares = |of: &[f64]| of.iter().map(|value| (value - mean(of)).powi(2)).sum::<f64>();
    let freedom = (values.len() - 2) as f64;
    let sd = ((squares(low) + squares(high)) / freedom).sqrt().max(MIN_SD);
    let distance = mean(high) - mean(low);
    let few = values.len() <= FEW_TRIALS;
    let deviations = if few { MIN_DEVIATIONS_OF_FEW } else { MIN_DEVIATIONS };
    (distance > MIN_DISTANCE.max(deviations * sd)).then_some((distance, low.len(), high.len()))
}

#[cfg(test)]
mod tests {
    use flashfit_search::RandomStream;

    use super::*;

    #[test]
    fn results_with_two_speeds_are_recognized() {
        let rates = [1.65f64, 8.4, 8.1, 1.7, 8.3, 1.6, 8.2];
        let (ratio, worse, better) = split(Vec::from(rates.map(f64::ln))).expect("two groups");
        assert!((ratio.exp() - 5.0).abs() < 0.2, "{ratio}");
        assert_eq!((worse, better), (3, 4));
    }

    #[test]
    fn groups_that_started_differently_are_explained() {
        let values = vec![(0.0, 1), (2.0, 7), (0.1, 3), (2.1, 7)];
        assert!(is_explained(values.clone(), 2));
        assert!(!is_explained(values.into_iter().map(|(value, _)| (value, 5)).collect(), 2));
    }

    #[test]
    fn noise_and_single_outliers_are_not_two_groups() {
        let mut random = RandomStream::new(8);
        let mut found = 0;
        for trials in [5, 6, 7, 9, 20] {
            for _ in 0..400 {
                let values = (0..trials).map(|_| 0.2 * random.normal()).collect();
                found += usize::from(split(values).is_some());
            }
        }
        assert!(found <= 10, "{found} of 2000");
        assert_eq!(split(vec![0.0, 0.01, -0.01, 0.0, 0.02, -1.5]), None);
        assert_eq!(split(vec![0.0, 0.0, 2.0, 2.0]), None);
    }
}
