//! Whether a step is the erase unit's, or that of a map whose pieces were not in memory.
//!
//! A card that keeps its map in the flash reads a piece of it for a place that it was not asked for
//! lately; a read across the boundary of two pieces then costs one read more, at every 16 or 64 MiB
//! for instance, and says nothing of erase units. So both sides of a boundary are read beforehand,
//! elsewhere on them, which brings both pieces to memory; then the boundary is read, and the middle of
//! one of the units, which is a boundary of all that is smaller, in random order. A step that is still there is no piece's.
//! Limits: a card that remembers more than one erase unit's place shows the same as such a map, and
//! gets no answer.

use flashfit_medium::random::Random;

use super::places::Places;
use super::question::COARSE;
use super::scores::as_float;
use super::session::Session;
use crate::belief::{log_student_3, log_sum_exp, median};
use crate::probed::{ProbeError, Purpose};

/// How likely a step is an erase unit's before this is looked at: few cards have so small a memory
/// that their map does not fit, and most of those show no unit at all.
pub const USUAL: f64 = 0.9;
/// Sure enough, either way.
const ENOUGH: f64 = 0.995;
/// Pairs of reads in all.
const MOST_PAIRS: u32 = 80;
/// Reads of a pair and before it.
const READS: u64 = 4;
/// How much of the step may be left, as thousandths: a piece's and a unit's can fall together.
const LEFT: [f64; 3] = [0.4, 0.7, 1.0];

/// Reads both sides of boundaries of `unit` beforehand, and returns how likely its step of
/// `step_ns` is there still. `spread_ns` is how far two like reads differ.
///
/// # Errors
/// As reads fail.
pub fn remains(
    session: &mut Session<'_>,
    places: &mut Places,
    random: &mut Random,
    unit: u64,
    step_ns: f64,
    spread_ns: f64,
) -> Result<f64, ProbeError> {
    let scale = spread_ns.max(step_ns / 10.0).max(1.0);
    let mut logs = [0.0; LEFT.len()];
    let mut probability = USUAL;
    for pair in 0..MOST_PAIRS {
        if session.reads_left() < READS {
            break;
        }
        if pair % 8 == 0 {
            session.tell("looking whether it is the map")?;
        }
        let Some(difference) = difference(session, places, random, unit)? else { continue };
        for (log, left) in logs.iter_mut().zip(LEFT) {
            *log += log_student_3(difference - left * step_ns, scale)
                - log_student_3(difference, scale);
        }
        let evidence = log_sum_exp(logs.into_iter()) - (LEFT.len() as f64).ln();
        let odds = USUAL / (1.0 - USUAL) * evidence.clamp(-50.0, 50.0).exp();
        probability = odds / (1.0 + odds);
        if probability > ENOUGH || probability < 1.0 - ENOUGH {
            break;
        }
    }
    Ok(probability)
}

/// What a read across a fresh boundary takes longer than one beside it, in nanoseconds, when both
/// sides were read before; `None` where there is no place left or a read failed.
fn difference(
    session: &mut Session<'_>,
    places: &mut Places,
    random: &mut Random,
    unit: u64,
) -> Result<Option<f64>, ProbeError> {
    let Some(boundary) = places.fresh(random, unit, &(0..u64::MAX)) else { return Ok(None) };
    let (left, right) = (boundary - unit..boundary, boundary..boundary + unit);
    let middles = [boundary - unit / 2, boundary + unit / 2];
    let middle = usize::try_from(random.below(2)).expect("0 or 1");
    let beside = places.take(middles[middle]).or_else(|| places.take(middles[1 - middle]));
    let Some(beside) = beside else { return Ok(None) };
    let mut elsewhere = |places: &mut Places, side| places.fresh_within(random, COARSE, side);
    let (Some(before), Some(behind)) = (elsewhere(places, &left), elsewhere(places, &right)) else {
        return Ok(None);
    };
    for place in [before, behind] {
        session.read_across(place, Purpose::Read)?;
    }
    let mut order = [(boundary, Purpose::ReadAcross), (beside, Purpose::ReadBeside)];
    random.shuffle(&mut order);
    let mut times = [None; 2];
    for (place, purpose) in order {
        let slot = usize::from(purpose == Purpose::ReadBeside);
        times[slot] = session.read_across(place, purpose)?;
    }
    let [Some(across), Some(beside)] = times else { return Ok(None) };
    Ok(Some(as_float(across) - as_float(beside)))
}

/// How far two like values lie apart, usually: the median of their distance from their median, made
/// comparable with a standard deviation.
pub fn spread(values: &[f64]) -> f64 {
    let middle = median(values);
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&distances) * 1.4826
}
