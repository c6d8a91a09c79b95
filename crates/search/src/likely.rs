//! When a setup is worth using although its gain over the baseline is not shown.
//!
//! To claim a gain takes confirming trials. To choose between two setups takes less: keeping the
//! baseline costs the gain where there is one. So a candidate that the model of all trials holds
//! for better is recommended before its gain is shown, and no gain is claimed for it.
//!
//! Limits: the model knows only what was tried on this device, and how well it predicts a workload
//! without a trial is not known, so both must have run under all workloads. It takes what a
//! starting state changes for noise. `docs/search.md` has how often the answer is right, where
//! starting states change nothing.

use crate::history::TrialTable;
use crate::model::{Belief, Model};
use crate::preference::Preference;
use crate::random::RandomStream;
use crate::space::CandidateIndex;

/// The least probability that the candidate is better than the baseline. Where no setup differs,
/// 0.95 was reached in 13 % of the searches with several hundred trials.
const LIKELY: f64 = 0.99;

/// A gain over the baseline that is likely and not shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LikelyGain {
    /// The mean according to the model, in natural logarithm.
    pub mean: f64,
    /// The probability that it is above 0, 0 to 1.
    pub probability: f64,
}

/// The gain of a candidate over the baseline if the model holds it for likely, and holds the
/// baseline for not close to the best with the goal's probability. `None` if the confirming trials
/// so far say otherwise.
pub(crate) fn likely_gain(
    preference: &Preference<'_>,
    model: &Model<'_>,
    table: &TrialTable,
    candidate: CandidateIndex,
    random: &mut RandomStream,
) -> Option<LikelyGain> {
    let Preference { space, confirmed, goal, .. } = preference;
    let baseline = space.baseline;
    let is_measured = (0..space.workloads.len()).all(|workload| {
        let ran = |index| !table.cell(index, workload).is_empty();
        ran(candidate) && ran(baseline)
    });
    let agrees = confirmed.gain(candidate, baseline).is_none_or(|gain| gain.mean > 0.0);
    let baseline_may_do = preference.probability(baseline) > 1.0 - goal.probability;
    if candidate == baseline || !is_measured || !agrees || baseline_may_do {
        return None;
    }
    let both = Belief::of(model, &[candidate, baseline], goal.within, random);
    let at = |wanted| both.candidates.iter().position(|&index| index == wanted);
    let (at, of_baseline) = (at(candidate)?, at(baseline)?);
    let (probability, mean) = (both.best[at], both.means[at] - both.means[of_baseline]);
    (probability >= LIKELY).then_some(LikelyGain { mean, probability })
}
