//! The cliffs of a device: where the rates fall because more erase blocks are written in turn than
//! the device keeps open.
//!
//! The probe names the number of open erase blocks; the table shows how far the rates fall beyond.
//! A twin without the cliff is wrong where it matters most, even if most of its rates are close.

use std::collections::BTreeMap;

use flashfit_device::Bytes;
use flashfit_geometry::flashbench::AccessOrder;

use crate::counts::CellKey;
use crate::fit_target::FitTarget;
use crate::hints::DeviceHints;

/// The smallest log ratio of the rates that makes a cliff.
const LEAST_FALL: f64 = 0.4;
/// The share of the fall, in logarithms, that a twin must have.
const SHARE: f64 = 0.5;

/// A cliff that the probe found and the table shows.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenCliff {
    pub access: AccessOrder,
    /// The open erase blocks.
    pub open: u32,
    /// The write sizes at which the rates fall, with the logarithm of the ratio.
    falls: Vec<(Bytes, f64)>,
}

impl SeenCliff {
    /// The cliffs of the open erase blocks that a probe found.
    pub fn all(target: &FitTarget, hints: &DeviceHints) -> Vec<Self> {
        let found = [
            (AccessOrder::Linear, hints.open_erase_blocks),
            (AccessOrder::Random, hints.open_erase_blocks_random),
        ];
        let found = found.into_iter().filter_map(|(access, open)| Some((access, open?)));
        found.filter_map(|(access, open)| Self::next_to(target, access, open)).collect()
    }

    /// The number of a probe can be off by one, so the largest fall next to it counts.
    fn next_to(target: &FitTarget, access: AccessOrder, found: u32) -> Option<Self> {
        let rates: BTreeMap<(u32, u64), f64> = target
            .cells
            .iter()
            .filter(|cell| cell.access == access)
            .map(|cell| ((cell.units, cell.write.0), cell.bytes_per_second as f64))
            .collect();
        let near = found.saturating_sub(1).max(1)..=found + 1;
        let cliffs = near.filter(|_| found > 0).map(|open| {
            let below = rates.range((open, 0)..(open + 1, 0));
            let falls = below.filter_map(|(&(_, write), rate)| {
                let fall = (rate / rates.get(&(open + 1, write))?).ln();
                (fall >= LEAST_FALL).then_some((Bytes(write), fall))
            });
            Self { access, open, falls: falls.collect() }
        });
        let all = cliffs.filter(|cliff| !cliff.falls.is_empty());
        all.max_by(|one, other| {
            // The number itself, if others fall as far.
            let nearer = |cliff: &Self| cliff.open == found;
            one.fall().total_cmp(&other.fall()).then(nearer(one).cmp(&nearer(other)))
        })
    }

    fn fall(&self) -> f64 {
        self.falls.iter().map(|(_, fall)| fall).sum()
    }

    /// Whether these rates, or the inverse of any durations, fall there as well.
    pub fn shows_in(&self, rate: impl Fn(CellKey) -> Option<f64>) -> bool {
        let has = self.falls.iter().filter_map(|&(write, fall)| {
            let within = rate((self.open, self.access, write))?;
            let beyond = rate((self.open + 1, self.access, write))?;
            Some((within / beyond).ln().clamp(0.0, fall))
        });
        has.sum::<f64>() >= SHARE * self.fall()
    }
}

#[cfg(test)]
mod tests {
    use flashfit_geometry::flashbench::{OpenBlockTable, TableCell};

    use super::*;

    fn target(rate: impl Fn(u32, u64) -> u64) -> FitTarget {
        let sizes = [4096, 8192, 16384, 32768, 65536, 131_072];
        let cells = (1..=5).flat_map(|units| {
            let rate = &rate;
            sizes.map(|write| TableCell {
                units,
                access: AccessOrder::Linear,
                write: Bytes(write),
                bytes_per_second: rate(units, write),
            })
        });
        FitTarget::from_tables(&[OpenBlockTable { cells: cells.collect() }]).unwrap()
    }

    fn hints(open: u32) -> DeviceHints {
        DeviceHints { open_erase_blocks: Some(open), ..DeviceHints::default() }
    }

    #[test]
    fn a_cliff_is_where_the_rates_fall_next_to_the_number_found() {
        // Small writes go to a log and are equally fast.
        let target = target(|units, write| if units > 4 && write > 8192 { 100 } else { 9000 });
        for found in [3, 4, 5] {
            let cliffs = SeenCliff::all(&target, &hints(found));
            assert_eq!((cliffs.len(), cliffs[0].open, cliffs[0].falls.len()), (1, 4, 4), "{found}");
        }
        assert!(SeenCliff::all(&target, &hints(2)).is_empty());
        assert!(SeenCliff::all(&target, &hints(0)).is_empty());
        assert!(SeenCliff::all(&target, &DeviceHints::default()).is_empty());
    }

    #[test]
    fn half_of_the_fall_suffices_and_another_place_does_not() {
        let target = target(|units, _| if units > 3 { 100 } else { 10_000 });
        let cliff = SeenCliff::all(&target, &hints(3)).remove(0);
        assert!(cliff.shows_in(|(units, ..)| Some(if units > 3 { 10.0 } else { 101.0 })));
        assert!(!cliff.shows_in(|(units, ..)| Some(if units > 3 { 10.0 } else { 90.0 })));
        assert!(!cliff.shows_in(|(units, ..)| Some(if units > 2 { 10.0 } else { 1000.0 })));
        assert!(!cliff.shows_in(|_| None));
    }
}
