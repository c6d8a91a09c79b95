//! Chooses places to read: boundaries of one size and no larger one, each place once.
//!
//! A repeated read may be answered from a cache of the card, so used places are marked in cells of
//! 64 KiB and not returned again, except by [`UnreadPlaces::again_where`]. A small device runs out
//! of boundaries of large units.

use std::collections::HashSet;
use std::ops::Range;

use flashfit_device::random::Random;

/// The most that a card may cache from a read: its largest page.
const CELL_BYTES: u64 = 64 << 10;
/// Random draws before boundaries are scanned.
const TRIES: usize = 12;
/// Boundaries of a size are rare up to this number.
const RARE: u64 = 32;
/// Number of rare boundaries kept in reserve.
const KEPT: usize = 4;
/// Boundaries scanned one by one.
const FEW: u64 = 256;

/// The unread places of a device.
#[derive(Debug)]
pub struct UnreadPlaces {
    bounds: Range<u64>,
    used: HashSet<u64>,
}

impl UnreadPlaces {
    /// Places within a range in bytes from the start of the device.
    pub fn new(bounds: Range<u64>) -> Self {
        Self { bounds, used: HashSet::new() }
    }

    /// The range in bytes from the start of the device.
    pub fn bounds(&self) -> Range<u64> {
        self.bounds.clone()
    }

    /// Takes an unread multiple of `unit`, from `region` if possible, otherwise from anywhere. If
    /// possible it is not a multiple of a larger unit: its quotient is not divisible by 2, 3, 5 or
    /// 7. The last few rare boundaries are kept for [`UnreadPlaces::fresh_where`].
    pub fn fresh(&mut self, random: &mut Random, unit: u64, region: &Range<u64>) -> Option<u64> {
        if self.is_nearly_used_up(unit) {
            return None;
        }
        let region = self.within(region);
        let whole = self.bounds.clone();
        let found = self
            .draw(random, unit, &region, just_this)
            .or_else(|| self.draw(random, unit, &whole, just_this))
            .or_else(|| self.draw(random, unit, &whole, |quotient| quotient % 2 == 1))
            .or_else(|| self.draw(random, unit, &whole, |_| true))?;
        self.used.insert(cell(found));
        Some(found)
    }

    /// Takes an unread multiple of `unit` that is `wanted`; if possible not a multiple of a larger
    /// unit.
    pub fn fresh_where(
        &mut self,
        random: &mut Random,
        unit: u64,
        wanted: impl Fn(&Self, u64) -> bool,
    ) -> Option<u64> {
        let is_wanted = |quotient: u64| wanted(self, quotient * unit);
        let found = self
            .draw(random, unit, &self.bounds, |quotient| just_this(quotient) && is_wanted(quotient))
            .or_else(|| self.draw(random, unit, &self.bounds, is_wanted))?;
        self.used.insert(cell(found));
        Some(found)
    }

    /// A previously read multiple of `unit` that is `wanted`.
    pub fn again_where(
        &self,
        random: &mut Random,
        unit: u64,
        wanted: impl Fn(&Self, u64) -> bool,
    ) -> Option<u64> {
        let (first, end) = (self.bounds.start.div_ceil(unit), self.bounds.end.div_ceil(unit));
        let count = end.checked_sub(first).filter(|&count| count > 0)?;
        let drawn = (0..TRIES).map(|_| (first + random.below(count)) * unit);
        drawn.into_iter().find(|&place| !self.is_fresh(place) && wanted(self, place))
    }

    /// Whether a place is in range and unread.
    pub fn is_fresh(&self, place: u64) -> bool {
        self.bounds.contains(&place) && !self.used.contains(&cell(place))
    }

    fn is_nearly_used_up(&self, unit: u64) -> bool {
        let quotients = self.bounds.start.div_ceil(unit)..self.bounds.end.div_ceil(unit);
        if quotients.end.saturating_sub(quotients.start) > RARE {
            return false;
        }
        quotients.filter(|quotient| self.is_fresh(quotient * unit)).count() <= KEPT
    }

    /// Takes a place, unless it was read before or is out of range.
    pub fn take(&mut self, place: u64) -> Option<u64> {
        (self.bounds.contains(&place) && self.used.insert(cell(place))).then_some(place)
    }

    /// Takes an unread multiple of `unit` in a range.
    pub fn fresh_within(
        &mut self,
        random: &mut Random,
        unit: u64,
        range: &Range<u64>,
    ) -> Option<u64> {
        let found = self.draw(random, unit, &self.within(range), |_| true)?;
        self.used.insert(cell(found));
        Some(found)
    }

    fn within(&self, range: &Range<u64>) -> Range<u64> {
        range.start.max(self.bounds.start)..range.end.min(self.bounds.end)
    }

    fn draw(
        &self,
        random: &mut Random,
        unit: u64,
        range: &Range<u64>,
        wanted: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let (first, end) = (range.start.div_ceil(unit), range.end.div_ceil(unit));
        let count = end.checked_sub(first).filter(|&count| count > 0)?;
        let is_fresh =
            |quotient: &u64| wanted(*quotient) && !self.used.contains(&cell(quotient * unit));
        let drawn = (0..TRIES).map(|_| first + random.below(count)).find(is_fresh);
        let quotient = drawn.or_else(|| {
            let begin = random.below(count);
            let one_by_one = (0..count.min(FEW)).map(|step| first + (begin + step) % count);
            one_by_one.into_iter().find(is_fresh)
        })?;
        Some(quotient * unit)
    }
}

fn just_this(quotient: u64) -> bool {
    [2, 3, 5, 7].iter().all(|factor| quotient % factor != 0)
}

/// Cells are centered on multiples of their size, so that a boundary is in the middle of one.
fn cell(place: u64) -> u64 {
    (place + CELL_BYTES / 2) / CELL_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn places_are_boundaries_of_one_unit_only_and_never_repeat() {
        let (mut places, mut random) = (UnreadPlaces::new(MIB..4096 * MIB), Random::new(1));
        let mut seen = HashSet::new();
        for unit in [MIB, 512, 3 * MIB, 1 << 17] {
            for _ in 0..100 {
                let place = places.fresh(&mut random, unit, &(512 * MIB..2048 * MIB)).unwrap();
                assert!(place % unit == 0 && just_this(place / unit), "{place} {unit}");
                assert!((512 * MIB..2048 * MIB).contains(&place));
                assert!(seen.insert(cell(place)));
            }
        }
    }

    #[test]
    fn a_small_device_runs_out_of_large_boundaries_and_keeps_the_last() {
        let (mut places, mut random) = (UnreadPlaces::new(MIB..128 * MIB), Random::new(1));
        let first: Vec<u64> =
            std::iter::from_fn(|| places.fresh(&mut random, 16 * MIB, &(0..64 * MIB))).collect();
        assert_eq!(first.len(), 7 - KEPT);
        let rest = std::iter::from_fn(|| places.fresh_where(&mut random, 16 * MIB, |_, _| true));
        let all: HashSet<u64> = rest.chain(first.iter().copied()).collect();
        assert_eq!(all, (1..8).map(|quotient| quotient * 16 * MIB).collect());
        assert_eq!(places.fresh(&mut random, 256 * MIB, &(0..64 * MIB)), None);
    }
}
