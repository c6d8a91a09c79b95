//! Unit layouts, and the amount of data that a layer copies when test writes are made.
//!
//! Three merge policies are modeled (`Way`), each with a number of open units of which the least
//! recently written one is closed. The amount copied therefore depends on earlier writes. Limits:
//! the policies are those of layers in the literature; the number of randomly written units is not
//! modeled independently of the number of open units.

use super::boundaries::{MIN_STRETCH, TestWrite};

/// Offsets of the first unit considered for each size.
const OFFSETS: u64 = 64;
/// Prior probability that the first unit does not start at the start of the device.
const SHIFTED: f64 = 0.05;
/// Prior probabilities: units have logs; fewer of these may be random; these hold less than a unit;
/// units are written in order; full units then stay open.
const LOGS: f64 = 0.27;
const FEWER: f64 = 0.25;
const LESS: f64 = 0.08;
const IN_ORDER: f64 = 0.2;
const KEPT: f64 = 0.2;
/// Capacities of random logs below a unit, in twentieths of a unit.
const HOLDING: [u64; 4] = [5, 8, 11, 15];
/// Numbers of open units considered, if units start at the start of the device and if they do not.
const OPEN: [usize; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16];
const OPEN_SHIFTED: [usize; 2] = [2, 6];
/// The most open erase blocks for which fewer random ones are considered.
const MAX_WITH_FEWER: usize = 10;

/// The size and offset of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitLayout {
    /// The size, in bytes.
    pub unit: u64,
    /// Start of the first whole unit, in bytes.
    pub offset: u64,
}

impl UnitLayout {
    /// The unit number of a place, and the position within the unit.
    fn split(self, at: u64) -> (u64, u64) {
        let from = at + self.unit - self.offset;
        (from / self.unit, from % self.unit)
    }

    /// The parts of a test write: unit number, position, length.
    fn parts(self, query: TestWrite) -> impl Iterator<Item = (u64, u64, u64)> {
        let end = query.start + query.length;
        let mut at = query.start;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (number, within) = self.split(at);
            let length = (self.unit - within).min(end - at);
            at += length;
            Some((number, within, length))
        })
    }
}

/// A merge policy for open units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Each open unit has a log. A closed one is merged completely, except for data written in
    /// order from its start. Limits the number of random logs and their capacity.
    Logs {
        random: usize,
        /// The capacity of one out of order, in bytes.
        holds: u64,
    },
    /// Each is written in order, behind copies of what lies before, and completed with copies.
    InOrder,
    /// As in order, but one that is full is open until it gives way.
    Kept,
}

/// A unit that is open.
#[derive(Debug, Clone, Copy)]
struct Open {
    number: u64,
    /// How much of it is written; with a log, how much of that is used.
    used: u64,
    in_order: bool,
}

/// A layout and a way of merging.
#[derive(Debug, Clone)]
pub struct LayoutHypothesis {
    /// Where the units lie.
    pub layout: UnitLayout,
    way: Way,
    /// How many units can be open.
    most: usize,
    /// The least recently written first.
    open: Vec<Open>,
}

impl LayoutHypothesis {
    /// All hypotheses about a size with their probabilities.
    pub fn of_unit(unit: u64, grain: u64) -> Vec<(Self, f64)> {
        let grain = (unit / OFFSETS).max(grain).min(unit);
        let count = unit.div_ceil(grain);
        let aligned = UnitLayout { unit, offset: 0 };
        let of = |layout, way, most| Self { layout, way, most, open: Vec::new() };
        let mut all = Vec::new();
        let share = (1.0 - SHIFTED) / OPEN.len() as f64;
        for most in OPEN {
            let logs = |holds| Way::Logs { random: most, holds };
            all.push((of(aligned, logs(unit), most), share * LOGS));
            for parts in HOLDING {
                // A log smaller than a stretch costs the same everywhere.
                let holds = unit * parts / 20;
                let share = if holds < MIN_STRETCH { 0.0 } else { share };
                let less = of(aligned, logs(holds), most);
                all.push((less, share * LESS / HOLDING.len() as f64));
            }
            all.push((of(aligned, Way::InOrder, most), share * IN_ORDER));
            all.push((of(aligned, Way::Kept, most), share * KEPT));
        }
        let pairs = MAX_WITH_FEWER * (MAX_WITH_FEWER - 1) / 2;
        for most in 2..=MAX_WITH_FEWER {
            let fewer =
                (1..most).map(|random| of(aligned, Way::Logs { random, holds: unit }, most));
            all.extend(fewer.map(|one| (one, (1.0 - SHIFTED) * FEWER / pairs as f64)));
        }
        for step in 1..count {
            let layout = UnitLayout { unit, offset: step * grain };
            let each = SHIFTED / ((count - 1) as usize * OPEN_SHIFTED.len()) as f64;
            all.extend(
                OPEN_SHIFTED
                    .map(|most| (of(layout, Way::Logs { random: most, holds: unit }, most), each)),
            );
        }
        all
    }

    /// Whether this hypothesis writes units in order, after copies of the preceding data.
    pub fn is_in_order(&self) -> bool {
        matches!(self.way, Way::InOrder | Way::Kept)
    }

    /// The amount that a test write would copy, in units.
    pub fn copied(&self, query: TestWrite) -> f64 {
        self.clone().write(query)
    }

    /// Applies a test write; returns the amount copied, in units.
    pub fn write(&mut self, query: TestWrite) -> f64 {
        let (unit, layout) = (self.layout.unit, self.layout);
        let mut copied = 0;
        for (number, within, length) in layout.parts(query) {
            let mut open = match self.open.iter().position(|open| open.number == number) {
                Some(at) => self.open.remove(at),
                None => {
                    if self.open.len() >= self.most {
                        let oldest = self.open.remove(0);
                        copied += self.completed(&oldest);
                    }
                    Open { number, used: 0, in_order: true }
                }
            };
            match self.way {
                Way::Logs { holds, .. } => {
                    open.in_order &= open.used == within;
                    open.used += length;
                    while !open.in_order && open.used >= holds && open.used < unit {
                        open.used -= holds;
                        copied += unit;
                    }
                }
                Way::InOrder | Way::Kept => {
                    if open.used != within {
                        copied += within + if open.used > 0 { unit - open.used } else { 0 };
                    }
                    open.used = within + length;
                }
            }
            if open.used < unit || self.way == Way::Kept {
                self.open.push(open);
            } else if !open.in_order {
                copied += unit;
            }
            copied += self.keep_few_out_of_order();
        }
        copied as f64 / unit as f64
    }

    /// Merges the oldest random log if there are too many; returns the amount copied, in bytes.
    fn keep_few_out_of_order(&mut self) -> u64 {
        let Way::Logs { random, .. } = self.way else { return 0 };
        if self.open.iter().filter(|open| !open.in_order).count() <= random {
            return 0;
        }
        let oldest = self.open.iter().position(|open| !open.in_order);
        self.open.remove(oldest.expect("some are out of order"));
        self.layout.unit
    }

    /// The amount copied when a unit is closed, in bytes.
    fn completed(&self, open: &Open) -> u64 {
        if open.in_order { self.layout.unit - open.used } else { self.layout.unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn hypotheses(way: Way, most: usize) -> LayoutHypothesis {
        let layout = UnitLayout { unit: 1024 * KIB, offset: 256 * KIB };
        LayoutHypothesis { layout, way, most, open: Vec::new() }
    }

    fn at(start_kib: u64, length_kib: u64) -> TestWrite {
        TestWrite { start: start_kib * KIB, length: length_kib * KIB }
    }

    #[test]
    fn a_layer_with_logs_merges_each_closed_unit() {
        let mut logs = hypotheses(Way::Logs { random: 1, holds: 1024 * KIB }, 1);
        assert_eq!(logs.write(at(512, 128)), 0.0);
        assert_eq!(logs.write(at(1280, 128)), 1.0);
        assert_eq!(logs.write(at(1408, 128)), 0.0);
        // Out of order, and so merged wholly when it gives way to the next.
        assert_eq!(logs.write(at(2240, 128)), 1.0);
        // A log that is full is merged.
        assert_eq!(logs.write(at(2560, 704)), 0.0);
        assert_eq!(logs.write(at(2432, 384)), 1.0);
        assert_eq!(logs.write(at(256, 128)), 0.0);
    }

    #[test]
    fn a_small_random_log_is_merged_when_it_is_full() {
        let mut logs = hypotheses(Way::Logs { random: 2, holds: 256 * KIB }, 2);
        assert_eq!(logs.write(at(512, 128)), 0.0);
        assert_eq!(logs.write(at(768, 128)), 1.0);
        assert_eq!(logs.write(at(896, 128)), 0.0);
    }

    #[test]
    fn the_oldest_random_log_is_merged_when_there_are_too_many() {
        let mut logs = hypotheses(Way::Logs { random: 1, holds: 1024 * KIB }, 3);
        assert_eq!(logs.write(at(512, 128)), 0.0);
        assert_eq!(logs.write(at(1280, 128)), 0.0);
        assert_eq!(logs.write(at(2560, 128)), 1.0);
    }

    #[test]
    fn a_sequential_layer_copies_the_data_before_and_after() {
        let mut ordered = hypotheses(Way::InOrder, 1);
        assert_eq!(ordered.write(at(512, 128)), 0.25);
        // The rest behind the first, and what lies before the second.
        assert_eq!(ordered.write(at(1536, 256)), 0.625 + 0.25);
        assert_eq!(ordered.write(at(1792, 512)), 0.0);
        let mut two = hypotheses(Way::InOrder, 2);
        two.write(at(512, 128));
        assert_eq!(two.write(at(1536, 256)), 0.25);
    }
}
