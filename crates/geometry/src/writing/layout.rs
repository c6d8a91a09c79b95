//! Where units lie, and what a layer copies when stretches are written over them.
//!
//! Three ways of merging are supposed, each with so many units open, of which the least recently
//! written one gives way ([`Way`]). So what is copied depends on what was written before. Limits:
//! the ways are those of the layers in the literature; how many units may be out of order is not
//! supposed apart from how many may be open.

use super::boundaries::Question;

/// Offsets of the first unit that are considered for each size.
const OFFSETS: u64 = 64;
/// How likely it is that the first unit does not begin where the medium does.
const SHIFTED: f64 = 0.05;
/// The ways of merging, and how likely each is.
const WAYS: [(Way, f64); 3] = [(Way::Logs, 0.5), (Way::InOrder, 0.25), (Way::Kept, 0.25)];
/// How many units may be open, where units begin with the medium and where they do not.
const OPEN: [usize; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16];
const OPEN_SHIFTED: [usize; 2] = [2, 6];

/// Units of a size that begin at an offset and its multiples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The size, in bytes.
    pub unit: u64,
    /// Where the first whole unit begins, in bytes.
    pub offset: u64,
}

impl Layout {
    /// The number of the unit of a place, and where in it that is.
    fn split(self, at: u64) -> (u64, u64) {
        let from = at + self.unit - self.offset;
        (from / self.unit, from % self.unit)
    }

    /// The parts of a stretch: number of the unit, from where in it, and how much.
    fn parts(self, question: Question) -> impl Iterator<Item = (u64, u64, u64)> {
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
    /// its beginning.
    Logs,
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
pub struct Supposed {
    /// Where the units lie.
    pub layout: Layout,
    way: Way,
    /// How many units can be open.
    most: usize,
    /// The least recently written first.
    open: Vec<Open>,
}

impl Supposed {
    /// All that is supposed of a size, with how likely each is.
    pub fn of_unit(unit: u64, grain: u64) -> Vec<(Self, f64)> {
        let grain = (unit / OFFSETS).max(grain).min(unit);
        let count = unit.div_ceil(grain);
        let aligned = Layout { unit, offset: 0 };
        let of = |layout, way, most| Self { layout, way, most, open: Vec::new() };
        let mut all = Vec::new();
        for (way, share) in WAYS {
            let each = share * (1.0 - SHIFTED) / OPEN.len() as f64;
            all.extend(OPEN.map(|most| (of(aligned, way, most), each)));
        }
        for step in 1..count {
            let layout = Layout { unit, offset: step * grain };
            let each = SHIFTED / ((count - 1) as usize * OPEN_SHIFTED.len()) as f64;
            all.extend(OPEN_SHIFTED.map(|most| (of(layout, Way::Logs, most), each)));
        }
        all
    }

    /// What writing a stretch would copy, in units.
    pub fn copied(&self, question: Question) -> f64 {
        let unit = self.layout.unit;
        let mut copied = 0;
        let mut room = self.most.saturating_sub(self.open.len());
        let mut oldest = self.open.iter();
        for (number, within, length) in self.layout.parts(question) {
            let open = self.open.iter().find(|open| open.number == number);
            if open.is_none() {
                if room == 0 {
                    copied += oldest.next().map_or(0, |open| self.completed(open));
                } else {
                    room -= 1;
                }
            }
            let full = match self.way {
                Way::Logs => {
                    let used = open.map_or(0, |open| open.used) + length;
                    let in_order = open.map_or(within == 0, |o| o.in_order && o.used == within);
                    copied += if used >= unit && !in_order { unit } else { 0 };
                    used >= unit
                }
                Way::InOrder | Way::Kept => {
                    match open {
                        Some(open) if open.used == within => {}
                        Some(open) => copied += self.completed(open) + within,
                        None => copied += within,
                    }
                    within + length == unit && self.way == Way::InOrder
                }
            };
            // A unit that is full is open no more.
            room += usize::from(full);
        }
        copied as f64 / unit as f64
    }

    /// What is copied when a unit gives way, in bytes.
    fn completed(&self, open: &Open) -> u64 {
        if open.in_order { self.layout.unit - open.used } else { self.layout.unit }
    }

    /// Writes a stretch; what that copies, in units.
    pub fn write(&mut self, question: Question) -> f64 {
        let copied = self.copied(question);
        let (unit, layout) = (self.layout.unit, self.layout);
        for (number, within, length) in layout.parts(question) {
            let mut open = match self.open.iter().position(|open| open.number == number) {
                Some(at) => self.open.remove(at),
                None => {
                    if self.open.len() >= self.most {
                        self.open.remove(0);
                    }
                    Open { number, used: 0, in_order: true }
                }
            };
            if self.way == Way::Logs {
                open.in_order &= open.used == within;
                open.used += length;
            } else {
                open.used = within + length;
            }
            if open.used < unit || self.way == Way::Kept {
                self.open.push(open);
            }
        }
        copied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn supposed(way: Way, most: usize) -> Supposed {
        let layout = Layout { unit: 1024 * KIB, offset: 256 * KIB };
        Supposed { layout, way, most, open: Vec::new() }
    }

    fn at(start_kib: u64, length_kib: u64) -> Question {
        Question { start: start_kib * KIB, length: length_kib * KIB }
    }

    #[test]
    fn a_layer_with_logs_merges_each_unit_that_gives_way() {
        let mut logs = supposed(Way::Logs, 1);
        assert_eq!(logs.write(at(512, 128)), 0.0);
        assert_eq!(logs.write(at(1280, 128)), 1.0);
        assert_eq!(logs.write(at(1408, 128)), 0.0);
        assert_eq!(logs.write(at(2240, 128)), 0.75 + 1.0);
        // A log that is full is merged.
        assert_eq!(logs.write(at(2304, 960)), 1.0);
        assert_eq!(logs.write(at(256, 128)), 0.0);
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
