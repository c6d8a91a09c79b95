//! The evidence of a series of write times for each structure of an erase block, if erasures delay
//! one write in so many.

use super::build::{UnitBuild, WriteShape};
use super::period::TimeClasses;
use crate::belief::log_sum_exp;

/// Number of times before the first evaluation.
pub const FIRST_LOOK: usize = 768;
/// Prior probability that erasures in the middle of a write are not visible.
const HIDDEN: f64 = 0.3;

/// The result of one evaluation.
#[derive(Debug)]
pub struct ErasureEvidence {
    /// Log-evidence of the most likely distance against nothing.
    pub gain: f64,
    /// Number of writes between two erasures, and between two that are visible if those in the
    /// middle of a write are not.
    pub distance: f64,
    pub whole_distance: f64,
    /// Probability of this distance among all.
    pub share: f64,
    /// Log-evidence of each structure against nothing.
    pub logs: Vec<f64>,
}

/// Evaluates the last of the times of writes of a shape, since erasures may have started recently,
/// given unnormalized log-probabilities of the structures. `None` if there are too few.
pub fn of_last(
    times: &[f32],
    shape: WriteShape,
    builds: &[UnitBuild],
    weights: &[f64],
) -> Option<ErasureEvidence> {
    let mut best: Option<ErasureEvidence> = None;
    let mut from = 0;
    while times.len() - from >= FIRST_LOOK {
        let found = of(&times[from..], shape, builds, weights);
        if best.as_ref().is_none_or(|best| found.gain > best.gain) {
            best = Some(found);
        }
        from += (times.len() - from).div_ceil(2);
    }
    best
}

fn of(times: &[f32], shape: WriteShape, builds: &[UnitBuild], weights: &[f64]) -> ErasureEvidence {
    let classes = TimeClasses::of(times);
    let nothing = classes.log_nothing();
    let mut known: Vec<((f64, f64), f64)> = Vec::new();
    let of_build = |build: &UnitBuild| {
        let distance = build.distance(shape);
        let whole = build.whole_distance(shape);
        let key = (distance, whole);
        if let Some((_, log)) = known.iter().find(|(other, _)| *other == key) {
            return *log;
        }
        // Without enough marks a build is as likely as nothing.
        let log_of = |distance| classes.log_of(distance).map_or(0.0, |log| log - nothing);
        let mut log = log_of(distance);
        if whole != distance {
            let some_hidden = log_of(whole) + HIDDEN.ln();
            log = log_sum_exp([log + (1.0 - HIDDEN).ln(), some_hidden].into_iter());
        }
        known.push((key, log));
        log
    };
    let logs: Vec<f64> = builds.iter().map(of_build).collect();
    let weight = |at: usize| weights[at] + logs[at];
    let total = log_sum_exp((0..logs.len()).map(weight));
    let best = (0..logs.len()).max_by(|&a, &b| weight(a).total_cmp(&weight(b)));
    let best = best.expect("there are builds");
    let distance = builds[best].distance(shape);
    let whole_distance = builds[best].whole_distance(shape);
    let alike = (0..logs.len()).filter(|&at| builds[at].whole_distance(shape) == whole_distance);
    let share = alike.map(|at| (weight(at) - total).exp()).sum();
    ErasureEvidence { gain: logs[best], distance, whole_distance, share, logs }
}
