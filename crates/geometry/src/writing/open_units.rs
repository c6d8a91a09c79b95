//! How many erase blocks can be written in turn before each write costs a merge.
//!
//! Units far apart are written in turn, first one, then two, and so on: each in ascending order
//! (linear), or each in a mixed order (random). As long as the device keeps so many open, a write
//! costs what it costs in one; beyond, one unit gives way for every write. What that says of the
//! number is told in [`super::change`]. Limits: up to [`MOST_UNITS`]; writes of one size, larger
//! than what goes to a log for small writes; on a page-mapped device there is no change.
//! Source: flashbench, `README`, `--open-au`.

use std::ops::Range;

use super::layout::UnitLayout;
use super::meter::{MeasurementStop, Meter};
use crate::belief::median;
use crate::probed::{PlotPoint, PlotSeries, SamplePurpose};

/// The most units that are written in turn.
pub const MOST_UNITS: u32 = 17;
/// Rounds of writes to all units, the first of which opens them and does not count.
const ROUNDS: u64 = 9;
/// Times that are taken of each number of units at least.
const LEAST_TIMES: usize = 20;
/// A number of units is beyond when its writes take so many times what they take in one.
const BEYOND: f64 = 3.0;
/// How many numbers of units beyond the change are measured.
const CONFIRMED: u32 = 2;
/// In which order each unit is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitOrder {
    /// Each in ascending order.
    Linear,
    /// Each in a mixed order.
    Random,
}

/// What writing to so many units in turn took.
#[derive(Debug, Clone, Copy)]
pub struct UnitWriteCost {
    /// How many units.
    pub units: u32,
    /// The typical time of a write, in nanoseconds.
    pub time_ns: f64,
    /// The standard error of its logarithm.
    pub error: f64,
}

/// Where the units lie and what is written to them.
#[derive(Debug, Clone)]
pub struct UnitPlacement {
    /// What was written in order before.
    pub window: Range<u64>,
    /// The units.
    pub layout: UnitLayout,
    /// The size of a write, in bytes.
    pub write_bytes: u64,
}

impl UnitPlacement {
    /// How many whole units it has.
    pub fn units(&self) -> u64 {
        let UnitLayout { unit, offset } = self.layout;
        let first = (self.window.start.saturating_sub(offset)).div_ceil(unit);
        (self.window.end.saturating_sub(offset) / unit).saturating_sub(first)
    }

    fn start(&self, number: u64) -> u64 {
        let UnitLayout { unit, offset } = self.layout;
        let first = (self.window.start.saturating_sub(offset)).div_ceil(unit);
        offset + (first + number) * unit
    }

    /// Measures one order, from one unit on, until well beyond the change.
    pub fn measure(
        &self,
        meter: &mut Meter<'_>,
        order: UnitOrder,
    ) -> Result<Vec<UnitWriteCost>, MeasurementStop> {
        // The first write to a unit opens it and does not count. Two fill a log out of order.
        let least = if order == UnitOrder::Linear { 2 } else { 3 };
        if self.layout.unit / self.write_bytes < least {
            return Ok(Vec::new());
        }
        let costs = self.pass(meter, order, ROUNDS)?;
        let least = costs.iter().map(|cost| cost.time_ns).fold(f64::INFINITY, f64::min);
        if order == UnitOrder::Random || costs.iter().any(|cost| cost.time_ns > BEYOND * least) {
            return Ok(costs);
        }
        // A change that is less than a merge for each write shows when whole units are written.
        self.pass(meter, order, self.layout.unit / self.write_bytes)
    }

    fn pass(
        &self,
        meter: &mut Meter<'_>,
        order: UnitOrder,
        rounds: u64,
    ) -> Result<Vec<UnitWriteCost>, MeasurementStop> {
        let most = MOST_UNITS.min(u32::try_from(self.units() / 2).unwrap_or(MOST_UNITS));
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

    /// What writes cost when so many units are written in turn. Those written longest ago come next
    /// in `numbers`, so that none is still open.
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
        times.sort_by(f64::total_cmp);
        let time_ns = match order {
            UnitOrder::Linear => trimmed_mean(&times),
            // A log out of order may be allowed few pages, and is merged when they are used up.
            UnitOrder::Random => median(&times),
        };
        // Of what is left of the slowest, as for the mean.
        let kept = &times[..times.len() - times.len() / 16];
        let square: f64 = kept.iter().map(|time| (time / time_ns - 1.0).powi(2)).sum();
        let error = square.sqrt() / kept.len() as f64;
        Ok(UnitWriteCost { units, time_ns, error })
    }
}

/// The mean without the slowest sixteenth of sorted times: rare stalls say nothing, but every
/// eighth write may cost a merge.
fn trimmed_mean(times: &[f64]) -> f64 {
    let kept = &times[..times.len() - times.len() / 16];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// What a plot shows of the costs.
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
