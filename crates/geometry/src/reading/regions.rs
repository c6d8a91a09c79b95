//! Which parts of a device tell something: where nothing was ever written, many cards answer at
//! once, without asking the flash, and then no boundary shows.
//!
//! The device is cut into eight parts of equal size. Where reads within a
//! page are clearly slower than in the fastest part, the flash was asked. Limits: a card on which
//! written and never-written areas alternate within the parts is not told apart; a whole device
//! that was never written shows nothing to go by.

use std::ops::Range;

use flashfit_device::random::Random;

use super::confirm::spread;
use super::scores::{BoundaryRead, as_float};
use crate::belief::median;

const PARTS: u64 = 8;
/// Boundaries of the largest unit in a region of a group, at least.
const BOUNDARIES: u64 = 16;
/// A region is so large at least, in bytes, so that reads seldom come near each other.
const LEAST_BYTES: u64 = 64 << 20;
/// Reads of a part that make a median.
const ENOUGH: usize = 4;
/// How far apart medians are when they are clearly different, in standard errors.
const CLEARLY: f64 = 4.0;
/// What a page read takes at least, in nanoseconds: a smaller difference is of another kind.
const PAGE_READ_NS: f64 = 10_000.0;
/// The standard error of a median, for the spread of one value and one value.
const OF_MEDIAN: f64 = 1.2533;

/// What a part of a device is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RegionKind {
    /// The flash is asked, or all parts are alike.
    Telling,
    /// Answered at once.
    Silent,
    /// What was written ends in it, or in one beside it.
    Edge,
}

/// The parts of a device.
#[derive(Debug)]
pub struct Regions {
    bounds: Range<u64>,
    kinds: Vec<RegionKind>,
}

impl Regions {
    /// All of them, before anything is known.
    pub fn new(bounds: Range<u64>) -> Self {
        Self { bounds, kinds: vec![RegionKind::Telling; PARTS as usize] }
    }

    /// What the part is like in which a place lies.
    pub fn kind(&self, place: u64) -> RegionKind {
        self.kinds[self.part(place)]
    }

    /// A region for a group of reads, in any part or in one that tells something; larger than a
    /// part where the units need it, of parts that are alike.
    pub fn draw(&self, random: &mut Random, largest_unit: u64, any: bool) -> Range<u64> {
        let size = self.bounds.end - self.bounds.start;
        let least = (BOUNDARIES * largest_unit).max(LEAST_BYTES);
        let kind = |part: u64| self.kinds[part as usize];
        let wanted = |part: &u64| match kind(*part) {
            RegionKind::Telling => true,
            RegionKind::Silent => any,
            RegionKind::Edge => false,
        };
        let parts: Vec<u64> = (0..PARTS).filter(wanted).collect();
        let part = parts[random.below(parts.len() as u64) as usize];
        let (mut first, mut end) = (part, part + 1);
        while (end - first) * size / PARTS < least {
            let before = first > 0 && kind(first - 1) == kind(part);
            let behind = end < PARTS && kind(end) == kind(part);
            match (before, behind) {
                (true, true) if random.below(2) == 0 => first -= 1,
                (_, true) => end += 1,
                (true, false) => first -= 1,
                (false, false) => break,
            }
        }
        self.bounds.start + size * first / PARTS..self.bounds.start + size * end / PARTS
    }

    /// Learns from reads that cross no boundary which parts tell something.
    pub fn weigh(&mut self, beside: impl Iterator<Item = BoundaryRead>) {
        let mut times = vec![Vec::new(); PARTS as usize];
        for crossing in beside {
            times[self.part(crossing.centre)].push(as_float(crossing.elapsed_ns));
        }
        let rest: Vec<f64> = times
            .iter()
            .flat_map(|times| {
                let middle = median(times);
                times.iter().map(move |time| time - middle)
            })
            .collect();
        let spread = spread(&rest);
        let of_part = |times: &Vec<f64>| {
            let error = OF_MEDIAN * spread / (times.len() as f64).sqrt();
            (times.len() >= ENOUGH).then(|| (median(times), error))
        };
        let medians: Vec<Option<(f64, f64)>> = times.iter().map(of_part).collect();
        let by_median = |a: &&(f64, f64), b: &&(f64, f64)| a.0.total_cmp(&b.0);
        let Some(&fastest) = medians.iter().flatten().min_by(by_median) else { return };
        let is_slower = |&(median, error): &(f64, f64)| {
            median - fastest.0 > PAGE_READ_NS.max(CLEARLY * (error + fastest.1))
        };
        let slower: Vec<bool> =
            medians.iter().map(|of| of.as_ref().is_some_and(is_slower)).collect();
        // What was written may end within a part, so those at its ends are left out if others of
        // the kind are left.
        let is_inner = |part: usize| {
            let alike = |other: Option<&bool>| other.is_none_or(|&other| other == slower[part]);
            alike(part.checked_sub(1).and_then(|before| slower.get(before)))
                && alike(slower.get(part + 1))
        };
        let has_inner =
            |kind: bool| (0..slower.len()).any(|part| slower[part] == kind && is_inner(part));
        let (written, unwritten) = (has_inner(true), has_inner(false));
        let all_alike = !slower.contains(&true);
        let kind = |part: usize| match slower[part] {
            _ if all_alike => RegionKind::Telling,
            true if is_inner(part) || !written => RegionKind::Telling,
            false if is_inner(part) || !unwritten => RegionKind::Silent,
            _ => RegionKind::Edge,
        };
        self.kinds = (0..slower.len()).map(kind).collect();
    }

    fn part(&self, place: u64) -> usize {
        let size = self.bounds.end - self.bounds.start;
        let inside = place.saturating_sub(self.bounds.start).min(size - 1);
        (u128::from(inside) * u128::from(PARTS) / u128::from(size)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn reads(time_ns: impl Fn(u64, u64) -> u64) -> Vec<BoundaryRead> {
        let mut random = Random::new(9);
        (0..300)
            .map(|_| {
                let centre = random.below(16 * GIB);
                BoundaryRead { centre, group: 0, elapsed_ns: time_ns(centre, random.below(50_000)) }
            })
            .collect()
    }

    #[test]
    fn parts_that_answer_at_once_are_left_alone() {
        let mut regions = Regions::new(0..16 * GIB);
        let written = |centre| u64::from(centre < 6 * GIB);
        let time_ns = |centre, chance| 500_000 + chance + 80_000 * written(centre);
        regions.weigh(reads(time_ns).into_iter());
        let kind = |part: u64| regions.kind(part * GIB + GIB / 2);
        // What was written ends with the third part.
        assert!((0..4).all(|part| kind(part) == RegionKind::Telling));
        assert!((4..8).all(|part| kind(part) == RegionKind::Edge));
        assert!((8..16).all(|part| kind(part) == RegionKind::Silent));
        let mut random = Random::new(1);
        for unit in [512, 1 << 20, 1 << 28] {
            let region = regions.draw(&mut random, unit, false);
            assert!(region.end <= 4 * GIB && region.start < region.end, "{region:?}");
        }
        assert_eq!(regions.draw(&mut random, GIB, false), 0..4 * GIB);
    }

    #[test]
    fn where_all_are_alike_all_tell() {
        let mut regions = Regions::new(0..16 * GIB);
        regions.weigh(reads(|_, chance| 500_000 + chance).into_iter());
        assert!((0..16).all(|part| regions.kind(part * GIB) == RegionKind::Telling));
        assert_eq!(regions.draw(&mut Random::new(1), GIB, false), 0..16 * GIB);
    }
}
