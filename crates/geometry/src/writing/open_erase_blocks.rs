//! Measures the cost of writing to several erase blocks in turn, to count the open erase blocks.
//!
//! Units far apart are written in turn, first one, then two, and so on: each in ascending order
//! (linear) or in random order. As long as the device keeps all of them open, a write costs the
//! same as with one; beyond, every write closes a unit. [`super::change`] infers the number. Where
//! none shows, [`super::openings`] follows.
//! Limits: up to [`MAX_UNITS`]; one write size, larger than that of a log for small writes; a
//! page-mapped device shows no change. Source: flashbench, `README`, `--open-au`.

use std::ops::Range;

use super::layout::UnitLayout;
use super::meter::{MeasurementStop, Meter};
use crate::belief::median;
use crate::probed::{PlotPoint, PlotSeries, SamplePurpose};

/// The most units written in turn.
pub const MAX_UNITS: u32 = 17;
/// Rounds of writes to all units; the first one opens them and does not count.
const ROUNDS: u64 = 9;
/// The fewest times per number of units.
const LEAST_TIMES: usize = 20;
/// A slow write takes more than this many times as long as the fastest.
const SLOW: f64 = 2.5;
/// The least share of writes that are fast in one round and slow in the next, or the reverse, if
/// units are closed at random; and the fewest slow ones if only the first rounds have them.
const CHANGING: f64 = 0.3;
const FEWEST_SLOW: usize = 3;
/// The cost ratio to a single unit beyond which the count is exceeded.
const BEYOND: f64 = 3.0;
/// Numbers of units measured beyond the change.
const CONFIRMED: u32 = 2;
/// The order of writes within each unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitOrder {
    Linear,
    Random,
}

/// The cost of writing to a number of units in turn.
#[derive(Debug, Clone, Copy)]
pub struct UnitWriteCost {
    pub units: u32,
    /// Typical time of a write, in nanoseconds.
    pub time_ns: f64,
    /// Standard error of its logarithm.
    pub error: f64,
    /// Whether writes to the same unit are fast in one round and slow in the next, or slow in the
    /// first rounds only: the device does not close the least recent one.
    pub is_irregular: bool,
}

/// The units to write, and the write size.
#[derive(Debug, Clone)]
pub struct UnitPlacement {
    /// The sequentially written window.
    pub window: Range<u64>,
    pub layout: UnitLayout,
    /// Write size, in bytes.
    pub write_bytes: u64,
}

impl UnitPlacement {
    /// Number of whole units.
    pub fn units(&self) -> u64 {
        let UnitLayout { unit, offset } = self.layout;
        let first = (self.window.start.saturating_sub(offset)).div_ceil(unit);
        (self.window.end.saturating_sub(offset) / unit).saturating_sub(first)
    }

    pub(super) fn start(&self, number: u64) -> u64 {
        let UnitLayout { unit, offset } = self.layout;
        let first = (self.window.start.saturating_sub(offset)).div_ceil(unit);
        offset + (first + number) * unit
    }

    /// Measures one order, starting with one unit, until well beyond the change.
    pub fn measure(
        &self,
        meter: &mut Meter<'_>,
        order: UnitOrder,
    ) -> Result<Vec<UnitWriteCost>, MeasurementStop> {
        // The first write to a unit opens it and does not count. Two fill a random log.
        let least = if order == UnitOrder::Linear { 2 } else { 3 };
        if self.layout.unit / self.write_bytes < least {
            return Ok(Vec::new());
        }
        let costs = self.pass(meter, order, ROUNDS)?;
        let least = costs.iter().map(|cost| cost.time_ns).fold(f64::INFINITY, f64::min);
        if order == UnitOrder::Random || costs.iter().any(|cost| cost.time_ns > BEYOND * least) {
            return Ok(costs);
        }
        // A change of less than a merge per write shows when whole units are written.
        self.pass(meter, order, self.layout.unit / self.write_bytes)
    }

    fn pass(
        &self,
        meter: &mut Meter<'_>,
        order: UnitOrder,
        rounds: u64,
    ) -> Result<Vec<UnitWriteCost>, MeasurementStop> {
        let most = MAX_UNITS.min(u32::try_from(self.units() / 2).unwrap_or(MAX_UNITS));
        let mut numbers: Vec<u64> = (0..self.units()).collect();
        meter.random.shuffle(&mut numbers);
        let mut costs: Vec<UnitWriteCost> = Vec::new();
        let mut beyond = 0;
        for units in 1..=most {
            let cost = match self.in_turn(meter, order, units, rounds, &mut numbers) {
                Err(MeasurementStop::Spent) => break,
                other => other?,
            };
            let time_ns = cost.time_ns;
            costs.push(cost);
            let least = costs.iter().map(|cost| cost.time_ns).fold(f64::INFINITY, f64::min);
            beyond = if time_ns > BEYOND * least { beyond + 1 } else { 0 };
            if beyond > CONFIRMED {
                break;
            }
        }
        Ok(costs)
    }

    /// The cost of writing to this many units in turn. The least recently written ones come next in
    /// `numbers`, so that none is still open.
    fn in_turn(
        &self,
        meter: &mut Meter<'_>,
        order: UnitOrder,
        units: u32,
        rounds: u64,
        numbers: &mut [u64],
    ) -> Result<UnitWriteCost, MeasurementStop> {
        let places = self.layout.unit / self.write_bytes;
        let rounds = rounds.min((places - 1).max(2));
        let purpose = match order {
            UnitOrder::Linear => SamplePurpose::WriteLinear,
            UnitOrder::Random => SamplePurpose::WriteRandom,
        };
        let mut times = Vec::new();
        let per_pass = (rounds - 1) * u64::from(units);
        while times.len() < LEAST_TIMES {
            let count = units as usize;
            let starts: Vec<u64> = numbers[..count].iter().map(|at| self.start(*at)).collect();
            numbers.rotate_left(count);
            let mut mixed: Vec<u64> = (1..places).collect();
            meter.random.shuffle(&mut mixed);
            for round in 0..rounds {
                let place = match order {
                    UnitOrder::Linear => round,
                    UnitOrder::Random => {
                        mixed[usize::try_from(round).expect("there are few rounds")]
                    }
                };
                for start in &starts {
                    let at = start + place * self.write_bytes;
                    let time_ns = meter.write(purpose, at, self.write_bytes)?;
                    if round > 0 {
                        times.push(time_ns);
                    }
                }
            }
        }
        let mut passes = times.chunks(usize::try_from(per_pass).expect("it is held in memory"));
        let is_irregular = passes.any(|times| is_irregular(times, units as usize));
        times.sort_by(f64::total_cmp);
        let time_ns = match order {
            UnitOrder::Linear => trimmed_mean(&times),
            // A random log may be limited to a few pages, and is merged when they are used up.
            UnitOrder::Random => median(&times),
        };
        // Trimmed like the mean.
        let kept = &times[..times.len() - times.len() / 16];
        let square: f64 = kept.iter().map(|time| (time / time_ns - 1.0).powi(2)).sum();
        let error = square.sqrt() / kept.len() as f64;
        Ok(UnitWriteCost { units, time_ns, error, is_irregular })
    }
}

/// Whether which writes are slow differs from round to round.
fn is_irregular(times: &[f64], units: usize) -> bool {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let slow: Vec<bool> = times.iter().map(|time| *time > SLOW * least).collect();
    let changes = slow.iter().zip(&slow[units.min(slow.len())..]);
    let (all, changed) = (changes.len(), changes.filter(|(one, next)| one != next).count());
    let (early, late) = slow.split_at(slow.len() / 2);
    let settles =
        early.iter().filter(|slow| **slow).count() >= FEWEST_SLOW && !late.contains(&true);
    settles || all > 0 && changed as f64 >= CHANGING * all as f64
}

/// The mean without the slowest sixteenth of sorted times: it excludes rare stalls but keeps
/// merges, which may affect every eighth write.
fn trimmed_mean(times: &[f64]) -> f64 {
    let kept = &times[..times.len() - times.len() / 16];
    kept.iter().sum::<f64>() / kept.len() as f64
}

pub fn series(name: &str, costs: &[UnitWriteCost]) -> PlotSeries {
    let points = costs.iter().map(|cost| PlotPoint {
        x: f64::from(cost.units),
        y: cost.time_ns,
        low: cost.time_ns * (-1.96 * cost.error).exp(),
        high: cost.time_ns * (1.96 * cost.error).exp(),
    });
    PlotSeries {
        name: name.to_owned(),
        x_unit: "count".to_owned(),
        y_unit: "ns".to_owned(),
        points: points.collect(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn which_writes_are_slow_is_regular_if_the_least_recent_unit_is_closed() {
        let is_irregular = |text: &str, units: usize| {
            let times = text.chars().map(|of| if of == '#' { 300e6 } else { 14e6 });
            super::is_irregular(&times.collect::<Vec<_>>(), units)
        };
        // Drawn cards with nine and seven, and stalls.
        assert!(!is_irregular("#######...#######...#######...#######...", 10));
        assert!(!is_irregular("###.....###.....###.....###.....", 8));
        assert!(!is_irregular("........#........#..............", 8));
        // Two cards with six that close a random one.
        assert!(is_irregular("#.#..##.....#.....#.##....#...#.....##..#...#..#.#...#.#", 7));
        assert!(is_irregular("####.#.#..#.....................", 4));
    }
}
