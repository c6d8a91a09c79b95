//! Where units lie, and what a layer copies when stretches are written over them.
//!
//! Three ways of merging are supposed, each with so many units open, of which the least recently
//! written one gives way (`Way`). So what is copied depends on what was written before. Limits:
//! the ways are those of the layers in the literature; how many units may be out of order is not
//! supposed apart from how many may be open.

use super::boundaries::{LEAST_STRETCH, TestWrite};

/// Offsets of the first unit that are considered for each size.
const OFFSETS: u64 = 64;
/// How likely it is that the first unit does not begin where the device does.
const SHIFTED: f64 = 0.05;
/// How likely it is that units have logs, which all may be out of order, or fewer of them, or which
/// then hold less; that they are written in order, and that full ones then stay open.
const LOGS: f64 = 0.27;
const FEWER: f64 = 0.25;
const LESS: f64 = 0.08;
const IN_ORDER: f64 = 0.2;
const KEPT: f64 = 0.2;
/// What logs out of order hold where it is less than a unit, in twentieths of one.
const HOLDING: [u64; 4] = [5, 8, 11, 15];
/// How many units may be open, where units begin with the device and where they do not.
const OPEN: [usize; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16];
const OPEN_SHIFTED: [usize; 2] = [2, 6];
/// Up to so many open erase blocks it is supposed that fewer may be out of order.
const MOST_WITH_FEWER: usize = 10;

/// Units of a size that begin at an offset and its multiples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitLayout {
    /// The size, in bytes.
    pub unit: u64,
    /// Where the first whole unit begins, in bytes.
    pub offset: u64,
}

impl UnitLayout {
    /// The number of the unit of a place, and where in it that is.
    fn split(self, at: u64) -> (u64, u64) {
        let from = at + self.unit - self.offset;
        (from / self.unit, from % self.unit)
    }

    /// The parts of a stretch: number of the unit, from where in it, and how much.
    fn parts(self, question: TestWrite) -> impl Iterator<Item = (u64, u64, u64)> {
        let end = question.start + question.length;
        let mut at = question.start;
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

/// How a layer keeps the units that are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Each has a log; one that gives way is merged wholly, but for what was written in order from
    /// its beginning. So many may be out of order, with so much in each.
    Logs {
        /// How many.
        random: usize,
        /// How much one out of order holds, in bytes.
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
    /// All that is supposed of a size, with how likely each is.
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
                // A log that holds less than a stretch costs the same everywhere.
                let holds = unit * parts / 20;
                let share = if holds < LEAST_STRETCH { 0.0 } else { share };
                let less = of(aligned, logs(holds), most);
                all.push((less, share * LESS / HOLDING.len() as f64));
            }
            all.push((of(aligned, Way::InOrder, most), share * IN_ORDER));
            all.push((of(aligned, Way::Kept, most), share * KEPT));
        }
        let pairs = MOST_WITH_FEWER * (MOST_WITH_FEWER - 1) / 2;
        for most in 2..=MOST_WITH_FEWER {
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

    /// Whether units are supposed to be written in order, behind copies of what lies before.
    pub fn is_in_order(&self) -> bool {
        matches!(self.way, Way::InOrder | Way::Kept)
    }

    /// What writing a stretch would copy, in units.
    pub fn copied(&self, question: TestWrite) -> f64 {
        self.clone().write(question)
    }

    /// Writes a stretch; what that copies, in units.
    pub fn write(&mut self, question: TestWrite) -> f64 {
        let (unit, layout) = (self.layout.unit, self.layout);
        let mut copied = 0;
        for (number, within, length) in layout.parts(question) {
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

    /// Merges the oldest log out of order when there are too many; what that copies, in bytes.
    fn keep_few_out_of_order(&mut self) -> u64 {
        let Way::Logs { random, .. } = self.way else { return 0 };
        if self.open.iter().filter(|open| !open.in_order).count() <= random {
            return 0;
        }
        let oldest = self.open.iter().position(|open| !open.in_order);
        self.open.remove(oldest.expect("some are out of order"));
        self.layout.unit
    }

    /// What is copied when a unit gives way, in bytes.
    fn completed(&self, open: &Open) -> u64 {
        if open.in_order { self.layout.unit - open.used } else { self.layout.unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn supposed(way: Way, most: usize) -> LayoutHypothesis {
        let layout = UnitLayout { unit: 1024 * KIB, offset: 256 * KIB };
        LayoutHypothesis { layout, way, most, open: Vec::new() }
    }

    fn at(start_kib: u64, length_kib: u64) -> TestWrite {
        TestWrite { start: start_kib * KIB, length: length_kib * KIB }
    }

    #[test]
    fn a_layer_with_logs_merges_each_unit_that_gives_way() {
        let mut logs = supposed(Way::Logs { random: 1, holds: 1024 * KIB }, 1);
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
    fn a_log_out_of_order_that_holds_little_is_merged_when_that_is_used() {
        let mut logs = supposed(Way::Logs { random: 2, holds: 256 * KIB }, 2);
        assert_eq!(logs.write(at(512, 128)), 0.0);
        assert_eq!(logs.write(at(768, 128)), 1.0);
        assert_eq!(logs.write(at(896, 128)), 0.0);
    }

    #[test]
    fn of_the_units_out_of_order_the_oldest_is_merged_when_there_are_too_many() {
        let mut logs = supposed(Way::Logs { random: 1, holds: 1024 * KIB }, 3);
        assert_eq!(logs.write(at(512, 128)), 0.0);
        assert_eq!(logs.write(at(1280, 128)), 0.0);
        assert_eq!(logs.write(at(2560, 128)), 1.0);
    }

    #[test]
    fn a_layer_in_order_copies_what_lies_before_and_behind() {
        let mut ordered = supposed(Way::InOrder, 1);
        assert_eq!(ordered.write(at(512, 128)), 0.25);
        // The rest behind the first, and what lies before the second.
        assert_eq!(ordered.write(at(1536, 256)), 0.625 + 0.25);
        assert_eq!(ordered.write(at(1792, 512)), 0.0);
        let mut two = supposed(Way::InOrder, 2);
        two.write(at(512, 128));
        assert_eq!(two.write(at(1536, 256)), 0.25);
    }
}
