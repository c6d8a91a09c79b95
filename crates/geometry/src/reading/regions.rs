//! Finds the informative regions of a device: many cards answer reads of never-written areas
//! without accessing the flash, and show no boundaries there.
//!
//! The device is divided into eight parts of equal size. If reads within a page are clearly slower
//! than in the fastest part, they access the flash. Limits: alternating written and never-written
//! areas within a part are not distinguished; a device that was never written gives no reference.

use std::ops::Range;

use flashfit_device::random::Random;

use super::confirm::spread;
use super::scores::{BoundaryRead, as_float};
use crate::belief::median;

const PARTS: u64 = 8;
/// The fewest boundaries of the largest unit in a group's region.
const BOUNDARIES: u64 = 16;
/// The smallest region in bytes, so that reads are rarely close to each other.
const MIN_BYTES: u64 = 64 << 20;
/// The fewest reads of a part for a median.
const ENOUGH: usize = 4;
/// Standard errors between clearly different medians.
const CLEARLY: f64 = 4.0;
/// The shortest page read in nanoseconds; smaller differences have other causes.
const PAGE_READ_NS: f64 = 10_000.0;
/// Factor from the spread of single values to the standard error of a median of one.
const OF_MEDIAN: f64 = 1.2533;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RegionKind {
    /// Reads access the flash, or all parts are equal.
    Informative,
    /// Reads are answered without accessing the flash.
    Uninformative,
    /// Contains, or is next to, the end of the written area.
    Edge,
}

#[derive(Debug)]
pub struct Regions {
    bounds: Range<u64>,
    kinds: Vec<RegionKind>,
}

impl Regions {
    /// All parts start as informative.
    pub fn new(bounds: Range<u64>) -> Self {
        Self { bounds, kinds: vec![RegionKind::Informative; PARTS as usize] }
    }

    /// The kind of the part that contains a place.
    pub fn kind(&self, place: u64) -> RegionKind {
        self.kinds[self.part(place)]
    }

    /// A random region for a group of reads, in `any` part or an informative one; extended over
    /// neighboring parts of the same kind if the units need more room.
    pub fn draw(&self, random: &mut Random, largest_unit: u64, any: bool) -> Range<u64> {
        let size = self.bounds.end - self.bounds.start;
        let least = (BOUNDARIES * largest_unit).max(MIN_BYTES);
        let kind = |part: u64| self.kinds[part as usize];
        let wanted = |part: &u64| match kind(*part) {
            RegionKind::Informative => true,
            RegionKind::Uninformative => any,
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

    /// Classifies the parts by reads that cross no boundary.
    pub fn weigh(&mut self, beside: impl Iterator<Item = BoundaryRead>) {
        let mut times = vec![Vec::new(); PARTS as usize];
        for crossing in beside {
            times[self.part(crossing.center)].push(as_float(crossing.elapsed_ns));
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
        // The written area may end within a part, so parts next to another kind are excluded if
        // others remain.
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
            _ if all_alike => RegionKind::Informative,
            true if is_inner(part) || !written => RegionKind::Informative,
            false if is_inner(part) || !unwritten => RegionKind::Uninformative,
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
                let center = random.below(16 * GIB);
                BoundaryRead { center, group: 0, elapsed_ns: time_ns(center, random.below(50_000)) }
            })
            .collect()
    }

    #[test]
    fn uninformative_parts_are_not_read() {
        let mut regions = Regions::new(0..16 * GIB);
        let written = |center| u64::from(center < 6 * GIB);
        let time_ns = |center, chance| 500_000 + chance + 80_000 * written(center);
        regions.weigh(reads(time_ns).into_iter());
        let kind = |part: u64| regions.kind(part * GIB + GIB / 2);
        // The written area ends with the third part.
        assert!((0..4).all(|part| kind(part) == RegionKind::Informative));
        assert!((4..8).all(|part| kind(part) == RegionKind::Edge));
        assert!((8..16).all(|part| kind(part) == RegionKind::Uninformative));
        let mut random = Random::new(1);
        for unit in [512, 1 << 20, 1 << 28] {
            let region = regions.draw(&mut random, unit, false);
            assert!(region.end <= 4 * GIB && region.start < region.end, "{region:?}");
        }
        assert_eq!(regions.draw(&mut random, GIB, false), 0..4 * GIB);
    }

    #[test]
    fn equal_parts_are_all_informative() {
        let mut regions = Regions::new(0..16 * GIB);
        regions.weigh(reads(|_, chance| 500_000 + chance).into_iter());
        assert!((0..16).all(|part| regions.kind(part * GIB) == RegionKind::Informative));
        assert_eq!(regions.draw(&mut Random::new(1), GIB, false), 0..16 * GIB);
    }
}
