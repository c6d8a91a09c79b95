//! Landscapes of similar devices, and what a survey would have of them.
//!
//! The merits of a similar device are those of the landscape, mixed with those of an independent
//! landscape of the same kind so that both have a given correlation: 1 for a copy, 0 for a device
//! that has nothing in common. The results are those of a search on it, not of all setups.
//!
//! Limit: all setups and workloads are equally similar; real devices may agree about one file
//! system and differ about another.

use std::collections::BTreeMap;

use crate::history::TrialLength;
use crate::prior::SimilarResult;
use crate::settings::{SearchError, SearchSettings};
use crate::strategy::Strategy;

use super::{Landscape, LandscapeKind, run};

/// The landscape of a device whose merits correlate with those of `landscape`, which is of this
/// kind.
pub fn similar(
    landscape: &Landscape,
    kind: LandscapeKind,
    correlation: f64,
    seed: u64,
) -> Landscape {
    let other = kind.make(seed);
    let rest = (1.0 - correlation * correlation).max(0.0).sqrt();
    let (own, others) = (levels(landscape), levels(&other));
    let mix = |candidate: usize| -> Vec<f64> {
        let each = landscape.truth[candidate].iter().zip(&other.truth[candidate]).enumerate();
        each.map(|(workload, (here, there))| {
            let off = correlation * (here - own[workload]) + rest * (there - others[workload]);
            others[workload] + off
        })
        .collect()
    };
    let truth = (0..landscape.truth.len()).map(mix).collect();
    Landscape { truth, space: landscape.space.clone(), ..other }
}

/// The mean of all candidates under each workload.
fn levels(landscape: &Landscape) -> Vec<f64> {
    let count = landscape.truth.len() as f64;
    let workloads = landscape.space.workloads.len();
    let of = |workload: usize| landscape.truth.iter().map(|row| row[workload]).sum::<f64>() / count;
    (0..workloads).map(of).collect()
}

/// The results of a search on a landscape, as a survey keeps them: the mean of each setup under
/// each workload.
///
/// # Errors
/// If the settings do not allow a search.
pub fn surveyed(
    strategy: &dyn Strategy,
    landscape: &Landscape,
    settings: &SearchSettings,
) -> Result<Vec<SimilarResult>, SearchError> {
    let trace = run(strategy, landscape, settings)?;
    let mut found: BTreeMap<(usize, usize, TrialLength), Vec<f64>> = BTreeMap::new();
    for observation in &trace.history {
        if let Some(log_merit) = observation.log_merit() {
            let of = &observation.proposal;
            found.entry((of.candidate, of.workload, of.length)).or_default().push(log_merit);
        }
    }
    let result = |((candidate, workload, length), logs): (_, Vec<f64>)| {
        let count = logs.len() as f64;
        let log_merit = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - log_merit).powi(2)).sum();
        let sd = (squares / (count - 1.0).max(1.0)).sqrt();
        let repeats = u32::try_from(logs.len()).unwrap_or(u32::MAX);
        SimilarResult { candidate, workload, length, log_merit, repeats, sd }
    };
    Ok(found.into_iter().map(result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_same_best_and_an_unrelated_device_no_correlation() {
        let landscape = LandscapeKind::Small.make(3);
        let copy = similar(&landscape, LandscapeKind::Small, 1.0, 4);
        assert_eq!(copy.best(), landscape.best());
        assert!((copy.regret(5) - landscape.regret(5)).abs() < 1e-9);
        let unrelated = similar(&landscape, LandscapeKind::Small, 0.0, 4);
        assert_eq!(unrelated.best(), {
            let other = LandscapeKind::Small.make(4);
            other.best()
        });
    }
}
