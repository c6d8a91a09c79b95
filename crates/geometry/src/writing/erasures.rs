//! The erase unit of a page-mapped layer, told by the erasures that writing needs.
//!
//! Such a layer appends whatever is written to one unit after the other and has to erase one for
//! each that it fills, once it has no fresh ones left. So one write in so many takes longer,
//! wherever they go. How many depends on how much of a unit each write takes up: whole write units,
//! however little of them is written. Writes of the smallest size show how many write units an
//! erase unit has; larger ones, chosen so that what is not known yet shows, how large those are.
//! All writes go to a few places, in a mixed order: then what is collected holds nothing worth
//! copying, all of the map that is needed is in memory, and nothing that depends on addresses can
//! look regular. A log for small writes that is collected a unit at a time shows in the same way.
//! Limits: a card that was never full erases nothing until its spare units are used up, so more
//! than its capacity must be written first; erasures in idle time do not show.

use std::ops::Range;

use super::meter::{Meter, Stop};
use super::period::Classes;
use crate::belief::{ANSWERS, Belief, Structure, log_sum_exp, median};
use crate::probed::Purpose;

/// The smallest write.
const LEAST_WRITE: u64 = 4096;
/// The sizes that write units may have: 2^k and 3 x 2^k.
const EXPONENTS: Range<u32> = 12..20;
/// How likely a write unit of 3 x 2^k is against one of 2^k.
const THREEFOLD: f64 = 0.3;
/// A unit has at least so many write units.
const LEAST_WRITE_UNITS: u64 = 16;
/// A multiple of all of these sizes, so that no write reaches into more write units than it must.
const STRIDE: u64 = 768 << 10;
/// How likely it is that writes go to units with one bit a cell first, by the bits that the cells
/// have; 1 stands for no such units.
const BITS: [f64; 4] = [0.85, 0.05, 0.07, 0.03];
/// Folding is seen over so many distances; before that so many must pass for every unit with one
/// bit a cell to hold what was written in order.
const SEEN_DISTANCES: usize = 8;
const PASSED_DISTANCES: usize = 18;
/// How much longer than erasing alone folding takes at least, and how sure the difference is.
const FOLDING: f64 = 4.0;
const FOLDED: f64 = 12.0;
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
/// How many sizes are tried.
const RUNS: usize = 7;

/// What an erase unit may be made of.
#[derive(Debug, Clone, Copy)]
struct Build {
    unit: u64,
    write_unit: u64,
    /// Bits of a cell, where writes go to units with one bit a cell first, which hold less.
    bits: u64,
}

impl Build {
    /// How many writes of a size fill the unit.
    fn distance(self, write_bytes: u64) -> f64 {
        let held = self.unit / self.write_unit / self.bits;
        held as f64 / write_bytes.div_ceil(self.write_unit) as f64
    }
}

/// What the times of writes say.
#[derive(Debug, Clone)]
pub struct Erasures {
    /// For each size of an erase unit, its log-evidence against nothing.
    pub gains: Vec<(u64, f64)>,
    /// The likeliest size of the write unit, and how likely it is.
    pub write_unit: (u64, f64),
}

/// The posterior over builds, and the writes it comes from.
pub struct Watching {
    builds: Vec<Build>,
    /// Unnormalized log-probabilities; the priors are in `priors`.
    logs: Vec<f64>,
    priors: Vec<f64>,
    /// The log-evidence of no distance at all.
    nothing: f64,
    area: Range<u64>,
    shown: bool,
    /// How many of the smallest writes lie between two erasures.
    distance: Option<usize>,
}

impl Watching {
    /// Begins with what is believed of units, and with what the times of sizes said of write units.
    pub fn new(belief: &Belief, write_units: &[(u64, f64)], window: &Range<u64>) -> Self {
        let units = belief.candidates().filter_map(Structure::bytes);
        let units: Vec<u64> = units.filter(|unit| ANSWERS.contains(unit)).collect();
        let mut builds = Vec::new();
        let mut priors = Vec::new();
        for exponent in EXPONENTS {
            for (write_unit, prior) in [(1 << exponent, 1.0), (3 << exponent, THREEFOLD)] {
                let timed = write_units.iter().find(|(size, _)| *size == write_unit);
                let timed = 0.05 + timed.map_or(0.0, |(_, probability)| *probability);
                for &unit in &units {
                    if unit % write_unit != 0 || unit / write_unit < LEAST_WRITE_UNITS {
                        continue;
                    }
                    for (bits, share) in (1..).zip(BITS) {
                        builds.push(Build { unit, write_unit, bits });
                        let of_unit = belief.probability(Structure::Unit(unit)).max(1e-12);
                        priors.push((prior * timed * of_unit * share).ln());
                    }
                }
            }
        }
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
            nothing: 0.0,
            area: start..start + length,
            shown: false,
            distance: None,
        }
    }

    /// Writes the smallest size until erasures show; whether they did.
    pub fn first_run(&mut self, meter: &mut Meter<'_>, most: usize) -> Result<bool, Stop> {
        self.run(meter, LEAST_WRITE, most)?;
        Ok(self.shown)
    }

    /// Writes other sizes until the unit is clear.
    pub fn further_runs(&mut self, meter: &mut Meter<'_>) -> Result<(), Stop> {
        for _ in 0..RUNS {
            if self.likeliest_unit().1 > ENOUGH {
                break;
            }
            let Some((write_bytes, most)) = self.next_size() else { break };
            self.run(meter, write_bytes, most)?;
        }
        Ok(())
    }

    /// Writes a few places, in large requests, so many bytes in all.
    pub fn use_up(&self, meter: &mut Meter<'_>, bytes: u64) -> Result<(), Stop> {
        for number in 0..bytes / STRIDE {
            let at = self.area.start + number % PLACES * STRIDE;
            meter.write(Purpose::WriteLinear, at, STRIDE)?;
        }
        Ok(())
    }

    /// Writes in order, a write unit at a time, and looks whether what stalled before takes much
    /// longer now: what was written in order is still needed when a unit with one bit a cell is
    /// full, and is copied (folded).
    pub fn look_for_folding(
        &mut self,
        meter: &mut Meter<'_>,
        window: &Range<u64>,
    ) -> Result<(), Stop> {
        let Some(distance) = self.distance else { return Ok(()) };
        let write_bytes = self.told().write_unit.0;
        let most = (SEEN_DISTANCES + PASSED_DISTANCES) * distance;
        if most > MOST_WRITES {
            return Ok(());
        }
        let mut times = Vec::new();
        for number in 0..(SEEN_DISTANCES * distance) as u64 {
            let at = self.area.start + number % PLACES * STRIDE;
            times.push(meter.write(Purpose::WriteLinear, at, write_bytes)? as f32);
        }
        let Some(stall_ns) = stall(&times, distance) else { return Ok(()) };
        let first = window.start.next_multiple_of(write_bytes);
        let room = (window.end - first) / write_bytes;
        let mut times = Vec::new();
        for number in 0..most as u64 {
            let at = first + number % room * write_bytes;
            times.push(meter.write(Purpose::WriteLinear, at, write_bytes)? as f32);
        }
        let Some(in_order_ns) = stall(&times, distance) else { return Ok(()) };
        let folds = in_order_ns > FOLDING * stall_ns;
        for (build, log) in self.builds.iter().zip(&mut self.logs) {
            if (build.bits > 1) != folds {
                *log -= FOLDED;
            }
        }
        Ok(())
    }

    /// Writes one size until what it can tell is clear.
    fn run(&mut self, meter: &mut Meter<'_>, write_bytes: u64, most: usize) -> Result<(), Stop> {
        let mut order: Vec<u64> = (0..PLACES).collect();
        let mut times: Vec<f32> = Vec::new();
        let mut look = FIRST_LOOK;
        let mut agreed: Option<u64> = None;
        loop {
            meter.random.shuffle(&mut order);
            for place in &order {
                let at = self.area.start + place * STRIDE;
                times.push(meter.write(Purpose::WriteRandom, at, write_bytes)? as f32);
            }
            let ends = times.len() >= most;
            if times.len() < look && !ends {
                continue;
            }
            look = (times.len() as f64 * LOOKS) as usize;
            let found = self.look(&times, write_bytes);
            let clear = found.as_ref().filter(|found| found.gain > CLEAR && found.share > ENOUGH);
            let distance = clear.map(|found| found.distance.to_bits());
            if let Some(found) = clear.filter(|_| ends || distance == agreed) {
                for (log, add) in self.logs.iter_mut().zip(&found.logs) {
                    *log += add;
                }
                self.shown = true;
                if write_bytes == LEAST_WRITE {
                    self.distance = Some(found.distance as usize);
                }
                return Ok(());
            }
            if ends {
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
        let classes = Classes::of(times);
        let nothing = classes.log_nothing();
        let mut known: Vec<(f64, f64)> = Vec::new();
        let logs: Vec<f64> = self
            .builds
            .iter()
            .map(|build| {
                let distance = build.distance(write_bytes);
                if let Some((_, log)) = known.iter().find(|(other, _)| *other == distance) {
                    return *log;
                }
                // What cannot be seen for lack of marks is as likely as nothing.
                let log = classes.log_of(distance).map_or(0.0, |log| log - nothing);
                known.push((distance, log));
                log
            })
            .collect();
        let weight = |at: usize| self.logs[at] + self.priors[at] + logs[at];
        let total = log_sum_exp((0..logs.len()).map(weight));
        let best = (0..logs.len()).max_by(|&a, &b| weight(a).total_cmp(&weight(b)));
        let best = best.expect("there are builds");
        let distance = self.builds[best].distance(write_bytes);
        let alike = (0..logs.len()).filter(|&at| self.builds[at].distance(write_bytes) == distance);
        let share = alike.map(|at| (weight(at) - total).exp()).sum();
        Look { gain: logs[best], distance, share, logs }
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
    fn next_size(&self) -> Option<(u64, usize)> {
        let weights: Vec<f64> = self.logs.iter().zip(&self.priors).map(|(a, b)| a + b).collect();
        let total = log_sum_exp(weights.iter().copied());
        let mut best: Option<(f64, u64, usize)> = None;
        let sizes = EXPONENTS.flat_map(|exponent| [1_u64 << exponent, 3 << exponent]);
        for size in sizes.filter(|size| *size > LEAST_WRITE && *size <= STRIDE / 2) {
            let mut shares: Vec<(f64, f64)> = Vec::new();
            let mut too_close = 0.0;
            for (build, weight) in self.builds.iter().zip(&weights) {
                let probability = (weight - total).exp();
                if probability < 1e-6 {
                    continue;
                }
                let distance = build.distance(size);
                if distance < LEAST_DISTANCE {
                    too_close += probability;
                }
                match shares.iter_mut().find(|(other, _)| *other == distance) {
                    Some((_, share)) => *share += probability,
                    None => shares.push((distance, probability)),
                }
            }
            let told: f64 = shares.iter().map(|(_, share)| -share * share.ln()).sum();
            let farthest = shares.iter().map(|(distance, _)| *distance).fold(0.0, f64::max);
            let needed = ((farthest * 40.0) as usize).clamp(4 * FIRST_LOOK, MOST_WRITES);
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

    /// How many write units an erase unit has, as the smallest writes showed it.
    pub fn told(&self) -> Erasures {
        let mut gains: Vec<(u64, f64)> = Vec::new();
        let mut write_units: Vec<(u64, f64)> = Vec::new();
        let total = log_sum_exp(self.logs.iter().zip(&self.priors).map(|(a, b)| a + b));
        for ((build, log), prior) in self.builds.iter().zip(&self.logs).zip(&self.priors) {
            match gains.iter_mut().find(|(unit, _)| *unit == build.unit) {
                Some((_, gain)) => *gain = log_sum_exp([*gain, *log].into_iter()),
                None => gains.push((build.unit, *log)),
            }
            let probability = (log + prior - total).exp();
            match write_units.iter_mut().find(|(size, _)| *size == build.write_unit) {
                Some((_, sum)) => *sum += probability,
                None => write_units.push((build.write_unit, probability)),
            }
        }
        let best = write_units.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        for (_, gain) in &mut gains {
            *gain -= self.nothing;
        }
        Erasures { gains, write_unit: best.expect("there are builds") }
    }
}

/// How much longer than the others the slowest place of a distance takes, over the last of the
/// times; the median of each place, so that rare stalls elsewhere do not count.
fn stall(times: &[f32], distance: usize) -> Option<f64> {
    let seen = SEEN_DISTANCES * distance;
    let last = times.get(times.len().checked_sub(seen)?..)?;
    let all: Vec<f64> = last.iter().map(|time| f64::from(*time)).collect();
    let places = (0..distance).map(|place| {
        let of_place: Vec<f64> = all.iter().skip(place).step_by(distance).copied().collect();
        median(&of_place)
    });
    let slowest = places.fold(0.0, f64::max);
    Some((slowest - median(&all)).max(1.0))
}

/// What was seen at one look.
struct Look {
    /// The log-evidence against nothing of the likeliest distance.
    gain: f64,
    distance: f64,
    /// How likely that distance is among all.
    share: f64,
    logs: Vec<f64>,
}
