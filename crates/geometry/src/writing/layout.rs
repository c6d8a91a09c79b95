//! Where units lie, and what a layer copies when stretches are written over them.
//!
//! Two ways of merging are supposed. A layer that keeps logs merges a unit wholly when it gives
//! way, unless it was written from its beginning on, when only the rest is copied. A layer that
//! keeps units in order copies what lies before the first write when a unit is opened, and what
//! lies behind the last when it gives way: so much depends on how many it keeps open, and on what
//! was written before. Limits: the first way is supposed to find no unit still open.

use super::boundaries::Question;

/// Offsets of the first unit that are considered for each size.
const OFFSETS: u64 = 64;
/// How likely it is that the first unit does not begin where the medium does.
const SHIFTED: f64 = 0.05;
/// How likely it is that units are kept in order.
const IN_ORDER: f64 = 0.4;
/// How many units may be open.
const OPEN: [usize; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16];

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

/// A unit that is open, and up to where it is written.
type Open = (u64, u64);

/// A layout and a way of merging.
#[derive(Debug, Clone)]
pub struct Supposed {
    /// Where the units lie.
    pub layout: Layout,
    /// How many units are kept in order; with none, units have logs.
    in_order: Option<usize>,
    /// The least recently written first.
    open: Vec<Open>,
}

impl Supposed {
    /// All that is supposed of a size, with how likely each is.
    pub fn of_unit(unit: u64, grain: u64) -> Vec<(Self, f64)> {
        let grain = (unit / OFFSETS).max(grain).min(unit);
        let count = unit.div_ceil(grain);
        let mut all = Vec::new();
        for step in 0..count {
            let share = match (count, step) {
                (1, _) => 1.0,
                (_, 0) => 1.0 - SHIFTED,
                _ => SHIFTED / (count - 1) as f64,
            };
            let layout = Layout { unit, offset: step * grain };
            let logs = Self { layout, in_order: None, open: Vec::new() };
            all.push((logs, share * (1.0 - IN_ORDER)));
        }
        for open in OPEN {
            let layout = Layout { unit, offset: 0 };
            let ordered = Self { layout, in_order: Some(open), open: Vec::new() };
            all.push((ordered, IN_ORDER / OPEN.len() as f64));
        }
        all
    }

    /// What writing a stretch would copy, in units.
    pub fn copied(&self, question: Question) -> f64 {
        let unit = self.layout.unit;
        let Some(most) = self.in_order else {
            let merged = self.layout.parts(question).map(|(_, within, length)| {
                if within == 0 { (unit - length) as f64 } else { unit as f64 }
            });
            return merged.sum::<f64>() / unit as f64;
        };
        let mut copied = 0;
        let mut room = most.saturating_sub(self.open.len());
        let mut oldest = self.open.iter();
        for (number, within, length) in self.layout.parts(question) {
            match self.open.iter().find(|(open, _)| *open == number) {
                Some((_, end)) if *end == within => {}
                Some((_, end)) => copied += unit - end + within,
                None => {
                    if room == 0 {
                        copied += oldest.next().map_or(0, |(_, end)| unit - end);
                    } else {
                        room -= 1;
                    }
                    copied += within;
                }
            }
            // A unit that is full is open no more.
            room += usize::from(within + length == unit);
        }
        copied as f64 / unit as f64
    }

    /// Writes a stretch; what that copies, in units.
    pub fn write(&mut self, question: Question) -> f64 {
        let copied = self.copied(question);
        let Some(most) = self.in_order else { return copied };
        let unit = self.layout.unit;
        let layout = self.layout;
        for (number, within, length) in layout.parts(question) {
            if let Some(at) = self.open.iter().position(|(open, _)| *open == number) {
                self.open.remove(at);
            } else if self.open.len() >= most {
                self.open.remove(0);
            }
            if within + length < unit {
                self.open.push((number, within + length));
            }
        }
        copied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn supposed(in_order: Option<usize>) -> Supposed {
        let layout = Layout { unit: 1024 * KIB, offset: 256 * KIB };
        Supposed { layout, in_order, open: Vec::new() }
    }

    fn at(start_kib: u64, length_kib: u64) -> Question {
        Question { start: start_kib * KIB, length: length_kib * KIB }
    }

    #[test]
    fn a_layer_with_logs_merges_each_unit_that_is_touched() {
        let mut logs = supposed(None);
        assert_eq!(logs.write(at(512, 128)), 1.0);
        assert_eq!(logs.write(at(1280, 128)), 0.875);
        assert_eq!(logs.write(at(1216, 128)), 1.0 + 15.0 / 16.0);
    }

    #[test]
    fn a_layer_in_order_copies_what_lies_before_and_behind() {
        let mut ordered = supposed(Some(1));
        assert_eq!(ordered.write(at(512, 128)), 0.25);
        // The rest behind the first, and what lies before the second.
        assert_eq!(ordered.write(at(1536, 256)), 0.625 + 0.25);
        assert_eq!(ordered.write(at(1792, 512)), 0.0);
        let mut two = supposed(Some(2));
        two.write(at(512, 128));
        assert_eq!(two.write(at(1536, 256)), 0.25);
    }
}
