//! Distinguishes the step of an erase block from that of a mapping table that is not cached.
//!
//! A card that keeps its mapping table in flash reads a piece of it when a place is accessed for
//! the first time in a while. A read across the boundary of two pieces then costs an additional
//! read, for example at every 16 or 64 MiB, independently of erase blocks. Therefore both sides of
//! a boundary are read beforehand at other places, which caches both pieces. Then the boundary and
//! a place half a unit away, or a quarter, or less, are read in random order; the latter is a
//! boundary of all smaller units. Several distances are used because misaligned pages may
//! temporarily show a step all around a boundary. A step that remains at all of them does not come
//! from the mapping table; a card that caches a single piece shows it, or twice of it, at some.
//!
//! Limits: a card that caches more than the location of one erase block looks the same as an
//! uncached mapping table and gets no answer; misaligned pages are not considered if the unit is
//! too small for a second distance. If a device has few boundaries, some are read again: a
//! remaining step counts, a missing one may be due to the card's cache.

use std::ops::RangeInclusive;

use flashfit_device::random::Random;

use super::places::UnreadPlaces;
use super::question::{COARSE, LARGEST_WRITE_UNIT};
use super::scores::as_float;
use super::session::ReadSession;
use crate::belief::{log_student_3, log_sum_exp, median};
use crate::probed::{ProbeError, SamplePurpose};

/// Prior probability that a step comes from an erase block: few cards have so little memory that
/// their mapping table does not fit, and most of these show no unit at all.
pub const USUAL: f64 = 0.9;
/// Probabilities that are not decisive.
pub const UNSURE: RangeInclusive<f64> = 0.005..=0.995;
const MAX_PAIRS: u32 = 40;
/// Smallest distance from the boundary in bytes, unless half a unit is less.
const NEAREST: u64 = LARGEST_WRITE_UNIT;
/// The fewest pairs to estimate their spread from.
const MIN_PAIRS: usize = 4;
/// The same if boundaries were read before, of which there are always more.
const MIN_REPEATED_PAIRS: usize = 24;
/// After this number of pairs, more add little information.
const TARGET_PAIRS: usize = 160;
/// Reads per pair, including those beforehand.
const READS: u64 = 4;
/// Factors on the remaining step: a map piece's step may coincide with that of a unit, and the step
/// is estimated from few reads.
const LEFT: [f64; 5] = [0.4, 0.7, 1.0, 1.4, 2.0];

/// The spread of equivalent reads, as a share of the step, that hides which boundaries have it.
const NOISY: f64 = 0.125;
/// Factor from the spread of single values to the standard error of their median.
const OF_MEDIAN: f64 = 1.2533;
/// Standard errors.
const SURELY: f64 = 2.0;

/// The share of previously read boundaries that a card may have cached, so that they show no step.
const REMEMBERED: [f64; 3] = [0.0, 0.5, 1.0];

/// Probability that a card whose mapping table causes the step caches a single piece; and the extra
/// steps of a read across relative to an adjacent one, depending on order and side.
const FORGETS: f64 = 0.2;
const MISSED: [f64; 3] = [0.0, 1.0, 2.0];

/// Probability that misaligned pages show the step all around some boundary.
const ASKEW: f64 = 0.2;
/// Sides of the boundary with misaligned pages: before, after, both.
const SIDES: [&[bool]; 3] = [&[false], &[true], &[false, true]];

/// The extra time of a read across a boundary relative to an adjacent one.
#[derive(Debug, Clone, Copy)]
pub struct BoundaryDifference {
    /// Distance in bytes.
    away: u64,
    /// Whether the adjacent place is after the boundary.
    is_behind: bool,
    is_fresh: bool,
    ns: f64,
}

/// The step to check.
#[derive(Debug, Clone)]
pub struct SuspectedStep {
    /// The unit whose boundaries have it, in bytes.
    pub unit: u64,
    pub step_ns: f64,
    /// Spread of equivalent reads, in nanoseconds.
    pub spread_ns: f64,
    pub others: Vec<u64>,
}

/// Reads both sides of boundaries beforehand, at places that are `is_like` those with the step, and
/// returns the probability that the step remains. Adds to the `differences` of earlier pairs.
///
/// # Errors
/// If the device fails.
pub fn remains(
    session: &mut ReadSession<'_>,
    places: &mut UnreadPlaces,
    random: &mut Random,
    suspect: &SuspectedStep,
    is_like: &dyn Fn(u64) -> bool,
    differences: &mut Vec<BoundaryDifference>,
) -> Result<f64, ProbeError> {
    let mut probability = likely(differences, suspect);
    for pair in 0..MAX_PAIRS {
        if session.reads_left() < READS {
            break;
        }
        if pair % 8 == 0 {
            session.report("checking the effect of the mapping table")?;
        }
        differences.extend(difference(session, places, random, suspect, is_like)?);
        probability = likely(differences, suspect);
        if differences.len() >= MIN_PAIRS && has_enough_pairs(differences, probability) {
            break;
        }
    }
    Ok(probability)
}

/// Whether more pairs would hardly change the probability `remains`.
pub fn has_enough_pairs(differences: &[BoundaryDifference], remains: f64) -> bool {
    let all_fresh = differences.iter().all(|of| of.is_fresh);
    let fewest = if all_fresh { 0 } else { MIN_REPEATED_PAIRS };
    let count = differences.len();
    count >= TARGET_PAIRS || (count >= fewest && !UNSURE.contains(&remains))
}

/// Whether the step is not that of an erase block, according to this probability. Where times vary
/// by much of the step, that looks like a step that only some boundaries have; then it must be
/// missing at most of them.
pub fn disproves(
    remains: f64,
    differences: &[BoundaryDifference],
    suspect: &SuspectedStep,
) -> bool {
    let is_likely = UNSURE.contains(&remains) || remains > 0.5;
    let is_quiet = suspect.spread_ns < NOISY * suspect.step_ns;
    !is_likely && (is_quiet || is_missing(differences, suspect))
}

/// Whether the median difference is significantly less than any remaining step.
fn is_missing(differences: &[BoundaryDifference], suspect: &SuspectedStep) -> bool {
    let all: Vec<f64> = differences.iter().map(|of| of.ns).collect();
    let error_ns = OF_MEDIAN * spread(&all) / as_float(all.len() as u64).sqrt();
    median(&all) + SURELY * error_ns < LEFT[0] * suspect.step_ns
}

/// The probability that these differences contain the step.
fn likely(differences: &[BoundaryDifference], suspect: &SuspectedStep) -> f64 {
    let least = (suspect.step_ns / 10.0).max(1.0);
    // Either the spread of other reads, or that of these, which is larger if only some have the
    // step.
    let usual = (suspect.spread_ns * std::f64::consts::SQRT_2).max(least);
    let all: Vec<f64> = differences.iter().map(|of| of.ns).collect();
    let seen = if all.len() < MIN_PAIRS { usual } else { spread(&all).max(usual) };
    let (mut remaining, mut others) = (Vec::new(), Vec::new());
    for scale in [usual, seen] {
        let (of_unit, of_others) = weigh(differences, suspect, scale);
        remaining.push(of_unit);
        others.extend(of_others);
    }
    let evidence = log_sum_exp(remaining.iter().copied()) - log_sum_exp(others.iter().copied());
    let odds = USUAL / (1.0 - USUAL) * evidence.clamp(-50.0, 50.0).exp();
    let remains = odds / (1.0 + odds);
    if all.len() < MIN_PAIRS { remains.min(USUAL) } else { remains }
}

/// The log-likelihood that every boundary still has the step, and those of the other cases weighted
/// by their priors, for this spread.
fn weigh(
    differences: &[BoundaryDifference],
    suspect: &SuspectedStep,
    scale: f64,
) -> (f64, Vec<f64>) {
    let log = |ns: f64, steps: f64| log_student_3(ns - steps * suspect.step_ns, scale);
    // Assumes that places this close, on these sides, do not have the step.
    let beyond = |near: u64, sides: &[bool]| {
        let has = |of: &BoundaryDifference| of.away > near || !sides.contains(&of.is_behind);
        let one = |of: &BoundaryDifference, left: f64, remembered: f64| {
            let with = log(of.ns, if has(of) { left } else { 0.0 });
            if of.is_fresh {
                return with;
            }
            let each = [(1.0 - remembered).ln() + with, remembered.ln() + log(of.ns, 0.0)];
            log_sum_exp(each.into_iter())
        };
        let cases = LEFT.into_iter().flat_map(|left| REMEMBERED.map(|share| (left, share)));
        let with = cases.map(|(left, share)| -> f64 {
            differences.iter().map(|of| one(of, left, share)).sum()
        });
        log_sum_exp(with.collect::<Vec<f64>>().into_iter())
            - ((LEFT.len() * REMEMBERED.len()) as f64).ln()
    };
    let missed = |of: &BoundaryDifference, left: f64| {
        let each = MISSED.map(|steps| log(of.ns, left * steps));
        log_sum_exp(each.into_iter()) - (MISSED.len() as f64).ln()
    };
    let forgets = FORGETS.ln() - (LEFT.len() as f64).ln();
    let nowhere = differences.iter().map(|of| log(of.ns, 0.0)).sum::<f64>();
    let mut others = vec![(1.0 - FORGETS - ASKEW).ln() + nowhere];
    others.extend(
        LEFT.map(|left| forgets + differences.iter().map(|of| missed(of, left)).sum::<f64>()),
    );
    let halvings = halvings(suspect.unit);
    let share = (ASKEW / (SIDES.len() as f64 * halvings as f64)).ln();
    for sides in SIDES {
        let each = (2..=halvings).map(|at| share + beyond(suspect.unit >> at, sides));
        others.extend(each);
    }
    (beyond(0, &[]), others)
}

/// The number of distances from a boundary, each half of the previous one, with adjacent places.
fn halvings(unit: u64) -> u64 {
    (2..).take_while(|&at| unit >> at >= NEAREST).count() as u64 + 1
}

/// The extra time of a read across an unread boundary in nanoseconds, after both sides were read;
/// `None` if no place is left or a read failed.
fn difference(
    session: &mut ReadSession<'_>,
    places: &mut UnreadPlaces,
    random: &mut Random,
    suspect: &SuspectedStep,
    is_like: &dyn Fn(u64) -> bool,
) -> Result<Option<BoundaryDifference>, ProbeError> {
    let unit = suspect.unit;
    let away = unit >> (1 + random.below(halvings(unit)));
    let middles = |boundary: u64| [boundary - away, boundary + away];
    // The two reads must differ only in this step.
    let alike = |boundary: u64, middle: u64| {
        let crosses = |place: u64, other: u64| place % other == 0;
        suspect.others.iter().all(|&other| crosses(boundary, other) == crosses(middle, other))
    };
    let usable = |places: &UnreadPlaces, boundary: u64, middle: u64| {
        alike(boundary, middle) && places.is_fresh(middle) && is_like(boundary) && is_like(middle)
    };
    let wanted = |places: &UnreadPlaces, boundary: u64| {
        middles(boundary).into_iter().any(|middle| usable(places, boundary, middle))
    };
    let fresh = places.fresh_where(random, unit, wanted);
    let is_fresh = fresh.is_some();
    let again = || places.again_where(random, unit, wanted);
    let Some(boundary) = fresh.or_else(again) else { return Ok(None) };
    let mut middles = middles(boundary);
    random.shuffle(&mut middles);
    let beside = middles.into_iter().find(|&middle| usable(places, boundary, middle));
    let Some(beside) = beside.and_then(|middle| places.take(middle)) else { return Ok(None) };
    let is_behind = beside > boundary;
    let (left, right) = (boundary - unit..boundary, boundary..boundary + unit);
    let mut elsewhere = |places: &mut UnreadPlaces, side| places.fresh_within(random, COARSE, side);
    let (Some(before), Some(behind)) = (elsewhere(places, &left), elsewhere(places, &right)) else {
        return Ok(None);
    };
    for place in [before, behind] {
        session.read_across(place, SamplePurpose::Read)?;
    }
    let mut order = [(boundary, SamplePurpose::ReadAcross), (beside, SamplePurpose::ReadAdjacent)];
    random.shuffle(&mut order);
    let mut times = [None; 2];
    for (place, purpose) in order {
        let slot = usize::from(purpose == SamplePurpose::ReadAdjacent);
        times[slot] = session.read_across(place, purpose)?;
    }
    let [Some(across), Some(beside)] = times else { return Ok(None) };
    let ns = as_float(across) - as_float(beside);
    Ok(Some(BoundaryDifference { away, is_behind, is_fresh, ns }))
}

/// Spread of values: the median absolute deviation, scaled to a standard deviation.
pub fn spread(values: &[f64]) -> f64 {
    let middle = median(values);
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&distances) * 1.4826
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_NS: f64 = 70_000.0;

    /// The probability for differences of these numbers of steps, with little noise.
    fn likely_with(is_fresh: bool, steps: &[f64]) -> f64 {
        let mut random = Random::new(3);
        let difference = |(at, steps): (usize, &f64)| {
            let noise_ns = as_float(random.below(10_000)) - 5000.0;
            let ns = steps * STEP_NS + noise_ns;
            BoundaryDifference { away: (2 << 20) >> (at % 4), is_behind: at % 3 == 0, is_fresh, ns }
        };
        let differences: Vec<BoundaryDifference> =
            steps.iter().enumerate().map(difference).collect();
        let (unit, others) = (4 << 20, Vec::new());
        likely(&differences, &SuspectedStep { unit, step_ns: STEP_NS, spread_ns: 5000.0, others })
    }

    #[test]
    fn a_card_that_caches_one_map_piece_is_not_taken_for_a_unit() {
        assert!(likely_with(true, &[1.0; 8]) > 0.99);
        assert!(likely_with(true, &[2.0, 0.0, 1.0, 2.0, 2.0, 1.0, 0.0, 2.0]) < 0.01);
    }

    #[test]
    fn a_step_of_a_different_height_still_remains() {
        assert!(likely_with(true, &[2.0; 8]) > 0.99);
        assert!(likely_with(true, &[0.7; 8]) > 0.99);
        assert!(likely_with(true, &[0.0; 8]) < 0.01);
    }

    #[test]
    fn missing_steps_at_previously_read_boundaries_are_not_evidence() {
        assert!(likely_with(false, &[1.0; 8]) > 0.99);
        assert!((0.3..=USUAL).contains(&likely_with(false, &[0.0; 8])));
        assert!(likely_with(false, &[2.0, 0.0, 1.0, 2.0, 2.0, 1.0, 0.0, 2.0]) < 0.01);
        assert!(likely_with(true, &[1.0; 2]) <= USUAL, "two pairs are too few");
    }
}
