//! Which boundaries are read next: all sizes once, then those on which likely structures disagree.

use super::question::{COARSE, LARGEST_WRITE_UNIT, UnitShares};
use super::{Search, contest};

/// Reads of a survey that cross no boundary.
const WITHIN_PAGES: usize = 10;
/// Pairs of structures that a group compares.
const CONTESTS: usize = 4;

impl Search {
    /// Each power of two once, the finest and [`COARSE`] more often, and some multiples of three.
    pub(super) fn survey(&mut self) -> Vec<u64> {
        let powers = (0..29).map(|exponent| 1u64 << exponent);
        let fits = |unit: &u64| *unit >= self.sector && *unit <= self.bytes / 8;
        let mut units: Vec<u64> = powers.filter(fits).collect();
        units.extend([COARSE; 2]);
        units.extend([self.sector; WITHIN_PAGES]);
        for _ in 0..3 {
            units.push(3 << (16 + self.random.below(8)));
        }
        units
    }

    /// Reads on which likely erase blocks disagree.
    pub(super) fn coarse(&mut self) -> Vec<u64> {
        let shares: UnitShares =
            self.belief.posterior().into_iter().map(|(of, share)| (of.bytes(), share)).collect();
        self.contests(&shares, COARSE)
    }

    /// Reads that show whether boundaries of twice the likely erase block cost more.
    pub(super) fn doubles(&mut self) -> Vec<u64> {
        let unit = self.belief.likeliest().0.bytes().unwrap_or(COARSE);
        vec![unit, 2 * unit, 2 * unit, unit, 2 * unit, 2 * unit]
    }

    /// Reads on which likely write units disagree.
    pub(super) fn fine(&mut self) -> Vec<u64> {
        // The largest step may come from an erase block; the smallest decides that.
        let first = self.random.below(2) == 0;
        let shares = if first { &self.small.write_unit } else { &self.small.finest };
        let shares = shares.clone();
        let mut units = self.contests(&shares, self.sector);
        units.retain(|&unit| unit <= LARGEST_WRITE_UNIT);
        units
    }

    /// Considers sizes of whole sectors only.
    fn contests(&mut self, shares: &UnitShares, finest: u64) -> Vec<u64> {
        let is_askable = |size: &Option<u64>| size.is_none_or(|size| size % self.sector == 0);
        let shares: UnitShares =
            shares.iter().filter(|(size, _)| is_askable(size)).copied().collect();
        let random = &mut self.random;
        let pairs = (0..CONTESTS).filter_map(|_| contest::pair(random, &shares));
        pairs.flat_map(|pair| contest::reads(pair, finest)).collect()
    }
}
