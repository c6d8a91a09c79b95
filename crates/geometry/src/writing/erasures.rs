//! Infers the erase block of a page-mapped layer from the erasures that writing requires.
//!
//! Such a layer appends all writes to one unit after the other. Once it has no free units left, it
//! erases one for each that it fills, so writes are delayed periodically, wherever they go. The
//! period depends on how much of a unit each write uses: whole write units, however little is
//! written. The smallest writes give the number of write units per erase block; larger ones, chosen
//! to be most informative, give their size. All writes go to a few places in random order, so that
//! collected units contain no valid data, the required part of the mapping table is cached, and
//! address-dependent effects are not periodic. A log for small writes that is collected by units
//! looks the same, but larger writes do not go there: where these show something else or nothing,
//! smallest ones across multiples of possible write units give their size (`crossing`). A
//! log of a merging layer that is merged whenever it is full looks the same, too, but not if writes
//! go to two areas (`two_areas.rs`). Limits: a card that was never full erases only after its
//! spare units are used up, so more than its capacity must be written first; erasures during idle
//! time are not visible.

use std::ops::Range;

use super::build::{self, UnitBuild, WriteShape};
use super::erasure_evidence::{self, ErasureEvidence, FIRST_LOOK};
use super::fast_area::WrittenFirst;
use super::folding::{self, SingleBitUnits};
use super::meter::{MeasurementStop, Meter};
use super::next_write::{
    self, MAX_WRITES, MIN_DISTANCE, MIN_SEEN, MIN_WRITES, SHARE_OF_REST, TRIED,
};
use super::{smallest_write, two_areas};
use crate::belief::GeometryBelief;
use crate::findings::SURE;
use crate::probed::SamplePurpose;

/// The smallest size that is tried, in bytes.
pub const MIN_WRITE: u64 = 4096;
/// A multiple of all write units, so that no write touches more of them than necessary.
pub const STRIDE: u64 = 768 << 10;
/// Log-evidence of folding, or its absence, once measured.
const FOLDED: f64 = 12.0;
/// Probability that the search for a fast area misses one.
const MISSED: f64 = 0.12;
/// Number of places written.
const PLACES: u64 = 5;
/// The growth factor of the number of times from one evaluation to the next.
const LOOKS: f64 = 1.35;
/// Required log-evidence of a distance against nothing, and required probability among all.
const CLEAR: f64 = 14.0;
const ENOUGH: f64 = 0.9995;
/// Larger writes hide a part of an erasure, so a much shorter stall may have the same cause if both
/// are clearly visible; a longer one has another cause.
const SHORTER: f64 = 4.0;
const CLEAR_STALL_NS: f64 = 2e6;
const LONGER: f64 = 1.5;
const MIN_STALL_NS: f64 = 2e5;
/// Probability at which the times by size determine the write unit.
const SURELY_TIMED: f64 = 0.999;
/// The size from which on a window is large.
const LARGE_WINDOW: u64 = 256 << 20;
/// Number of sizes tried.
const RUNS: usize = 7;

/// The posterior over `UnitBuild`s and the results it is based on.
pub struct BuildBelief {
    pub(super) builds: Vec<UnitBuild>,
    /// Unnormalized log-probabilities; the priors are in `priors`.
    pub(super) logs: Vec<f64>,
    pub(super) priors: Vec<f64>,
    /// Like `priors`, without the evidence of times by size.
    pub(super) untimed: Vec<f64>,
    pub(super) area: Range<u64>,
    /// Whether the window has room for more erase blocks of usual sizes than devices keep open, so
    /// that merges would show as such. Then no other area is written: a log that holds data of many
    /// places is easily mistaken for a fast area.
    is_large: bool,
    /// Start of an area of the same size, as far away as the window allows.
    pub(super) far_area: u64,
    /// The write unit determined by the times by size, in bytes.
    pub(super) timed: Option<u64>,
    shown: bool,
    /// Whether erasures are as frequent if writes go to two areas.
    pub(super) is_everywhere: bool,
    /// Writes that need not be repeated.
    tried: Vec<WriteShape>,
    pub(super) seen: Vec<SeenDistance>,
    /// Log-likelihood by build of the sizes without a clear result.
    pub(super) unclear: Vec<Vec<f64>>,
    /// Whether smallest writes across boundaries gave the write unit.
    pub(super) is_crossed: bool,
    /// Whether what is erased is a log for small writes.
    is_log: bool,
    /// Number of smallest writes between two erasures.
    distance: Option<usize>,
    /// Duration of an erasure, in nanoseconds.
    stall_ns: Option<f64>,
}

/// The distance of erasures that writes of a shape showed.
pub(super) struct SeenDistance {
    pub(super) shape: WriteShape,
    pub(super) whole_distance: f64,
    /// Log-evidence of each build.
    logs: Vec<f64>,
}

impl BuildBelief {
    /// Starts with the belief about units and the write units from times by size. If the device
    /// `merges`, the erased structure is a log for small writes made of whole units.
    pub fn new(
        belief: &GeometryBelief,
        write_units: &[(u64, f64)],
        window: &Range<u64>,
        merges: bool,
    ) -> Self {
        let hypotheses = build::all(belief, write_units, merges);
        let builds: Vec<UnitBuild> = hypotheses.iter().map(|one| one.build).collect();
        let priors = hypotheses.iter().map(|one| one.prior).collect();
        let untimed = hypotheses.iter().map(|one| one.untimed).collect();
        let length = PLACES * STRIDE;
        let start = window.start.next_multiple_of(16 * STRIDE);
        let start = if start + length <= window.end {
            start
        } else {
            window.start.next_multiple_of(STRIDE)
        };
        Self {
            is_large: window.end - window.start >= LARGE_WINDOW,
            far_area: two_areas::far_area(window, start, length),
            logs: vec![0.0; builds.len()],
            builds,
            priors,
            untimed,
            area: start..start + length,
            timed: write_units.iter().find(|(_, share)| *share > SURELY_TIMED).map(|of| of.0),
            shown: false,
            is_everywhere: false,
            tried: Vec::new(),
            seen: Vec::new(),
            unclear: Vec::new(),
            is_crossed: false,
            is_log: false,
            distance: None,
            stall_ns: None,
        }
    }

    /// Writes the smallest size until erasures are visible; returns whether they are.
    pub fn first_run(
        &mut self,
        meter: &mut Meter<'_>,
        most: usize,
    ) -> Result<bool, MeasurementStop> {
        self.run(meter, WriteShape::aligned(MIN_WRITE), most)?;
        if self.shown {
            self.is_everywhere = self.is_large || self.is_the_same_in_two_areas(meter)?;
        }
        Ok(self.shown)
    }

    pub fn has_shown(&self) -> bool {
        self.shown
    }

    /// Writes other sizes until the unit is determined. If one does not show what smaller ones do,
    /// larger ones may go elsewhere.
    pub fn further_runs(&mut self, meter: &mut Meter<'_>) -> Result<(), MeasurementStop> {
        let mut is_elsewhere = false;
        if !self.is_everywhere {
            return Ok(());
        }
        for _ in 0..RUNS {
            let Some((shape, most)) = self.next(next_write::sizes(), meter) else { break };
            if self.run(meter, shape, most)? || is_elsewhere {
                continue;
            }
            is_elsewhere = true;
            if self.find_log(meter, shape)? {
                return Ok(());
            }
        }
        match self.try_the_write_unit(meter)? {
            Some(shape) if !is_elsewhere => self.find_log(meter, shape).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Finds the write unit by smallest writes alone, and whether those of the size of `larger` go
    /// elsewhere; returns whether the write unit was found. Unless they do, what other sizes showed
    /// counts afterwards, also if the measurement ends early.
    fn find_log(
        &mut self,
        meter: &mut Meter<'_>,
        larger: WriteShape,
    ) -> Result<bool, MeasurementStop> {
        let is_smallest = |of: &SeenDistance| of.shape == WriteShape::aligned(MIN_WRITE);
        let seen = std::mem::take(&mut self.seen).into_iter();
        let (smallest, others): (Vec<_>, Vec<SeenDistance>) = seen.partition(is_smallest);
        self.seen = smallest;
        for of in &others {
            subtract(&mut self.logs, &of.logs);
        }
        let found = self.cross_before(meter, larger, &others);
        if self.is_log {
            self.update_bits(|bits| if bits > 1 { -FOLDED } else { 0.0 });
        } else {
            for of in others {
                add(&mut self.logs, &of.logs);
                self.seen.push(of);
            }
        }
        found
    }

    /// Like [`Self::find_log`], given what other sizes showed.
    fn cross_before(
        &mut self,
        meter: &mut Meter<'_>,
        larger: WriteShape,
        others: &[SeenDistance],
    ) -> Result<bool, MeasurementStop> {
        self.is_crossed = self.cross(meter)?;
        let agree = others.iter().all(|of| self.is_as_expected(of));
        self.is_log = self.is_crossed
            && (!agree || self.is_filled_by_small_ones(meter, larger.length_bytes)?);
        Ok(self.is_crossed)
    }

    /// Whether what is erased is a log for small writes.
    pub fn is_log(&self) -> bool {
        self.is_log
    }

    /// Number of smallest writes between two erasures.
    pub(super) fn distance(&self) -> Option<usize> {
        self.distance
    }

    /// The most informative of these shapes that were not tried, unless the unit is known.
    pub(super) fn next(
        &self,
        shapes: impl Iterator<Item = WriteShape>,
        meter: &Meter<'_>,
    ) -> Option<(WriteShape, usize)> {
        if self.likeliest_unit().1 > ENOUGH {
            return None;
        }
        let new = shapes.filter(|shape| !self.tried.contains(shape));
        next_write::most_informative(new, &self.builds, &self.weights(), meter.left_bytes())
    }

    /// Two sizes agree with some build nearly always, and one that may hide erasures with too many.
    /// If no third size is conclusive, a size of one and a half assumed write units occupies two of
    /// them, or is counted in bytes and shows it; for the smallest write units, three. Returns it
    /// if it shows something else or nothing.
    fn try_the_write_unit(
        &mut self,
        meter: &mut Meter<'_>,
    ) -> Result<Option<WriteShape>, MeasurementStop> {
        let Some(best) = self.best().filter(|_| self.seen.len() > 1) else { return Ok(None) };
        let build = self.builds[best];
        let is_plain = |shape: WriteShape| build.distance(shape) == build.whole_distance(shape);
        if self.seen.iter().filter(|of| is_plain(of.shape)).count() > 2 {
            return Ok(None);
        }
        let half_more = build.write_unit / 2 * 3;
        // A whole number of sectors of any size.
        let is_whole = half_more % MIN_WRITE == 0;
        let write_bytes = if is_whole { half_more } else { 3 * build.write_unit };
        let shape = WriteShape::aligned(write_bytes);
        let writes = ((TRIED * build.whole_distance(shape)) as usize).max(MIN_WRITES);
        let is_affordable = writes as u64 * write_bytes <= meter.left_bytes() / SHARE_OF_REST;
        if self.tried.contains(&shape)
            || write_bytes > STRIDE / 2
            || writes > MAX_WRITES
            || !is_affordable
        {
            return Ok(None);
        }
        Ok((!self.run(meter, shape, writes)?).then_some(shape))
    }

    /// Whether no write unit is smaller than [`MIN_WRITE`]; `None` if that is unclear.
    pub fn is_smallest_write_unit(
        &self,
        meter: &mut Meter<'_>,
    ) -> Result<Option<bool>, MeasurementStop> {
        let Some(held) = self.distance else { return Ok(None) };
        smallest_write::fills_alike(meter, &self.places(), held as f64, MIN_WRITE)
    }

    /// The addresses that are written.
    pub(super) fn places(&self) -> Vec<u64> {
        (0..PLACES).map(|at| self.area.start + at * STRIDE).collect()
    }

    pub(super) fn likeliest_write_unit(&self) -> u64 {
        self.result().write_unit.0
    }

    /// The unnormalized log-probability of each build.
    pub(super) fn weights(&self) -> Vec<f64> {
        self.logs.iter().zip(&self.priors).map(|(log, prior)| log + prior).collect()
    }

    /// The most likely build.
    pub(super) fn best(&self) -> Option<usize> {
        let weights = self.weights();
        (0..weights.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b]))
    }

    /// Writes this many bytes to a few places in large requests.
    pub fn use_up(&self, meter: &mut Meter<'_>, bytes: u64) -> Result<(), MeasurementStop> {
        for number in 0..bytes / STRIDE {
            let at = self.area.start + number % PLACES * STRIDE;
            meter.write(SamplePurpose::WriteLinear, at, STRIDE)?;
        }
        Ok(())
    }

    /// Records that erasures started late: the device was new, and a fast area that `seen_writes`
    /// smallest writes would have shown does not exist.
    pub fn began_late(&mut self, seen_writes: usize) {
        if self.distance.is_some_and(|held| MIN_SEEN * held as f64 <= seen_writes as f64) {
            self.update_bits(|bits| if bits > 1 { -FOLDED } else { 0.0 });
        }
    }

    /// Records the result of a search for a fast area, which is better evidence than single folds:
    /// copying from a log looks like those.
    pub fn knows_written_first(&mut self, shown: WrittenFirst) {
        self.is_log |= shown == WrittenFirst::Log;
        let missed = MISSED.ln();
        self.update_bits(|bits| match (bits > 1, shown) {
            (true, WrittenFirst::NoArea) => missed,
            (true, WrittenFirst::Log) => -2.0 * FOLDED,
            (false, WrittenFirst::FastArea) => -2.0 * FOLDED,
            _ => 0.0,
        });
    }

    /// Checks whether single-bit units are folded and, if the unit is still open, into how many
    /// bits. Copying from a log for small writes looks the same.
    pub fn look_for_folding(
        &mut self,
        meter: &mut Meter<'_>,
        window: &Range<u64>,
    ) -> Result<(), MeasurementStop> {
        let is_open = self.is_everywhere && !self.is_log && self.likeliest_unit().1 < ENOUGH;
        let Some(held) = self.distance.filter(|_| is_open) else { return Ok(()) };
        let units = SingleBitUnits { held, write_unit: self.likeliest_write_unit() };
        let folds = folding::shows(meter, units, &self.places(), window)?;
        if let Some(folds) = folds {
            self.update_bits(|bits| if (bits > 1) == folds { 0.0 } else { -FOLDED });
        }
        if folds != Some(false) && self.likeliest_unit().1 < SURE {
            if let Some(logs) = folding::bits(meter, units, window, folds.is_some())? {
                let best = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                self.update_bits(|bits| {
                    logs.get((bits as usize).wrapping_sub(2)).map_or(-FOLDED, |log| log - best)
                });
            }
        }
        Ok(())
    }

    /// Whether stalls have the same cause as before: collecting a log for small writes takes a
    /// different time.
    fn is_the_same(&mut self, stall_ns: Option<f64>) -> bool {
        let before = self.stall_ns;
        self.stall_ns = before.or(stall_ns);
        let Some((before, now)) = before.zip(stall_ns) else { return true };
        now < LONGER * before.max(MIN_STALL_NS) && before < SHORTER * now.max(CLEAR_STALL_NS)
    }

    fn update_bits(&mut self, log: impl Fn(u64) -> f64) {
        for (build, sum) in self.builds.iter().zip(&mut self.logs) {
            *sum += log(build.bits);
        }
    }

    /// Writes one size until its result is clear; returns whether it is, and of the same cause as
    /// before.
    fn run(
        &mut self,
        meter: &mut Meter<'_>,
        shape: WriteShape,
        most: usize,
    ) -> Result<bool, MeasurementStop> {
        let (times, found, is_clear) = self.measure(meter, shape, most)?;
        let Some(found) = found else { return Ok(false) };
        if !is_clear {
            // Nothing is visible before the first erasure.
            self.unclear.extend(self.shown.then_some(found.logs));
            return Ok(false);
        }
        let stall_ns = folding::stall(&times, found.whole_distance as usize);
        if !self.is_the_same(stall_ns) {
            // A size that hardly stalls at the expected distance may stall at another.
            let hardly = stall_ns.zip(self.stall_ns).is_some_and(|(now, held)| now < held);
            self.unclear.extend(hardly.then_some(found.logs));
            return Ok(false);
        }
        self.accept(shape, found);
        Ok(true)
    }

    /// Adds the evidence of a shape.
    pub(super) fn accept(&mut self, shape: WriteShape, found: ErasureEvidence) {
        let ErasureEvidence { distance, whole_distance, logs, .. } = found;
        add(&mut self.logs, &logs);
        self.shown = true;
        self.seen.push(SeenDistance { shape, whole_distance, logs });
        if shape == WriteShape::aligned(MIN_WRITE) {
            self.distance = Some(distance as usize);
        }
    }

    /// Writes one shape until its result is clear; returns the times, and whether it is.
    pub(super) fn measure(
        &mut self,
        meter: &mut Meter<'_>,
        shape: WriteShape,
        most: usize,
    ) -> Result<(Vec<f32>, Option<ErasureEvidence>, bool), MeasurementStop> {
        if shape != WriteShape::aligned(MIN_WRITE) {
            self.tried.push(shape);
        }
        self.measure_at(meter, &self.places(), shape, most)
    }

    /// Like [`Self::measure`], at these addresses.
    pub(super) fn measure_at(
        &self,
        meter: &mut Meter<'_>,
        places: &[u64],
        shape: WriteShape,
        most: usize,
    ) -> Result<(Vec<f32>, Option<ErasureEvidence>, bool), MeasurementStop> {
        let mut order = places.to_vec();
        let mut times: Vec<f32> = Vec::new();
        let mut look = FIRST_LOOK;
        let mut agreed: Option<u64> = None;
        loop {
            meter.random.shuffle(&mut order);
            for place in &order {
                let at = place + shape.offset_bytes;
                let time_ns = meter.write(SamplePurpose::WriteRandom, at, shape.length_bytes)?;
                times.push(time_ns as f32);
            }
            let ends = times.len() >= most;
            if times.len() < look && !ends {
                continue;
            }
            look = (times.len() as f64 * LOOKS) as usize;
            let found = erasure_evidence::of_last(&times, shape, &self.builds, &self.weights());
            let is_clear = |found: &&ErasureEvidence| {
                found.gain > CLEAR && found.share > ENOUGH && found.distance >= MIN_DISTANCE
            };
            let distance = found.as_ref().filter(is_clear).map(|of| of.whole_distance.to_bits());
            let is_clear = distance.is_some() && (ends || distance == agreed);
            if is_clear || ends {
                return Ok((times, found, is_clear));
            }
            agreed = distance;
        }
    }
}

fn add(logs: &mut [f64], more: &[f64]) {
    logs.iter_mut().zip(more).for_each(|(log, more)| *log += more);
}

fn subtract(logs: &mut [f64], less: &[f64]) {
    logs.iter_mut().zip(less).for_each(|(log, less)| *log -= less);
}
