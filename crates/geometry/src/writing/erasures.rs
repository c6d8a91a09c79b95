//! The erase block of a page-mapped layer, told by the erasures that writing needs.
//!
//! Such a layer appends whatever is written to one unit after the other and has to erase one for
//! each that it fills, once it has no fresh ones left. So one write in so many takes longer,
//! wherever they go. How many depends on how much of a unit each write takes up: whole write units,
//! however little of them is written. Writes of the smallest size show how many write units an
//! erase block has; larger ones, chosen so that what is not known yet shows, how large those are.
//! All writes go to a few places, in a mixed order: then what is collected holds nothing worth
//! copying, all of the map that is needed is in memory, and nothing that depends on addresses can
//! look regular. A log for small writes that is collected a unit at a time shows in the same way.
//! Limits: a card that was never full erases nothing until its spare units are used up, so more
//! than its capacity must be written first; erasures in idle time do not show.

use std::ops::Range;

use super::build::{self, EXPONENTS, UnitBuild};
use super::folding::{self, SingleBitUnits};
use super::meter::{MeasurementStop, Meter};
use super::period::TimeClasses;
use crate::belief::{GeometryBelief, log_sum_exp};
use crate::findings::SURE;
use crate::probed::SamplePurpose;

/// The smallest write.
const LEAST_WRITE: u64 = 4096;
/// The odd factors of the sizes that are written.
const ODD_SIZES: [u64; 5] = [1, 3, 5, 7, 9];
/// A multiple of all of these sizes, so that no write reaches into more write units than it must.
const STRIDE: u64 = 768 << 10;
/// How sure it is that units are folded, or not, once it was looked for.
const FOLDED: f64 = 12.0;
/// How likely it is that erasures in the middle of a write do not show.
const HIDDEN: f64 = 0.3;
/// A run may use so much of what may still be written, as a part.
const SHARE_OF_REST: u64 = 4;
/// The places that are written.
const PLACES: u64 = 5;
/// Times after which is looked first, and by how much more the next time.
const FIRST_LOOK: usize = 768;
const LOOKS: f64 = 1.35;
/// The most writes of a size in a run.
const MOST_WRITES: usize = 1 << 17;
/// How much likelier than nothing a distance must be, as a logarithm, and how likely among all.
const CLEAR: f64 = 14.0;
const ENOUGH: f64 = 0.9995;
/// Erasures that follow each other faster tell nothing clearly.
const LEAST_DISTANCE: f64 = 3.0;
/// A size is tried for so many erasures.
const TRIED: f64 = 40.0;
/// Without so many erasures that can be seen a size is not tried.
const LEAST_SEEN: f64 = 12.0;
/// Larger writes hide a part of an erasure, so that a stall much shorter than before may be the
/// same, where both show clearly; one that is longer has another cause.
const SHORTER: f64 = 4.0;
const CLEAR_STALL_NS: f64 = 2e6;
const LONGER: f64 = 1.5;
const LEAST_STALL_NS: f64 = 2e5;
/// How much less likely, as a logarithm, what a size showed may be under what is concluded than
/// under what explains it best.
const CONTRADICTED: f64 = 10.0;
/// A write unit that is so likely by the times of sizes is surely the one.
const SURELY_TIMED: f64 = 0.999;
/// How many sizes are tried.
const RUNS: usize = 7;

/// What the times of writes say.
#[derive(Debug, Clone)]
pub struct Erasures {
    /// For each size of an erase block, its log-evidence against nothing.
    pub gains: Vec<(u64, f64)>,
    /// The likeliest size of the write unit, and how likely it is.
    pub write_unit: (u64, f64),
}

/// The posterior over builds, and the writes it comes from.
pub struct BuildBelief {
    builds: Vec<UnitBuild>,
    /// Unnormalized log-probabilities; the priors are in `priors`.
    logs: Vec<f64>,
    priors: Vec<f64>,
    /// As `priors`, without what the times of sizes said of write units.
    untimed: Vec<f64>,
    area: Range<u64>,
    /// The write unit that the times of sizes surely speak for, in bytes.
    timed: Option<u64>,
    shown: bool,
    /// The sizes of which all was seen that there is to see.
    tried: Vec<u64>,
    /// Each size with the whole distance that it showed.
    seen: Vec<(u64, f64)>,
    /// What each build says of the sizes that showed nothing clearly.
    unclear: Vec<Vec<f64>>,
    /// How many of the smallest writes lie between two erasures.
    distance: Option<usize>,
    /// How long one took, in nanoseconds.
    stall_ns: Option<f64>,
}

impl BuildBelief {
    /// Begins with what is believed of units, and with what the times of sizes said of write units.
    /// Where the device `merges`, what is erased is a log for small writes, of whole units.
    pub fn new(
        belief: &GeometryBelief,
        write_units: &[(u64, f64)],
        window: &Range<u64>,
        merges: bool,
    ) -> Self {
        let supposed = build::all(belief, write_units, merges);
        let builds: Vec<UnitBuild> = supposed.iter().map(|one| one.build).collect();
        let priors = supposed.iter().map(|one| one.prior).collect();
        let untimed = supposed.iter().map(|one| one.untimed).collect();
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

    /// Writes the smallest size until erasures show; whether they did.
    pub fn first_run(
        &mut self,
        meter: &mut Meter<'_>,
        most: usize,
    ) -> Result<bool, MeasurementStop> {
        self.run(meter, LEAST_WRITE, most)?;
        Ok(self.shown)
    }

    /// Whether erasures showed.
    pub fn has_shown(&self) -> bool {
        self.shown
    }

    /// Writes other sizes until the unit is clear.
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
    /// Where no third tells plainly, one that fills one and a half of the supposed write units
    /// takes up two of them, or is counted in bytes and shows it; of the smallest ones three.
    fn try_the_write_unit(&mut self, meter: &mut Meter<'_>) -> Result<(), MeasurementStop> {
        let Some(best) = self.best().filter(|_| self.seen.len() > 1) else { return Ok(()) };
        let build = self.builds[best];
        let is_plain = |size: u64| build.distance(size) == build.whole_distance(size);
        if self.seen.iter().filter(|(size, _)| is_plain(*size)).count() > 2 {
            return Ok(());
        }
        let half_more = build.write_unit / 2 * 3;
        // Of whole sectors, whatever sectors there are.
        let is_whole = half_more % LEAST_WRITE == 0;
        let write_bytes = if is_whole { half_more } else { 3 * build.write_unit };
        let writes = (TRIED * build.whole_distance(write_bytes)) as usize;
        let writes = writes.max(4 * FIRST_LOOK);
        let is_affordable = writes as u64 * write_bytes <= meter.left_bytes() / SHARE_OF_REST;
        if self.tried.contains(&write_bytes)
            || write_bytes > STRIDE / 2
            || writes > MOST_WRITES
            || !is_affordable
        {
            return Ok(());
        }
        self.tried.push(write_bytes);
        self.run(meter, write_bytes, writes)
    }

    /// The likeliest build.
    fn best(&self) -> Option<usize> {
        let weight = |at: &usize| self.logs[*at] + self.priors[*at];
        (0..self.builds.len()).max_by(|a, b| weight(a).total_cmp(&weight(b)))
    }

    /// Writes a few places, in large requests, so many bytes in all.
    pub fn use_up(&self, meter: &mut Meter<'_>, bytes: u64) -> Result<(), MeasurementStop> {
        for number in 0..bytes / STRIDE {
            let at = self.area.start + number % PLACES * STRIDE;
            meter.write(SamplePurpose::WriteLinear, at, STRIDE)?;
        }
        Ok(())
    }

    /// Erasures did not show from the beginning: the device was new, and a fast area in front that
    /// `seen_writes` of the smallest writes would have shown was not there.
    pub fn began_late(&mut self, seen_writes: usize) {
        if self.distance.is_some_and(|held| LEAST_SEEN * held as f64 <= seen_writes as f64) {
            self.learn_bits(|bits| if bits > 1 { -FOLDED } else { 0.0 });
        }
    }

    /// Looks whether units with one bit a cell are folded, and if so how many bits the others have,
    /// as far as that leaves the unit open.
    pub fn look_for_folding(
        &mut self,
        meter: &mut Meter<'_>,
        window: &Range<u64>,
    ) -> Result<(), MeasurementStop> {
        let Some(held) = self.distance.filter(|_| self.likeliest_unit().1 < ENOUGH) else {
            return Ok(());
        };
        let units = SingleBitUnits { held, write_unit: self.told().write_unit.0 };
        let places: Vec<u64> = (0..PLACES).map(|at| self.area.start + at * STRIDE).collect();
        let folds = folding::shows(meter, units, &places, window)?;
        if let Some(folds) = folds {
            self.learn_bits(|bits| if (bits > 1) == folds { 0.0 } else { -FOLDED });
        }
        if folds != Some(false) && self.likeliest_unit().1 < SURE {
            if let Some(logs) = folding::bits(meter, units, window, folds.is_some())? {
                let best = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                self.learn_bits(|bits| {
                    logs.get((bits as usize).wrapping_sub(2)).map_or(-FOLDED, |log| log - best)
                });
            }
        }
        Ok(())
    }

    /// Whether what stalls is what stalled before: a log for small writes is collected in another
    /// time than what larger ones wait for.
    fn is_the_same(&mut self, stall_ns: Option<f64>) -> bool {
        let before = self.stall_ns;
        self.stall_ns = before.or(stall_ns);
        let Some((before, now)) = before.zip(stall_ns) else { return true };
        now < LONGER * before.max(LEAST_STALL_NS) && before < SHORTER * now.max(CLEAR_STALL_NS)
    }

    fn learn_bits(&mut self, log: impl Fn(u64) -> f64) {
        for (build, sum) in self.builds.iter().zip(&mut self.logs) {
            *sum += log(build.bits);
        }
    }

    /// Writes one size until what it can tell is clear.
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
                    // One that hardly stalls at the supposed distance may stall at another.
                    let hardly = stall_ns.zip(self.stall_ns).is_some_and(|(now, held)| now < held);
                    self.unclear.extend(hardly.then(|| found.logs.clone()));
                    return Ok(());
                }
                for (log, add) in self.logs.iter_mut().zip(&found.logs) {
                    *log += add;
                }
                self.shown = true;
                self.seen.push((write_bytes, found.whole_distance));
                if write_bytes == LEAST_WRITE {
                    self.distance = Some(found.distance as usize);
                }
                return Ok(());
            }
            if ends {
                // Before the first erasure there is nothing to see.
                self.unclear.extend(found.filter(|_| self.shown).map(|found| found.logs));
                return Ok(());
            }
            agreed = distance;
        }
    }

    /// What the last of the times say of each build; erasures may have begun only lately.
    fn look(&self, times: &[f32], write_bytes: u64) -> Option<Look> {
        let mut best: Option<Look> = None;
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

    fn look_at(&self, times: &[f32], write_bytes: u64) -> Look {
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
                // What cannot be seen for lack of marks is as likely as nothing.
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
        Look { gain: logs[best], distance, whole_distance, share, logs }
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

    /// The size whose distance tells most, and how many writes it takes to see it.
    fn next_size(&self, left_bytes: u64) -> Option<(u64, usize)> {
        let weights: Vec<f64> = self.logs.iter().zip(&self.priors).map(|(a, b)| a + b).collect();
        let total = log_sum_exp(weights.iter().copied());
        let mut best: Option<(f64, u64, usize)> = None;
        let sizes = EXPONENTS.flat_map(|exponent| ODD_SIZES.map(|odd| odd << exponent));
        let sizes = sizes.filter(|size| !self.tried.contains(size));
        for size in sizes.filter(|size| *size > LEAST_WRITE && *size <= STRIDE / 2) {
            let mut shares: Vec<(f64, f64)> = Vec::new();
            let mut too_close = 0.0;
            for (build, weight) in self.builds.iter().zip(&weights) {
                let probability = (weight - total).exp();
                if probability < 1e-6 {
                    continue;
                }
                let distance = build.whole_distance(size);
                if build.distance(size) < LEAST_DISTANCE {
                    too_close += probability;
                }
                match shares.iter_mut().find(|(other, _)| *other == distance) {
                    Some((_, share)) => *share += probability,
                    None => shares.push((distance, probability)),
                }
            }
            let told: f64 = shares.iter().map(|(_, share)| -share * share.ln()).sum();
            let farthest = shares.iter().map(|(distance, _)| *distance).fold(0.0, f64::max);
            let needed = ((farthest * TRIED) as usize).clamp(4 * FIRST_LOOK, MOST_WRITES);
            let may = usize::try_from(left_bytes / SHARE_OF_REST / size).unwrap_or(MOST_WRITES);
            let needed = needed.min(may);
            if (needed as f64) < LEAST_SEEN * farthest {
                continue;
            }
            // Of sizes that tell as much, the smallest shows erasures best.
            if told > 1e-4
                && too_close < 1e-3
                && best.is_none_or(|(other, _, _)| told > 1.15 * other)
            {
                best = Some((told, size, needed));
            }
        }
        best.map(|(_, size, needed)| (size, needed))
    }

    /// Whether the likeliest build explains what every size showed. Where none does, what stalls is
    /// something else, or not the same for all sizes. A single size tells nothing of write units,
    /// so that it has to agree with the times of sizes.
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

    /// How many write units an erase block has, as the smallest writes showed it.
    pub fn told(&self) -> Erasures {
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
        // How likely a unit is beforehand the belief knows; how it is built, given it, counts here.
        let gains = gains.into_iter().map(|(unit, gain, of_unit)| (unit, gain - of_unit)).collect();
        Erasures { gains, write_unit: best.expect("there are builds") }
    }
}

/// What was seen at one look.
struct Look {
    /// The log-evidence against nothing of the likeliest distance.
    gain: f64,
    distance: f64,
    whole_distance: f64,
    /// How likely that whole distance is among all.
    share: f64,
    logs: Vec<f64>,
}
