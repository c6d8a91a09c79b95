//! Drift of the device during the run: a linear trend in the baseline's trials.
//!
//! The line is fitted to the logarithms minus the mean of their workload and length. Comparisons
//! use trials that are close in time, so drift does not bias them; it is reported because the
//! figures of a drifting device will not last. Limit: a step or a wave appears as no trend or as a
//! slope.

use std::collections::BTreeMap;

use flashfit_search::{Observation, TrialLength};

use crate::problem::Problem;
use crate::stats::{Estimate, student_95};

/// The fewest baseline trials for an estimate.
const MIN_TRIALS: usize = 5;
/// The number of trials that the drift refers to.
pub const OVER_TRIALS: f64 = 100.0;

/// The change of the baseline's log merit over [`OVER_TRIALS`] trials.
pub fn drift(problem: &Problem, history: &[Observation]) -> Option<Estimate> {
    let mut cells: BTreeMap<(usize, bool), Vec<(f64, f64)>> = BTreeMap::new();
    for observation in history
        .iter()
        .filter(|observation| observation.proposal.candidate == problem.space.baseline)
    {
        if let Some(log_merit) = observation.log_merit() {
            let cell =
                (observation.proposal.workload, observation.proposal.length == TrialLength::Short);
            cells
                .entry(cell)
                .or_default()
                .push((observation.visit as f64 / OVER_TRIALS, log_merit));
        }
    }
    cells.retain(|_, points| points.len() > 1);
    let mut centered: Vec<(f64, f64)> = Vec::new();
    for points in cells.values() {
        let count = points.len() as f64;
        let at = points.iter().map(|(at, _)| at).sum::<f64>() / count;
        let level = points.iter().map(|(_, value)| value).sum::<f64>() / count;
        centered.extend(points.iter().map(|(x, y)| (x - at, y - level)));
    }
    let freedom = centered.len().checked_sub(cells.len() + 1)?;
    let squares: f64 = centered.iter().map(|(x, _)| x * x).sum();
    if centered.len() < MIN_TRIALS || freedom == 0 || squares <= 0.0 {
        return None;
    }
    let slope = centered.iter().map(|(x, y)| x * y).sum::<f64>() / squares;
    let rest: f64 = centered.iter().map(|(x, y)| (y - slope * x).powi(2)).sum();
    let half = student_95(freedom) * (rest / freedom as f64 / squares).sqrt();
    let interval = Some((slope - half, slope + half));
    Some(Estimate { middle: slope, interval, count: centered.len() })
}
