//! Infers the erase block of a page-mapped layer from the erasures that writing requires.
//!
//! Such a layer appends all writes to one unit after the other. Once it has no free units left, it
//! erases one for each that it fills, so writes are delayed periodically, wherever they go. The
//! period depends on how much of a unit each write uses: whole write units, however little is
//! written. The smallest writes give the number of write units per erase block; larger ones, chosen
//! to be most informative, give their size. All writes go to a few places in random order, so that
//! collected units contain no valid data, the required part of the mapping table is cached, and
//! address-dependent effects are not periodic. A log for small writes that is collected by units
//! looks the same. Limits: a card that was never full erases only after its spare units are used
//! up, so more than its capacity must be written first; erasures during idle time are not visible.

use std::ops::Range;

use super::build::{self, EXPONENTS, UnitBuild};
use super::folding::{self, SingleBitUnits};
use super::meter::{MeasurementStop, Meter};
use super::period::TimeClasses;
use super::smallest_write;
use crate::belief::{GeometryBelief, log_sum_exp};
use crate::findings::SURE;
use crate::probed::SamplePurpose;

/// The smallest size that is tried, in bytes.
pub const MIN_WRITE: u64 = 4096;
/// Odd factors of the write sizes.
const ODD_SIZES: [u64; 5] = [1, 3, 5, 7, 9];
/// A multiple of all sizes, so that no write touches more write units than necessary.
const STRIDE: u64 = 768 << 10;
/// Log-evidence of folding, or its absence, once measured.
const FOLDED: f64 = 12.0;
/// Prior probability that erasures in the middle of a write are not visible.
const HIDDEN: f64 = 0.3;
/// The divisor of the remaining budget that a run may use.
const SHARE_OF_REST: u64 = 4;
/// Number of places written.
const PLACES: u64 = 5;
/// Number of times before the first evaluation, and the growth factor until the next.
const FIRST_LOOK: usize = 768;
const LOOKS: f64 = 1.35;
/// The most writes of one size per run.
const MAX_WRITES: usize = 1 << 17;
/// Required log-evidence of a distance against nothing, and required probability among all.
const CLEAR: f64 = 14.0;
const ENOUGH: f64 = 0.9995;
/// The smallest distance of erasures that gives a clear result.
const MIN_DISTANCE: f64 = 3.0;
/// Erasures to observe per size.
const TRIED: f64 = 40.0;
/// The fewest visible erasures for a size to be tried.
const MIN_SEEN: f64 = 12.0;
/// Larger writes hide a part of an erasure, so a much shorter stall may have the same cause if both
/// are clearly visible; a longer one has another cause.
const SHORTER: f64 = 4.0;
const CLEAR_STALL_NS: f64 = 2e6;
const LONGER: f64 = 1.5;
const MIN_STALL_NS: f64 = 2e5;
/// The log-likelihood loss at which the conclusion contradicts the result of a size.
const CONTRADICTED: f64 = 10.0;
/// Probability at which the times by size determine the write unit.
const SURELY_TIMED: f64 = 0.999;
/// Number of sizes tried.
const RUNS: usize = 7;

/// The inferred erase block and write unit.
#[derive(Debug, Clone)]
pub struct Erasures {
    /// Log-evidence of each erase block size against nothing.
    pub gains: Vec<(u64, f64)>,
    /// The most likely write unit with its probability.
    pub write_unit: (u64, f64),
}

/// The posterior over `UnitBuild`s and the results it is based on.
pub struct BuildBelief {
    builds: Vec<UnitBuild>,
    /// Unnormalized log-probabilities; the priors are in `priors`.
    logs: Vec<f64>,
    priors: Vec<f64>,
    /// Like `priors`, without the evidence of times by size.
    untimed: Vec<f64>,
    area: Range<u64>,
    /// The write unit determined by the times by size, in bytes.
    timed: Option<u64>,
    shown: bool,
    /// Sizes that need no more writes.
    tried: Vec<u64>,
    /// Sizes with the whole distance that they showed.
    seen: Vec<(u64, f64)>,
    /// Log-likelihood by build of the sizes without a clear result.
    unclear: Vec<Vec<f64>>,
    /// Number of smallest writes between two erasures.
    distance: Option<usize>,
    /// Duration of an erasure, in nanoseconds.
    stall_ns: Option<f64>,
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
            logs: vec![0.0; builds.len()],
            builds,
            priors,
            untimed,
            area: start..start + length,
            timed: write_units.iter().find(|(_, share)| *share > SURELY_TIMED).map(|of| of.0),
            shown: false,
            tried: Vec::new(),
            seen: Vec::new(),
            unclear: Vec::new(),
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
        self.run(meter, MIN_WRITE, most)?;
        Ok(self.shown)
    }

    pub fn has_shown(&self) -> bool {
        self.shown
    }

    /// Writes other sizes until the unit is determined.
    pub fn further_runs(&mut self, meter: &mut Meter<'_>) -> Result<(), MeasurementStop> {
        for _ in 0..RUNS {
            if self.likeliest_unit().1 > ENOUGH {
                break;
            }
            let Some((write_bytes, most)) = self.next_size(meter.left_bytes()) else { break };
            self.tried.push(write_bytes);
            self.run(meter, write_bytes, most)?;
        }
        self.try_the_write_unit(meter)
    }

    /// Two sizes agree with some build nearly always, and one that may hide erasures with too many.
    /// If no third size is conclusive, a size of one and a half assumed write units occupies two of
    /// them, or is counted in bytes and shows it; for the smallest write units, three.
    fn try_the_write_unit(&mut self, meter: &mut Meter<'_>) -> Result<(), MeasurementStop> {
        let Some(best) = self.best().filter(|_| self.seen.len() > 1) else { return Ok(()) };
        let build = self.builds[best];
        let is_plain = |size: u64| build.distance(size) == build.whole_distance(size);
        if self.seen.iter().filter(|(size, _)| is_plain(*size)).count() > 2 {
            return Ok(());
        }
        let half_more = build.write_unit / 2 * 3;
        // A whole number of sectors of any size.
        let is_whole = half_more % MIN_WRITE == 0;
        let write_bytes = if is_whole { half_more } else { 3 * build.write_unit };
        let writes = (TRIED * build.whole_distance(write_bytes)) as usize;
        let writes = writes.max(4 * FIRST_LOOK);
        let is_affordable = writes as u64 * write_bytes <= meter.left_bytes() / SHARE_OF_REST;
        if self.tried.contains(&write_bytes)
            || write_bytes > STRIDE / 2
            || writes > MAX_WRITES
            || !is_affordable
        {
            return Ok(());
        }
        self.tried.push(write_bytes);
        self.run(meter, write_bytes, writes)
    }

    /// Whether no write unit is smaller than [`MIN_WRITE`]; `None` if that is unclear.
    pub fn is_smallest_write_unit(
        &self,
        meter: &mut Meter<'_>,
    ) -> Result<Option<bool>, MeasurementStop> {
        let Some(held) = self.distance else { return Ok(None) };
        let places: Vec<u64> = (0..PLACES).map(|at| self.area.start + at * STRIDE).collect();
        smallest_write::fills_alike(meter, &places, held as f64, MIN_WRITE)
    }

    /// The most likely build.
    fn best(&self) -> Option<usize> {
        let weight = |at: &usize| self.logs[*at] + self.priors[*at];
        (0..self.builds.len()).max_by(|a, b| weight(a).total_cmp(&weight(b)))
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

    /// Checks whether single-bit units are folded and, if the unit is still open, into how many
    /// bits.
    pub fn look_for_folding(
        &mut self,
        meter: &mut Meter<'_>,
        window: &Range<u64>,
    ) -> Result<(), MeasurementStop> {
        let Some(held) = self.distance.filter(|_| self.likeliest_unit().1 < ENOUGH) else {
            return Ok(());
        };
        let units = SingleBitUnits { held, write_unit: self.result().write_unit.0 };
        let places: Vec<u64> = (0..PLACES).map(|at| self.area.start + at * STRIDE).collect();
        let folds = folding::shows(meter, units, &places, window)?;
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

    /// Writes one size until its result is clear.
    fn run(
        &mut self,
        meter: &mut Meter<'_>,
        write_bytes: u64,
        most: usize,
    ) -> Result<(), MeasurementStop> {
        let mut order: Vec<u64> = (0..PLACES).collect();
        let mut times: Vec<f32> = Vec::new();
        let mut look = FIRST_LOOK;
        let mut agreed: Option<u64> = None;
        loop {
            meter.random.shuffle(&mut order);
            for place in &order {
                let at = self.area.start + place * STRIDE;
                times.push(meter.write(SamplePurpose::WriteRandom, at, write_bytes)? as f32);
            }
            let ends = times.len() >= most;
            if times.len() < look && !ends {
                continue;
            }
            look = (times.len() as f64 * LOOKS) as usize;
            let found = self.look(&times, write_bytes);
            let clear = found.as_ref().filter(|found| found.gain > CLEAR && found.share > ENOUGH);
            let distance = clear.map(|found| found.whole_distance.to_bits());
            if let Some(found) = clear.filter(|_| ends || distance == agreed) {
                let stall_ns = folding::stall(&times, found.whole_distance as usize);
                if !self.is_the_same(stall_ns) {
                    // A size that hardly stalls at the expected distance may stall at another.
                    let hardly = stall_ns.zip(self.stall_ns).is_some_and(|(now, held)| now < held);
                    self.unclear.extend(hardly.then(|| found.logs.clone()));
                    return Ok(());
                }
                for (log, add) in self.logs.iter_mut().zip(&found.logs) {
                    *log += add;
                }
                self.shown = true;
                self.seen.push((write_bytes, found.whole_distance));
                if write_bytes == MIN_WRITE {
                    self.distance = Some(found.distance as usize);
                }
                return Ok(());
            }
            if ends {
                // Nothing is visible before the first erasure.
                self.unclear.extend(found.filter(|_| self.shown).map(|found| found.logs));
                return Ok(());
            }
            agreed = distance;
        }
    }

    /// Evaluates the last of the times for each build; erasures may have started recently.
    fn look(&self, times: &[f32], write_bytes: u64) -> Option<ErasureEvidence> {
        let mut best: Option<ErasureEvidence> = None;
        let mut from = 0;
        while times.len() - from >= FIRST_LOOK {
            let found = self.look_at(&times[from..], write_bytes);
            if best.as_ref().is_none_or(|best| found.gain > best.gain) {
                best = Some(found);
            }
            from += (times.len() - from).div_ceil(2);
        }
        best
    }

    fn look_at(&self, times: &[f32], write_bytes: u64) -> ErasureEvidence {
        let classes = TimeClasses::of(times);
        let nothing = classes.log_nothing();
        let mut known: Vec<((f64, f64), f64)> = Vec::new();
        let logs: Vec<f64> = self
            .builds
            .iter()
            .map(|build| {
                let distance = build.distance(write_bytes);
                let whole = build.whole_distance(write_bytes);
                let key = (distance, whole);
                if let Some((_, log)) = known.iter().find(|(other, _)| *other == key) {
                    return *log;
                }
                // Without enough marks a build is as likely as nothing.
                let log_of = |distance| classes.log_of(distance).map_or(0.0, |log| log - nothing);
                let mut log = log_of(distance);
                if whole != distance {
                    let some_hidden = log_of(whole) + HIDDEN.ln();
                    log = log_sum_exp([log + (1.0 - HIDDEN).ln(), some_hidden].into_iter());
                }
                known.push((key, log));
                log
            })
            .collect();
        let weight = |at: usize| self.logs[at] + self.priors[at] + logs[at];
        let total = log_sum_exp((0..logs.len()).map(weight));
        let best = (0..logs.len()).max_by(|&a, &b| weight(a).total_cmp(&weight(b)));
        let best = best.expect("there are builds");
        let distance = self.builds[best].distance(write_bytes);
        let whole = |at: usize| self.builds[at].whole_distance(write_bytes);
        let whole_distance = whole(best);
        let alike = (0..logs.len()).filter(|&at| whole(at) == whole_distance);
        let share = alike.map(|at| (weight(at) - total).exp()).sum();
        ErasureEvidence { gain: logs[best], distance, whole_distance, share, logs }
    }

    fn likeliest_unit(&self) -> (u64, f64) {
        let mut sums: Vec<(u64, f64)> = Vec::new();
        let weights: Vec<f64> = self.logs.iter().zip(&self.priors).map(|(a, b)| a + b).collect();
        let total = log_sum_exp(weights.iter().copied());
        for (build, weight) in self.builds.iter().zip(&weights) {
            let probability = (weight - total).exp();
            match sums.iter_mut().find(|(unit, _)| *unit == build.unit) {
                Some((_, sum)) => *sum += probability,
                None => sums.push((build.unit, probability)),
            }
        }
        sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are builds")
    }

    /// The most informative size, and the number of writes to evaluate it.
    fn next_size(&self, left_bytes: u64) -> Option<(u64, usize)> {
        let weights: Vec<f64> = self.logs.iter().zip(&self.priors).map(|(a, b)| a + b).collect();
        let total = log_sum_exp(weights.iter().copied());
        let mut best: Option<(f64, u64, usize)> = None;
        let sizes = EXPONENTS.flat_map(|exponent| ODD_SIZES.map(|odd| odd << exponent));
        let sizes = sizes.filter(|size| !self.tried.contains(size));
        for size in sizes.filter(|size| *size > MIN_WRITE && *size <= STRIDE / 2) {
            let mut shares: Vec<(f64, f64)> = Vec::new();
            let mut too_close = 0.0;
            for (build, weight) in self.builds.iter().zip(&weights) {
                let probability = (weight - total).exp();
                if probability < 1e-6 {
                    continue;
                }
                let distance = build.whole_distance(size);
                if build.distance(size) < MIN_DISTANCE {
                    too_close += probability;
                }
                match shares.iter_mut().find(|(other, _)| *other == distance) {
                    Some((_, share)) => *share += probability,
                    None => shares.push((distance, probability)),
                }
            }
            let result: f64 = shares.iter().map(|(_, share)| -share * share.ln()).sum();
            let farthest = shares.iter().map(|(distance, _)| *distance).fold(0.0, f64::max);
            let needed = ((farthest * TRIED) as usize).clamp(4 * FIRST_LOOK, MAX_WRITES);
            let may = usize::try_from(left_bytes / SHARE_OF_REST / size).unwrap_or(MAX_WRITES);
            let needed = needed.min(may);
            if (needed as f64) < MIN_SEEN * farthest {
                continue;
            }
            // Of equally informative sizes, the smallest shows erasures best.
            if result > 1e-4
                && too_close < 1e-3
                && best.is_none_or(|(other, _, _)| result > 1.15 * other)
            {
                best = Some((result, size, needed));
            }
        }
        best.map(|(_, size, needed)| (size, needed))
    }

    /// Whether the most likely build explains the results of all sizes. Otherwise the stalls have
    /// another cause, or several. A single size gives no information on write units and must agree
    /// with the times by size.
    pub fn is_explained(&self) -> bool {
        self.best().is_some_and(|best| {
            let write_unit = self.builds[best].write_unit;
            let is_timed = self.timed.is_none_or(|timed| timed == write_unit);
            let explains = |(size, distance): &(u64, f64)| {
                self.builds[best].whole_distance(*size) == *distance
            };
            let agrees = |logs: &Vec<f64>| {
                let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                logs[best] > most - CONTRADICTED
            };
            (is_timed || self.seen.len() > 1)
                && self.seen.iter().all(explains)
                && self.unclear.iter().all(agrees)
        })
    }

    /// The inferred erase block and write unit.
    pub fn result(&self) -> Erasures {
        let mut gains: Vec<(u64, f64, f64)> = Vec::new();
        let mut write_units: Vec<(u64, f64)> = Vec::new();
        let total = log_sum_exp(self.logs.iter().zip(&self.priors).map(|(a, b)| a + b));
        let priors = self.priors.iter().zip(&self.untimed);
        for ((build, log), (prior, untimed)) in self.builds.iter().zip(&self.logs).zip(priors) {
            match gains.iter_mut().find(|(unit, _, _)| *unit == build.unit) {
                Some((_, gain, of_unit)) => {
                    *gain = log_sum_exp([*gain, log + prior].into_iter());
                    *of_unit = log_sum_exp([*of_unit, *untimed].into_iter());
                }
                None => gains.push((build.unit, log + prior, *untimed)),
            }
            let probability = (log + prior - total).exp();
            match write_units.iter_mut().find(|(size, _)| *size == build.write_unit) {
                Some((_, sum)) => *sum += probability,
                None => write_units.push((build.write_unit, probability)),
            }
        }
        let best = write_units.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        // The prior of the unit is part of the belief; only the structure given the unit counts
        // here.
        let gains = gains.into_iter().map(|(unit, gain, of_unit)| (unit, gain - of_unit)).collect();
        Erasures { gains, write_unit: best.expect("there are builds") }
    }
}

/// The result of one evaluation.
struct ErasureEvidence {
    /// Log-evidence of the most likely distance against nothing.
    gain: f64,
    distance: f64,
    whole_distance: f64,
    /// Probability of this distance among all.
    share: f64,
    logs: Vec<f64>,
}
