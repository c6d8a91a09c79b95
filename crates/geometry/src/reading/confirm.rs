//! Whether a step is the erase block's, or that of a map whose pieces were not in memory.
//!
//! A card that keeps its map in the flash reads a piece of it for a place that it was not asked for
//! lately; a read across the boundary of two pieces then costs one read more, at every 16 or 64 MiB
//! for instance, and says nothing of erase blocks. So both sides of a boundary are read beforehand,
//! elsewhere on them, which brings both pieces to memory; then the boundary is read, and a place
//! half a unit from it, or a quarter, or less, which is a boundary of all that is smaller, in
//! random order. Not only the middle, because pages that lie askew for a while show a step all
//! around some boundary. A step that is still there at each of them is no piece's; a card that
//! remembers a single piece has it, and twice it, at some. Limits: a card that remembers more than
//! one erase block's place shows the same as such a map, and gets no answer; pages that lie askew
//! are not supposed where the unit is too small for a second distance. Where a device has few
//! boundaries, some are read a second time: a step that is still there counts, one that is not may
//! be the card's memory of them.

use std::ops::RangeInclusive;

use flashfit_device::random::Random;

use super::places::UnreadPlaces;
use super::question::{COARSE, LARGEST_WRITE_UNIT};
use super::scores::as_float;
use super::session::ReadSession;
use crate::belief::{log_student_3, log_sum_exp, median};
use crate::probed::{ProbeError, SamplePurpose};

/// How likely a step is an erase block's before this is looked at: few cards have so small a memory
/// that their map does not fit, and most of those show no unit at all.
pub const USUAL: f64 = 0.9;
/// Not sure enough, either way.
pub const UNSURE: RangeInclusive<f64> = 0.005..=0.995;
/// Pairs of reads at once.
const MOST_PAIRS: u32 = 40;
/// A place beside is so far from the boundary at least, in bytes, or half a unit.
const NEAREST: u64 = LARGEST_WRITE_UNIT;
/// As few pairs say little of how far they differ.
const FEWEST_PAIRS: usize = 4;
/// The same where boundaries were read before, of which there are always more.
const FEWEST_AGAIN: usize = 24;
/// After so many pairs more would hardly tell more.
const ENOUGH_PAIRS: usize = 160;
/// Reads of a pair and before it.
const READS: u64 = 4;
/// How much of the step may be left: a piece's and a unit's can fall together, and the step is
/// known from few reads.
const LEFT: [f64; 5] = [0.4, 0.7, 1.0, 1.4, 2.0];

/// The share of the boundaries that were read before and that a card may remember, so that they
/// have no step now.
const REMEMBERED: [f64; 3] = [0.0, 0.5, 1.0];

/// How likely a card whose map makes the step remembers a single piece of it, and how many steps a
/// read across then takes longer than one beside, by which of them came first and on which side.
const FORGETS: f64 = 0.2;
const MISSED: [f64; 3] = [0.0, 1.0, 2.0];

/// How likely it is that pages that lie askew show the step all around some boundary.
const ASKEW: f64 = 0.2;
/// On which sides of the boundary they may lie: in front of it, behind, both.
const SIDES: [&[bool]; 3] = [&[false], &[true], &[false, true]];

/// What a read across a boundary took longer than one beside it.
#[derive(Debug, Clone, Copy)]
pub struct BoundaryDifference {
    /// How far beside, in bytes.
    away: u64,
    /// Whether beside is behind.
    is_behind: bool,
    /// Whether the boundary was not read before.
    is_fresh: bool,
    /// In nanoseconds.
    ns: f64,
}

/// A step that is looked at.
#[derive(Debug, Clone)]
pub struct SuspectedStep {
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
    session: &mut ReadSession<'_>,
    places: &mut UnreadPlaces,
    random: &mut Random,
    suspect: &SuspectedStep,
    is_like: &dyn Fn(u64) -> bool,
    differences: &mut Vec<BoundaryDifference>,
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
        if differences.len() >= FEWEST_PAIRS && is_enough(differences, probability) {
            break;
        }
    }
    Ok(probability)
}

/// Whether more pairs than these, from which it `remains` so likely, would hardly tell more.
pub fn is_enough(differences: &[BoundaryDifference], remains: f64) -> bool {
    let all_fresh = differences.iter().all(|of| of.is_fresh);
    let fewest = if all_fresh { 0 } else { FEWEST_AGAIN };
    let count = differences.len();
    count >= ENOUGH_PAIRS || (count >= fewest && !UNSURE.contains(&remains))
}

/// How likely these differences have the step.
fn likely(differences: &[BoundaryDifference], suspect: &SuspectedStep) -> f64 {
    let least = (suspect.step_ns / 10.0).max(1.0);
    // As far as reads were seen to differ, or as these do from each other: perhaps more than other
    // reads, and far more where some have the step and some have not.
    let usual = (suspect.spread_ns * std::f64::consts::SQRT_2).max(least);
    let all: Vec<f64> = differences.iter().map(|of| of.ns).collect();
    let seen = if all.len() < FEWEST_PAIRS { usual } else { spread(&all).max(usual) };
    let (mut remaining, mut others) = (Vec::new(), Vec::new());
    for scale in [usual, seen] {
        let (of_unit, of_others) = weigh(differences, suspect, scale);
        remaining.push(of_unit);
        others.extend(of_others);
    }
    let evidence = log_sum_exp(remaining.iter().copied()) - log_sum_exp(others.iter().copied());
    let odds = USUAL / (1.0 - USUAL) * evidence.clamp(-50.0, 50.0).exp();
    let remains = odds / (1.0 + odds);
    if all.len() < FEWEST_PAIRS { remains.min(USUAL) } else { remains }
}

/// The logarithm of the likelihood that every boundary still has the step, and those of the other
/// cases with their shares, where like reads differ so far.
fn weigh(
    differences: &[BoundaryDifference],
    suspect: &SuspectedStep,
    scale: f64,
) -> (f64, Vec<f64>) {
    let log = |ns: f64, steps: f64| log_student_3(ns - steps * suspect.step_ns, scale);
    // If those to places so near, on these sides, have none of it.
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

/// At so many distances from a boundary, each half of the one before, lie places beside it.
fn halvings(unit: u64) -> u64 {
    (2..).take_while(|&at| unit >> at >= NEAREST).count() as u64 + 1
}

/// What a read across a fresh boundary takes longer than one beside it, in nanoseconds, when both
/// sides were read before; `None` where there is no place left or a read failed.
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
    // The two must differ in this step alone.
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
    let mut order = [(boundary, SamplePurpose::ReadAcross), (beside, SamplePurpose::ReadBeside)];
    random.shuffle(&mut order);
    let mut times = [None; 2];
    for (place, purpose) in order {
        let slot = usize::from(purpose == SamplePurpose::ReadBeside);
        times[slot] = session.read_across(place, purpose)?;
    }
    let [Some(across), Some(beside)] = times else { return Ok(None) };
    let ns = as_float(across) - as_float(beside);
    Ok(Some(BoundaryDifference { away, is_behind, is_fresh, ns }))
}

/// How far two like values lie apart, usually: the median of their distance from their median, made
/// comparable with a standard deviation.
pub fn spread(values: &[f64]) -> f64 {
    let middle = median(values);
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&distances) * 1.4826
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_NS: f64 = 70_000.0;

    /// What differences of so many steps come to, with little noise.
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
    fn a_card_that_remembers_one_piece_of_its_map_is_no_unit() {
        assert!(likely_with(true, &[1.0; 8]) > 0.99);
        assert!(likely_with(true, &[2.0, 0.0, 1.0, 2.0, 2.0, 1.0, 0.0, 2.0]) < 0.01);
    }

    #[test]
    fn a_step_that_was_misjudged_remains_all_the_same() {
        assert!(likely_with(true, &[2.0; 8]) > 0.99);
        assert!(likely_with(true, &[0.7; 8]) > 0.99);
        assert!(likely_with(true, &[0.0; 8]) < 0.01);
    }

    #[test]
    fn what_is_missing_at_boundaries_that_were_read_before_says_nothing() {
        assert!(likely_with(false, &[1.0; 8]) > 0.99);
        assert!((0.3..=USUAL).contains(&likely_with(false, &[0.0; 8])));
        assert!(likely_with(false, &[2.0, 0.0, 1.0, 2.0, 2.0, 1.0, 0.0, 2.0]) < 0.01);
        assert!(likely_with(true, &[1.0; 2]) <= USUAL, "two pairs are too few");
    }
}
