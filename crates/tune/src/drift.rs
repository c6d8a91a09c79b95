//! Drift of the device during the run: a linear trend in the baseline's trials.
//!
//! The line is fitted to the logarithms minus the mean of their workload, length and kind of
//! start. Comparisons use trials that are close in time, so drift does not bias them; it is
//! reported because the figures of a drifting device will not last. Where the repeats differ too
//! much for that, the check has failed, and no figure is given. Limit: a step or a wave appears as
//! no trend or as a slope.

use std::collections::BTreeMap;

use flashfit_search::{Observation, TrialLength};

use crate::problem::Problem;
use crate::stats::{Estimate, student_95};

/// The fewest baseline trials for an estimate.
const MIN_TRIALS: usize = 5;
/// The number of trials that the drift refers to, in runs that are at least as long.
const OVER_TRIALS: f64 = 100.0;
/// The largest half width of an interval that says something: 40 %.
const MAX_HALF_WIDTH: f64 = 0.34;

/// Whether the repeats of the baseline show a drift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BaselineCheck {
    /// The baseline was repeated too rarely.
    TooFewRepeats,
    /// The repeats differ so much that neither a drift nor its absence can be determined.
    Failed {
        /// The ratio of the best to the worst repeat under the same workload, as a logarithm.
        spread: f64,
        repeats: usize,
    },
    Measured(Drift),
}

/// The change of the baseline's log merit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    pub change: Estimate,
    /// The number of trials over which it changed so much: at most the length of the run.
    pub over_trials: u32,
}

impl BaselineCheck {
    pub fn drift(&self) -> Option<&Drift> {
        match self {
            Self::Measured(drift) => Some(drift),
            Self::TooFewRepeats | Self::Failed { .. } => None,
        }
    }
}

/// Checks the repeats of the baseline.
pub fn check(problem: &Problem, history: &[Observation]) -> BaselineCheck {
    let mut cells: BTreeMap<(usize, bool, u64), Vec<(f64, f64)>> = BTreeMap::new();
    for observation in history
        .iter()
        .filter(|observation| observation.proposal.candidate == problem.space.baseline)
    {
        if let Some(log_merit) = observation.log_merit() {
            // What the starting state changes is not drift.
            let is_short = observation.proposal.length == TrialLength::Short;
            let cell = (observation.proposal.workload, is_short, observation.start);
            cells.entry(cell).or_default().push((observation.visit as f64, log_merit));
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
    let repeats = centered.len();
    let freedom = repeats.saturating_sub(cells.len() + 1);
    let squares: f64 = centered.iter().map(|(x, _)| x * x).sum();
    if repeats < MIN_TRIALS || freedom == 0 || squares <= 0.0 {
        return BaselineCheck::TooFewRepeats;
    }
    let slope = centered.iter().map(|(x, y)| x * y).sum::<f64>() / squares;
    let rest: f64 = centered.iter().map(|(x, y)| (y - slope * x).powi(2)).sum();
    let half = student_95(freedom) * (rest / freedom as f64 / squares).sqrt();
    // Not beyond the trials between which the baseline was repeated.
    let ends = cells.values().flatten().fold((f64::INFINITY, 0.0), |(first, last), (at, _)| {
        (f64::min(first, *at), f64::max(last, *at))
    });
    let over = (ends.1 - ends.0).clamp(1.0, OVER_TRIALS);
    if half * over > MAX_HALF_WIDTH {
        let spread = |points: &Vec<(f64, f64)>| {
            let values = points.iter().map(|(_, value)| *value);
            values.clone().fold(f64::NEG_INFINITY, f64::max) - values.fold(f64::INFINITY, f64::min)
        };
        let spread = cells.values().map(spread).fold(0.0, f64::max);
        return BaselineCheck::Failed { spread, repeats };
    }
    let interval = Some(((slope - half) * over, (slope + half) * over));
    let change = Estimate { middle: slope * over, interval, seen: None, count: repeats };
    BaselineCheck::Measured(Drift { change, over_trials: over as u32 })
}
