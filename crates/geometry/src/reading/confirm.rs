//! Whether a step is the erase unit's, or that of a map whose pieces were not in memory.
//!
//! A card that keeps its map in the flash reads a piece of it for a place that it was not asked for
//! lately; a read across the boundary of two pieces then costs one read more, at every 16 or 64 MiB
//! for instance, and says nothing of erase units. So both sides of a boundary are read beforehand,
//! elsewhere on them, which brings both pieces to memory; then the boundary is read, and the
//! middle of one of the units, which is a boundary of all that is smaller, in random order. A
//! step that is still there is no piece's. Limits: a card that remembers more than one erase
//! unit's place shows the same as such a map, and gets no answer.

use std::ops::RangeInclusive;

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
/// Not sure enough, either way.
pub const UNSURE: RangeInclusive<f64> = 0.005..=0.995;
/// Pairs of reads at once.
const MOST_PAIRS: u32 = 40;
/// As few pairs say little of how far they differ.
const FEWEST_PAIRS: usize = 4;
/// Reads of a pair and before it.
const READS: u64 = 4;
/// How much of the step may be left: a piece's and a unit's can fall together.
const LEFT: [f64; 3] = [0.4, 0.7, 1.0];

/// A step that is looked at.
#[derive(Debug, Clone)]
pub struct Suspect {
    /// The size whose boundaries have it, in bytes.
    pub unit: u64,
    /// The step, in nanoseconds.
    pub step_ns: f64,
    /// How far two like reads differ, in nanoseconds.
    pub spread_ns: f64,
    /// Other sizes with steps, in bytes.
    pub others: Vec<u64>,
}

/// Reads both sides of boundaries beforehand, at places that `is_like` those where the step was
/// seen, and returns how likely it is there still. `differences` are those of earlier pairs, to
/// which new ones are added.
///
/// # Errors
/// As reads fail.
pub fn remains(
    session: &mut Session<'_>,
    places: &mut Places,
    random: &mut Random,
    suspect: &Suspect,
    is_like: &dyn Fn(u64) -> bool,
    differences: &mut Vec<f64>,
) -> Result<f64, ProbeError> {
    let mut probability = likely(differences, suspect);
    for pair in 0..MOST_PAIRS {
        if session.reads_left() < READS {
            break;
        }
        if pair % 8 == 0 {
            session.tell("looking whether it is the map")?;
        }
        differences.extend(difference(session, places, random, suspect, is_like)?);
        probability = likely(differences, suspect);
        let enough = differences.len() >= FEWEST_PAIRS;
        if enough && !UNSURE.contains(&probability) {
            break;
        }
    }
    Ok(probability)
}

/// How likely these differences have the step.
fn likely(differences: &[f64], suspect: &Suspect) -> f64 {
    let step_ns = suspect.step_ns;
    // As far as they were seen to differ; from each other perhaps more than other reads do.
    let usual = suspect.spread_ns * std::f64::consts::SQRT_2;
    let seen = if differences.len() < FEWEST_PAIRS { 0.0 } else { spread(differences) };
    let scale = usual.max(seen).max(step_ns / 10.0).max(1.0);
    let logs = LEFT.map(|left| {
        let log = |difference: &f64| {
            log_student_3(difference - left * step_ns, scale) - log_student_3(*difference, scale)
        };
        differences.iter().map(log).sum::<f64>()
    });
    let evidence = log_sum_exp(logs.into_iter()) - (LEFT.len() as f64).ln();
    let odds = USUAL / (1.0 - USUAL) * evidence.clamp(-50.0, 50.0).exp();
    odds / (1.0 + odds)
}

/// What a read across a fresh boundary takes longer than one beside it, in nanoseconds, when both
/// sides were read before; `None` where there is no place left or a read failed.
fn difference(
    session: &mut Session<'_>,
    places: &mut Places,
    random: &mut Random,
    suspect: &Suspect,
    is_like: &dyn Fn(u64) -> bool,
) -> Result<Option<f64>, ProbeError> {
    let unit = suspect.unit;
    let middles = |boundary: u64| [boundary - unit / 2, boundary + unit / 2];
    // The two must differ in this step alone.
    let alike = |boundary: u64, middle: u64| {
        let crosses = |place: u64, other: u64| place % other == 0;
        suspect.others.iter().all(|&other| crosses(boundary, other) == crosses(middle, other))
    };
    let usable = |places: &Places, boundary: u64, middle: u64| {
        alike(boundary, middle) && places.is_fresh(middle) && is_like(boundary) && is_like(middle)
    };
    let found = places.fresh_where(random, unit, |places, boundary| {
        middles(boundary).into_iter().any(|middle| usable(places, boundary, middle))
    });
    let Some(boundary) = found else { return Ok(None) };
    let mut middles = middles(boundary);
    random.shuffle(&mut middles);
    let beside = middles.into_iter().find(|&middle| usable(places, boundary, middle));
    let Some(beside) = beside.and_then(|middle| places.take(middle)) else { return Ok(None) };
    let (left, right) = (boundary - unit..boundary, boundary..boundary + unit);
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
