//! Infers the write unit from runs of writes of one size, and from shifted runs.
//!
//! In a run, writes of one size follow each other from the start of an erase block. Their time
//! grows with the size in steps of what is programmed at the same time: a write unit, or one on
//! each die. If the run begins behind a write of a part of a step, every write touches one write
//! unit more, unless the part consists of whole write units. So the steps show how much is
//! programmed at the same time, and the smallest shift that costs nothing is the write unit.
//! Limits: a device that starts a new write unit for each request costs nothing with any shift;
//! programming that is hidden behind the transfer shows no steps; the smallest shift is a sector.

use super::meter::{MeasurementStop, Meter};
use super::write_unit::{TimedWrite, fit, fit_without};
use crate::belief::{log_sum_exp, median};
use crate::findings::{CandidateValue, GeometryFinding, QuantityValue, SURE};
use crate::probed::SamplePurpose;

/// The largest writes, and their share of an erase block.
const LARGEST: u64 = 256 << 10;
const SHARE: u64 = 8;
/// Counted writes of a run, in one erase block and in all.
const IN_A_ROW: usize = 12;
const TIMES: usize = 36;
/// Parts of a run whose times are fitted separately.
const PARTS: usize = 3;
/// The smallest size considered.
const LEAST: u64 = 4096;
/// A time of this many times that of the largest writes includes a merge.
const MERGED: f64 = 3.0;
/// How much better than no steps a size must explain the times.
const CLEAR: f64 = 6.0;
/// Log ratio from which a shift costs more, and up to which it costs nothing.
const DEARER: f64 = 0.05;
/// On a device that does not merge, some places within a write unit cost more than others.
const DEARER_IF_APPENDED: f64 = 0.1;
const EQUAL: f64 = 0.04;
/// Standard errors that a difference must exceed, and the largest one with which nothing shows.
const ERRORS: f64 = 4.0;
const MOST_ERROR: f64 = 0.05;
/// The smallest error of a log ratio: a device changes between two runs.
const LEAST_ERROR: f64 = 0.01;
/// Further runs where it is unclear whether a shift costs anything.
const REPEATS: usize = 2;
/// Merges that end a run.
const MERGES: usize = 4;
/// Multiples of a write unit besides two, of which writes can be shifted by a write unit. One of
/// them suffices, because collections of a log interfere.
const MULTIPLES: [u64; 2] = [4, 8];
/// The share of the cost of a shift by a half below which a shift by a whole has other causes.
const SMALL_PART: f64 = 0.5;
/// The largest answer from shifts alone, as a share of an erase block: devices also merge halves,
/// quarters and eighths.
const UNMERGED_SHARE: u64 = 16;
/// The confidence of an answer from shifts alone. More of the drawn cards were right.
const CONFIDENCE: f64 = 0.98;

/// Where runs go: the starts of erase blocks, or places far apart.
#[derive(Debug, Clone)]
pub struct RunPlaces {
    pub starts: Vec<u64>,
    /// Bytes from each start.
    pub room: u64,
}

/// The times of one run.
struct Run {
    size: u64,
    times: Vec<f64>,
    /// Whether most of the times include merges.
    merges: bool,
}

impl Run {
    fn low(times: &[f64]) -> f64 {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 4]
    }

    fn time_ns(&self) -> f64 {
        median(&self.times)
    }

    /// Standard error of the logarithm of the median.
    fn error(&self) -> f64 {
        let middle = self.time_ns();
        let deviations: Vec<f64> =
            self.times.iter().map(|time| (time / middle).ln().abs()).collect();
        (1.5 * 1.25 * median(&deviations) / (self.times.len() as f64).sqrt()).max(0.002)
    }
}

struct Runs<'a, 'b> {
    meter: &'a mut Meter<'b>,
    places: RunPlaces,
    next: usize,
    /// The largest size of the first runs, in bytes.
    large: u64,
    /// The time per byte of large writes, in nanoseconds; infinite until it is measured.
    ns_per_byte: f64,
    /// The log ratio from which a shift costs more.
    least_dear: f64,
}

impl Runs<'_, '_> {
    /// Writes of a size behind one of `shift` bytes.
    fn run(&mut self, shift: u64, size: u64) -> Result<Run, MeasurementStop> {
        let mut times = Vec::new();
        let mut merged = 0;
        let merged_ns = MERGED * self.ns_per_byte * size.max(self.large) as f64;
        let mostly_merged = |merged: usize, of: usize| merged >= MERGES && merged * 2 > of;
        while times.len() < TIMES && !mostly_merged(merged, times.len()) {
            let start = self.places.starts[self.next % self.places.starts.len()];
            self.next += 1;
            let (mut at, end) = (start, start + self.places.room);
            // Opens the erase block, which takes longer.
            let first = if shift > 0 { shift } else { size };
            self.meter.write(SamplePurpose::WriteLinear, at, first)?;
            at += first;
            // Not the end of an erase block: that would close it.
            for _ in 0..IN_A_ROW {
                if at + size >= end || mostly_merged(merged, times.len()) {
                    break;
                }
                let time_ns = self.meter.write(SamplePurpose::WriteLinear, at, size)?;
                merged += usize::from(time_ns > merged_ns);
                times.push(time_ns);
                at += size;
            }
        }
        let merges = mostly_merged(merged, times.len());
        Ok(Run { size, times, merges })
    }

    /// How much longer writes of a size take behind one of `shift` bytes. Alternates, because the
    /// device changes, until it is clear.
    fn shift(&mut self, shift: u64, size: u64) -> Result<ShiftCost, MeasurementStop> {
        let (mut aligned, mut shifted) = (self.run(0, size)?, self.run(shift, size)?);
        let mut cost = ShiftCost::of(&aligned, &shifted, self.least_dear);
        for _ in 0..REPEATS {
            if cost.is_free() || cost.is_dear() {
                break;
            }
            aligned.times.extend(self.run(0, size)?.times);
            shifted.times.extend(self.run(shift, size)?.times);
            cost = ShiftCost::of(&aligned, &shifted, self.least_dear);
        }
        Ok(cost)
    }
}

/// The log ratio of the times of shifted writes and others.
#[derive(Debug, Clone, Copy)]
struct ShiftCost {
    ratio: f64,
    error: f64,
    /// The ratio from which it costs more.
    least: f64,
}

impl ShiftCost {
    fn of(aligned: &Run, shifted: &Run, least: f64) -> Self {
        let error = aligned.error().hypot(shifted.error());
        if shifted.merges && !aligned.merges {
            return Self { ratio: MERGED.ln(), error: 0.0, least };
        }
        Self { ratio: (shifted.time_ns() / aligned.time_ns()).ln(), error, least }
    }

    fn is_free(self) -> bool {
        self.ratio.abs() <= EQUAL.max(2.0 * self.error) && self.error <= MOST_ERROR
    }

    fn is_dear(self) -> bool {
        self.ratio >= self.least.max(ERRORS * self.error)
    }

    /// The probability that this one costs nothing although `dear` does. Otherwise both are shifts
    /// by a part of a write unit, which cost the same.
    fn differs_from(self, dear: Self) -> f64 {
        let both = self.error.hypot(dear.error).max(LEAST_ERROR);
        let alike = -0.5 * ((dear.ratio - self.ratio) / both).powi(2);
        let free = -0.5 * (self.ratio / self.error.max(LEAST_ERROR)).powi(2);
        1.0 / (1.0 + (alike - free).exp())
    }
}

/// Measures and infers the write unit. `merges`: whether scattered writes cause merges.
pub fn measure(
    meter: &mut Meter<'_>,
    places: RunPlaces,
    merges: bool,
) -> Result<GeometryFinding, MeasurementStop> {
    let sector = meter.sector_bytes();
    let most = LARGEST.min(places.room / SHARE);
    let sizes: Vec<u64> = (9..=18)
        .rev()
        .flat_map(|exponent| [1 << exponent, 3 << (exponent - 2)])
        .filter(|&size| size <= most && size >= sector && size % sector == 0)
        .collect();
    let nothing = |reason: &str| Ok(GeometryFinding::inconclusive(reason, Vec::new()));
    if places.starts.is_empty() || sizes.len() < 8 {
        return nothing("erase blocks are too small to compare writes of many sizes");
    }
    let least_dear = if merges { DEARER } else { DEARER_IF_APPENDED };
    let mut runs =
        Runs { meter, places, next: 0, large: most, ns_per_byte: f64::INFINITY, least_dear };
    let mut all: Vec<Run> = Vec::new();
    let mut large_ns_per_byte = f64::INFINITY;
    for size in sizes {
        // One of the two largest consists of whole write units.
        if all.len() == 2 {
            runs.ns_per_byte = large_ns_per_byte;
        }
        let run = runs.run(0, size)?;
        large_ns_per_byte = large_ns_per_byte.min(Run::low(&run.times) / size as f64);
        all.push(run);
    }
    // On a device that does not merge, some shifts of a part of a write unit cost nothing, too.
    let unit = if merges { smallest_free_shift(&mut runs, sector)? } else { None };
    if let Some((unit, probability)) = unit {
        let reason = "writes across multiples of this size take longer than shifted by it";
        return Ok(answer(unit, CONFIDENCE.min(probability), reason));
    }
    let Some(steps) = Steps::infer(&all) else {
        return nothing("write times do not grow in steps of a single size");
    };
    match unit_of(&mut runs, &steps, sector, merges)? {
        Some((unit, probability)) => {
            let reason = "write times grow in steps, and writes across multiples of this size \
                          take longer";
            Ok(answer(unit, steps.probability * probability, reason))
        }
        None => {
            let value = QuantityValue::Bytes(steps.size);
            let candidates = vec![CandidateValue { value, probability: steps.probability / 2.0 }];
            let reason = "write times grow in steps, but it is unclear how many write units these \
                          consist of";
            Ok(GeometryFinding::inconclusive(reason, candidates))
        }
    }
}

/// What shifted writes say about a write unit that was found in another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShiftVerdict {
    /// A shift by it costs nothing, one by half of it does.
    Confirmed,
    /// A shift by it costs as much as one by a part of a write unit.
    Refuted,
    Unclear,
}

/// Shifts writes by a write unit that was found in another way. `ns_per_byte`: the time of large
/// writes.
pub fn confirm(
    meter: &mut Meter<'_>,
    places: RunPlaces,
    unit: u64,
    ns_per_byte: f64,
) -> Result<ShiftVerdict, MeasurementStop> {
    let (large, sector) = (LARGEST.min(places.room / SHARE), meter.sector_bytes());
    if places.starts.is_empty() || 4 * unit > places.room || unit % (2 * sector) != 0 {
        return Ok(ShiftVerdict::Unclear);
    }
    let mut runs = Runs { meter, places, next: 0, large, ns_per_byte, least_dear: DEARER };
    let whole = runs.shift(unit, 2 * unit)?;
    let half = runs.shift(unit / 2, 2 * unit)?;
    Ok(verdict(whole, half))
}

fn verdict(whole: ShiftCost, half: ShiftCost) -> ShiftVerdict {
    // Part of a larger unit costs as much as half of it.
    if whole.is_dear() && whole.ratio > SMALL_PART * half.ratio {
        ShiftVerdict::Refuted
    } else if half.is_dear() && whole.differs_from(half) >= SURE {
        ShiftVerdict::Confirmed
    } else {
        ShiftVerdict::Unclear
    }
}

/// The finding of a write unit, if it is sure enough.
fn answer(unit: u64, probability: f64, reason: &str) -> GeometryFinding {
    let value = QuantityValue::Bytes(unit);
    if probability >= SURE {
        return GeometryFinding::found(value, probability, reason);
    }
    let reason = "it is unclear which shifts of a part of a step cost more";
    GeometryFinding::inconclusive(reason, vec![CandidateValue { value, probability }])
}

/// What is programmed at the same time.
struct Steps {
    size: u64,
    probability: f64,
}

impl Steps {
    fn infer(runs: &[Run]) -> Option<Self> {
        let parts = runs.iter().filter(|run| !run.merges).flat_map(|run| {
            let length = (run.times.len() / PARTS).max(1);
            run.times
                .chunks_exact(length)
                .map(|part| TimedWrite::at_start(run.size, Run::low(part)))
        });
        let timed: Vec<TimedWrite> = parts.collect();
        let sizes: Vec<u64> =
            runs.iter().map(|run| run.size).filter(|size| *size >= LEAST).collect();
        let fits: Vec<(u64, f64)> =
            sizes.iter().filter_map(|&size| Some((size, fit_steps(&timed, size)?))).collect();
        let nothing = fit_without(&timed);
        let total = log_sum_exp(fits.iter().map(|(_, log)| *log).chain([nothing]));
        let &(size, log) = fits.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        let probability = (log - total).exp();
        let steps = Self { size, probability };
        (probability >= SURE && log > nothing + CLEAR && steps.rises(runs)).then_some(steps)
    }

    /// Whether the time rises by more beyond the size than up to it, as it does where another
    /// program operation begins.
    fn rises(&self, runs: &[Run]) -> bool {
        let of = |size: u64| runs.iter().find(|run| run.size == size && !run.merges);
        let (Some(one), Some(two)) = (of(self.size), of(2 * self.size)) else { return false };
        let (low, high) = (Run::low(&one.times), Run::low(&two.times));
        let error = ERRORS * one.error().hypot(two.error());
        let within = match of(self.size / 2) {
            Some(half) => (low - Run::low(&half.times)).max(0.0),
            // A merge shows as clearly that a half is not whole.
            None => 0.0,
        };
        (high - low - 2.0 * within) / low > error.max(2.0 * DEARER)
    }
}

fn fit_steps(timed: &[TimedWrite], size: u64) -> Option<f64> {
    fit(timed, size, super::write_unit::Way::Appended)
}

/// The smallest part of a step by which runs can be shifted without cost, and how clear that is.
fn unit_of(
    runs: &mut Runs<'_, '_>,
    steps: &Steps,
    sector: u64,
    merges: bool,
) -> Result<Option<(u64, f64)>, MeasurementStop> {
    let whole = runs.shift(steps.size, steps.size)?;
    if !whole.is_free() {
        return Ok(None);
    }
    let mut unit = steps.size;
    let mut free = vec![whole];
    // Up to four dies, and one more to see that the shift matters at all.
    for _ in 0..3 {
        let shift = unit / 2;
        if shift < sector || shift % sector != 0 {
            return Ok(None);
        }
        let cost = runs.shift(shift, steps.size)?;
        if cost.is_dear() {
            // A device that does not merge may append what it maps in pieces of 4 KiB; then only a
            // shift by parts of these costs more, and dies look like write units.
            let is_clear = merges || shift % LEAST == 0;
            let probability = free.iter().map(|free| free.differs_from(cost)).product();
            return Ok((unit >= LEAST && is_clear).then_some((unit, probability)));
        }
        if !cost.is_free() {
            return Ok(None);
        }
        free.push(cost);
        unit = shift;
    }
    Ok(None)
}

/// The smallest shift that costs nothing for larger writes, while half of it does, and how clear
/// that is.
fn smallest_free_shift(
    runs: &mut Runs<'_, '_>,
    sector: u64,
) -> Result<Option<(u64, f64)>, MeasurementStop> {
    let room = runs.places.room;
    let sizes = (12..=18).flat_map(|exponent| [1_u64 << exponent, 3 << (exponent - 1)]);
    for unit in sizes.filter(|unit| unit * UNMERGED_SHARE <= room && unit % (2 * sector) == 0) {
        if !runs.shift(unit / 2, unit)?.is_dear() {
            continue;
        }
        let half = runs.shift(unit / 2, 2 * unit)?;
        let costs_third = unit % 3 != 0 || runs.shift(unit / 3, unit)?.is_dear();
        if !half.is_dear() || !costs_third {
            continue;
        }
        let whole = runs.shift(unit, 2 * unit)?;
        // Part of a larger unit costs as much as half of it.
        if !whole.is_free() && whole.ratio > SMALL_PART * half.ratio {
            continue;
        }
        let larger: Vec<u64> =
            MULTIPLES.into_iter().filter(|multiple| multiple * unit * 4 <= room).collect();
        let mut is_free = whole.is_free() && larger.is_empty();
        for multiple in larger {
            is_free = is_free || whole.is_free() && runs.shift(unit, multiple * unit)?.is_free();
        }
        // A larger size would agree with what is unclear about this one.
        return Ok(is_free.then_some((unit, whole.differs_from(half))));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(size: u64, time_ns: f64) -> Run {
        let wobble = [0.99, 1.01, 1.0, 1.02, 0.98, 1.0];
        let times = (0..TIMES).map(|at| time_ns * wobble[at % wobble.len()]).collect();
        Run { size, times, merges: false }
    }

    #[test]
    fn steps_are_what_is_programmed_at_the_same_time() {
        let sizes = (9..=18).flat_map(|exponent| [1_u64 << exponent, 3 << (exponent - 2)]);
        let runs: Vec<Run> = sizes
            .map(|size| run(size, 3e5 + 20.0 * size as f64 + 1.5e6 * size.div_ceil(16384) as f64))
            .collect();
        let steps = Steps::infer(&runs).unwrap();
        assert_eq!(steps.size, 16384);
        assert!(steps.probability > 0.99);
        let smooth: Vec<Run> =
            runs.iter().map(|of| run(of.size, 3e5 + 100.0 * of.size as f64)).collect();
        assert!(Steps::infer(&smooth).is_none());
    }

    #[test]
    fn two_shifts_that_cost_about_the_same_give_no_write_unit() {
        let cost = |ratio: f64, error: f64| ShiftCost { ratio, error, least: DEARER };
        assert!(cost(0.01, 0.02).differs_from(cost(0.5, 0.02)) > 0.999);
        // Both count as what they are, free and dear, but may well be the same.
        let (free, dear) = (cost(0.08, 0.045), cost(0.19, 0.045));
        assert!(free.is_free() && dear.is_dear());
        assert!(free.differs_from(dear) < SURE, "{}", free.differs_from(dear));
        assert_eq!(answer(8192, free.differs_from(dear), "").value, None);
        assert_eq!(answer(8192, 0.99, "").value, Some(QuantityValue::Bytes(8192)));
    }

    #[test]
    fn a_shift_by_a_write_unit_costs_nothing_and_one_by_half_of_it_does() {
        let cost = |ratio: f64| ShiftCost { ratio, error: 0.01, least: DEARER };
        assert_eq!(verdict(cost(0.0), cost(0.4)), ShiftVerdict::Confirmed);
        // Half of the true write unit, and a device that shows none.
        assert_eq!(verdict(cost(0.4), cost(0.4)), ShiftVerdict::Refuted);
        assert_eq!(verdict(cost(0.0), cost(0.0)), ShiftVerdict::Unclear);
    }

    #[test]
    fn a_shift_is_free_or_dear_or_unclear() {
        let cost = |time_ns: f64| ShiftCost::of(&run(8192, 1e6), &run(8192, time_ns), DEARER);
        assert!(cost(1.0e6).is_free() && !cost(1.0e6).is_dear());
        assert!(cost(1.3e6).is_dear() && !cost(1.3e6).is_free());
        assert!(!cost(1.045e6).is_dear() && !cost(1.045e6).is_free());
        let merges = Run { merges: true, ..run(8192, 1e8) };
        assert!(ShiftCost::of(&run(8192, 1e6), &merges, DEARER).is_dear());
    }
}
