//! Whether the device changed while it was measured: the baseline's trials against their place
//! in the order of time.
//!
//! A line through the logarithms, each less the mean of its workload and length. Comparisons are
//! made of trials that lie close together in time, so drift does not move them; it is told because
//! a device that drifts is one whose figures will not last. Limit: a line; a step or a wave shows
//! as little or as a slope.

use std::collections::BTreeMap;

use flashfit_search::{Observation, TrialLength};

use crate::problem::Problem;
use crate::stats::{Estimate, student_95};

/// With fewer trials of the baseline nothing is told.
const LEAST_TRIALS: usize = 5;
/// The drift is told over so many trials.
pub const OVER_TRIALS: f64 = 100.0;

/// The change of the baseline's logarithm over [`OVER_TRIALS`] trials.
pub fn drift(problem: &Problem, history: &[Observation]) -> Option<Estimate> {
    let mut cells: BTreeMap<(usize, bool), Vec<(f64, f64)>> = BTreeMap::new();
    for told in history.iter().filter(|told| told.proposal.candidate == problem.space.baseline) {
        if let Some(log_merit) = told.log_merit() {
            let cell = (told.proposal.workload, told.proposal.length == TrialLength::Short);
            cells.entry(cell).or_default().push((told.visit as f64 / OVER_TRIALS, log_merit));
        }
    }
    cells.retain(|_, points| points.len() > 1);
    let mut centred: Vec<(f64, f64)> = Vec::new();
    for points in cells.values() {
        let count = points.len() as f64;
        let at = points.iter().map(|(at, _)| at).sum::<f64>() / count;
        let level = points.iter().map(|(_, value)| value).sum::<f64>() / count;
        centred.extend(points.iter().map(|(x, y)| (x - at, y - level)));
    }
    let freedom = centred.len().checked_sub(cells.len() + 1)?;
    let squares: f64 = centred.iter().map(|(x, _)| x * x).sum();
    if centred.len() < LEAST_TRIALS || freedom == 0 || squares <= 0.0 {
        return None;
    }
    let slope = centred.iter().map(|(x, y)| x * y).sum::<f64>() / squares;
    let rest: f64 = centred.iter().map(|(x, y)| (y - slope * x).powi(2)).sum();
    let half = student_95(freedom) * (rest / freedom as f64 / squares).sqrt();
    let interval = Some((slope - half, slope + half));
    Some(Estimate { middle: slope, interval, count: centred.len() })
}
