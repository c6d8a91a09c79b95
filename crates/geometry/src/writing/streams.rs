//! Checks whether erase blocks consist of smaller parts that are mapped separately.
//!
//! Some layers map and merge parts of an erase block, and [`super::boundaries`] finds the part.
//! Such a layer still writes one part of each unit at a time: two parts written in turn are merged
//! repeatedly if they are in the same unit, and not if they are in different ones. Pairs of parts
//! at different distances therefore reveal which parts form a unit. This requires that random
//! writes to a part are visibly slow and that writes to two distant parts are not. A layer with
//! parts appends writes to a log, so a device on which two distant parts cause merges is unlikely
//! to have any ([`StreamAnswer::EveryPairMerges`]). Limits: no result if parts are hardly larger
//! than the writes that go to a log for small writes.

use std::ops::Range;

use super::boundaries::MIN_STRETCH;
use super::layout::UnitLayout;
use super::meter::{MeasurementStop, Meter};
use crate::belief::{ANSWERS, log_sum_exp, median};
use crate::probed::SamplePurpose;

/// Rounds of writes to both parts of a pair, if the parts are large enough.
const TURNS: u64 = 4;
/// The largest write to a large part.
const MAX_WRITE: u64 = 384 << 10;
/// Ratio of distant to sequential writes that indicates a single open erase block.
const MERGED: f64 = 3.2;
/// Number of distant pairs and random writes for the controls.
const CONTROLS: usize = 5;
/// Smallest ratio of random writes to a part and writes to two distant parts.
const SHOWS: f64 = 1.2;
/// Hypotheses for the extra log time of a pair within one unit.
const LEVELS: [f64; 11] = [0.12, 0.18, 0.27, 0.4, 0.6, 0.9, 1.3, 1.8, 2.4, 3.0, 3.7];
/// Hypotheses for the log deviation of the distant control pairs from the typical time.
const CENTERS: [f64; 5] = [-0.1, -0.05, 0.0, 0.05, 0.1];
/// Hypotheses for the spread of log times.
const SPREADS: [f64; 4] = [0.03, 0.06, 0.12, 0.25];
/// The most pairs to test.
const QUERIES: usize = 40;
/// Numbers of parts per unit considered.
const PARTS: [u64; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];
/// Share of pairs whose time is unrelated to their position.
const OUTLIER: f64 = 0.08;
/// Log range of such times.
const BREADTH: f64 = 4.0;
/// Prior probability that a part is a whole unit.
const NO_PARTS: f64 = 0.6;
/// The posterior at which the test ends.
const ENOUGH: f64 = 0.9995;

/// The posterior of the number of parts.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamParts {
    /// Numbers of parts per unit with probabilities.
    pub probabilities: Vec<(u64, f64)>,
}

impl StreamParts {
    /// The most likely number with its probability.
    pub fn likeliest(&self) -> (u64, f64) {
        let best = self.probabilities.iter().max_by(|one, other| one.1.total_cmp(&other.1));
        *best.expect("there are numbers")
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum StreamAnswer {
    /// The number of parts per unit.
    Found(StreamParts),
    /// Every pair causes merges, as with a single open unit.
    EveryPairMerges,
    Untold,
}

/// Tests which parts are in the same unit.
pub fn parts(
    meter: &mut Meter<'_>,
    window: &Range<u64>,
    part: UnitLayout,
    ns_per_byte: f64,
) -> Result<StreamAnswer, MeasurementStop> {
    let room = window.end - window.start;
    let first = (window.start - part.offset).div_ceil(part.unit);
    let last = (window.end - part.offset) / part.unit;
    if last < first + 8 {
        return Ok(StreamAnswer::Untold);
    }
    let write_bytes = write_bytes(part.unit);
    let turns = TURNS.min(part.unit / write_bytes);
    let ground = PartLayout { part, numbers: first..last, write_bytes, turns };
    let controls = match ground.controls(meter, ns_per_byte)? {
        PairOutcome::Yes(controls) => controls,
        PairOutcome::EveryPairMerges => {
            return Ok(ground.one_unit().unwrap_or(StreamAnswer::EveryPairMerges));
        }
        PairOutcome::No => return Ok(StreamAnswer::Untold),
    };
    let apart_ns = controls.apart_ns();
    // Also units that hardly fit into the window, or smaller ones would explain pairs as well.
    let most = (room / part.unit).max(1);
    let hypotheses: Vec<(u64, u64)> = PARTS
        .into_iter()
        .filter(|parts| *parts <= most)
        .flat_map(|parts| (0..parts).map(move |shift| (parts, shift)))
        .collect();
    let several = PARTS.iter().filter(|parts| **parts <= most && **parts > 1).count().max(1) as f64;
    let priors: Vec<f64> = hypotheses
        .iter()
        .map(|&(parts, shift)| match (parts, shift) {
            (1, _) => NO_PARTS,
            (_, 0) => (1.0 - NO_PARTS) * 0.95 / several,
            (parts, _) => (1.0 - NO_PARTS) * 0.05 / several / (parts - 1) as f64,
        })
        .collect();
    let mut likely = Likely::new(hypotheses.len());
    for &(time_ns, (one, other)) in &controls.far {
        likely.update((time_ns / apart_ns).ln(), |at| same(hypotheses[at], one, other));
    }
    for time_ns in &controls.same_ns {
        likely.update((time_ns / apart_ns).ln(), |_| true);
    }
    let mut weights = priors.clone();
    for queries in 0..QUERIES {
        if queries >= 6 && summed(&hypotheses, &weights).likeliest().1 > ENOUGH {
            break;
        }
        let Some((one, other)) = next_pair(meter, &hypotheses, &weights, &ground.numbers) else {
            break;
        };
        let excess = (ground.pair(meter, one, other)? / apart_ns).ln();
        likely.update(excess, |at| same(hypotheses[at], one, other));
        weights = likely.weights(&priors);
    }
    Ok(StreamAnswer::Found(summed(&hypotheses, &weights)))
}

/// Log-likelihoods of the pair times by hypothesis, level, center and spread.
struct Likely {
    logs: Vec<f64>,
}

impl Likely {
    const SUPPOSED: usize = LEVELS.len() * SPREADS.len() * CENTERS.len();

    fn new(hypotheses: usize) -> Self {
        Self { logs: vec![0.0; hypotheses * Self::SUPPOSED] }
    }

    /// Adds the log ratio of a pair's time to that of distant pairs.
    fn update(&mut self, excess: f64, together: impl Fn(usize) -> bool) {
        let log = |level: f64, spread: f64| {
            let deviation = (excess - level) / spread;
            let peak = (-0.5 * deviation * deviation).exp() / spread / std::f64::consts::TAU.sqrt();
            ((1.0 - OUTLIER) * peak + OUTLIER / BREADTH).ln()
        };
        let of = |together: bool| -> Vec<f64> {
            let levels = LEVELS.iter().map(|level| if together { *level } else { 0.0 });
            let expected = levels.flat_map(|level| CENTERS.map(|center| level + center));
            expected.flat_map(|expected| SPREADS.map(|spread| log(expected, spread))).collect()
        };
        let (apart, same) = (of(false), of(true));
        for (at, logs) in self.logs.chunks_exact_mut(Self::SUPPOSED).enumerate() {
            for (log, add) in logs.iter_mut().zip(if together(at) { &same } else { &apart }) {
                *log += add;
            }
        }
    }

    /// The posterior of each hypothesis, averaged over levels, centers and spreads.
    fn weights(&self, priors: &[f64]) -> Vec<f64> {
        let evidence = self.logs.chunks_exact(Self::SUPPOSED);
        let logs: Vec<f64> = evidence
            .zip(priors)
            .map(|(logs, prior)| log_sum_exp(logs.iter().copied()) + prior.ln())
            .collect();
        let total = log_sum_exp(logs.iter().copied());
        logs.iter().map(|log| (log - total).exp()).collect()
    }
}

/// A write size above that of a log for small writes, if the part allows it. A quarter of a part
/// consists of whole write units; for a large part, a smaller size does too.
fn write_bytes(part: u64) -> u64 {
    let mut bytes = part / 4;
    if bytes < MIN_STRETCH {
        return part / 2;
    }
    while bytes % 2 == 0 && bytes > MAX_WRITE {
        bytes /= 2;
    }
    bytes
}

struct PartLayout {
    part: UnitLayout,
    numbers: Range<u64>,
    write_bytes: u64,
    turns: u64,
}

/// Control times, in nanoseconds.
struct Controls {
    /// Writes to two distant parts in turn, and which parts these are.
    far: Vec<(f64, (u64, u64))>,
    /// Random writes to one part.
    same_ns: Vec<f64>,
}

impl Controls {
    /// The typical time of writes to two distant parts.
    fn apart_ns(&self) -> f64 {
        median(&self.far.iter().map(|(time_ns, _)| *time_ns).collect::<Vec<_>>())
    }
}

/// Whether pairs are informative.
enum PairOutcome {
    Yes(Controls),
    EveryPairMerges,
    No,
}

impl PartLayout {
    fn at(&self, number: u64) -> u64 {
        self.part.offset + number * self.part.unit
    }

    /// The answer if every pair causes merges: the part is a unit, or all pairs may be in one unit,
    /// because the window is hardly larger. `None` if they are too far apart for that.
    fn one_unit(&self) -> Option<StreamAnswer> {
        let apart = self.apart();
        if apart * self.part.unit >= *ANSWERS.end() {
            return None;
        }
        let may_be = |parts: u64| parts == 1 || parts > apart;
        let priors = PARTS.into_iter().filter(|parts| may_be(*parts)).map(|of| (of, prior(of)));
        let total: f64 = priors.clone().map(|(_, prior)| prior).sum();
        let probabilities = priors.map(|(parts, prior)| (parts, prior / total)).collect();
        Some(StreamAnswer::Found(StreamParts { probabilities }))
    }

    /// The least distance of the distant parts, in parts.
    fn apart(&self) -> u64 {
        (self.numbers.end - self.numbers.start) / 3
    }

    /// Measures the controls, which decide whether pairs are informative.
    fn controls(
        &self,
        meter: &mut Meter<'_>,
        ns_per_byte: f64,
    ) -> Result<PairOutcome, MeasurementStop> {
        let (first, last) = (self.numbers.start, self.numbers.end);
        let third = self.apart();
        let mut controls = Controls { far: Vec::new(), same_ns: Vec::new() };
        for _ in 0..CONTROLS {
            let one = first + meter.random.below(third);
            let other = last - 1 - meter.random.below(third);
            controls.far.push((self.pair(meter, one, other)?, (one, other)));
        }
        let apart_ns = controls.apart_ns();
        if apart_ns > MERGED * ns_per_byte * self.write_bytes as f64 {
            return Ok(PairOutcome::EveryPairMerges);
        }
        for _ in 0..CONTROLS {
            let number = first + third + meter.random.below(third);
            controls.same_ns.push(self.out_of_order(meter, number)?);
        }
        let longer = controls.same_ns.iter().filter(|time_ns| **time_ns > 1.1 * apart_ns).count();
        let tells = median(&controls.same_ns) > SHOWS * apart_ns && longer + 1 >= CONTROLS;
        Ok(if tells { PairOutcome::Yes(controls) } else { PairOutcome::No })
    }

    /// Writes two parts in turn, each sequentially; returns the typical time of a write after the
    /// first round.
    fn pair(&self, meter: &mut Meter<'_>, one: u64, other: u64) -> Result<f64, MeasurementStop> {
        let mut times = Vec::new();
        for turn in 0..self.turns {
            for number in [one, other] {
                let at = self.at(number) + turn * self.write_bytes;
                let time_ns = meter.write(SamplePurpose::WriteLinear, at, self.write_bytes)?;
                if turn > 0 {
                    times.push(time_ns);
                }
            }
        }
        Ok(median(&times))
    }

    /// Rewrites the start of a part repeatedly; returns a low quantile of the times after the
    /// first, since a log is merged occasionally.
    fn out_of_order(&self, meter: &mut Meter<'_>, number: u64) -> Result<f64, MeasurementStop> {
        let mut times = Vec::new();
        for turn in 0..=TURNS {
            let at = self.at(number);
            let time_ns = meter.write(SamplePurpose::WriteRandom, at, self.write_bytes)?;
            if turn > 0 {
                times.push(time_ns);
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 4])
    }
}

/// The prior weight of a number of parts.
pub fn prior(parts: u64) -> f64 {
    match parts {
        1 => NO_PARTS,
        parts if PARTS.contains(&parts) => (1.0 - NO_PARTS) / (PARTS.len() - 1) as f64,
        _ => 0.0,
    }
}

fn same((parts, shift): (u64, u64), one: u64, other: u64) -> bool {
    (one + parts - shift) / parts == (other + parts - shift) / parts
}

fn summed(hypotheses: &[(u64, u64)], weights: &[f64]) -> StreamParts {
    let total: f64 = weights.iter().sum();
    let probabilities = PARTS
        .into_iter()
        .map(|parts| {
            let of = hypotheses.iter().zip(weights).filter(|((number, _), _)| *number == parts);
            (parts, of.map(|(_, weight)| weight).sum::<f64>() / total)
        })
        .filter(|&(_, probability)| probability > 0.0)
        .collect();
    StreamParts { probabilities }
}

/// The random pair with the least certain answer.
fn next_pair(
    meter: &mut Meter<'_>,
    hypotheses: &[(u64, u64)],
    weights: &[f64],
    numbers: &Range<u64>,
) -> Option<(u64, u64)> {
    let total: f64 = weights.iter().sum();
    let mut best: Option<(f64, (u64, u64))> = None;
    for _ in 0..32 {
        let distances = [1, 1, 2, 3, 4, 8, 16, 32, 64];
        let drawn = usize::try_from(meter.random.below(9)).expect("it is small");
        let distance = distances[drawn];
        if distance + 1 >= numbers.end - numbers.start {
            continue;
        }
        let one = numbers.start + meter.random.below(numbers.end - numbers.start - distance);
        let pair = (one, one + distance);
        let of = hypotheses.iter().zip(weights).filter(|(h, _)| same(**h, pair.0, pair.1));
        let share = of.map(|(_, weight)| weight).sum::<f64>() / total;
        let score = share.min(1.0 - share);
        if best.is_none_or(|(other, _)| score > other) {
            best = Some((score, pair));
        }
    }
    best.map(|(_, pair)| pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The posterior after pairs at distance 1, whose times are longer by `factor` within a unit.
    fn after_pairs(parts: u64, factor: f64) -> StreamParts {
        let hypotheses: Vec<(u64, u64)> = PARTS.map(|parts| (parts, 0)).to_vec();
        let priors = vec![1.0 / PARTS.len() as f64; PARTS.len()];
        let mut likely = Likely::new(hypotheses.len());
        for wobble in [0.98, 1.0, 1.03] {
            likely.update(f64::ln(wobble), |_| false);
        }
        for (one, wobble) in (0..24).zip([0.97, 1.01, 1.0, 1.04].into_iter().cycle()) {
            let together = same((parts, 0), one, one + 1);
            let time = if together { factor * wobble } else { wobble };
            likely.update(f64::ln(time), |at| same(hypotheses[at], one, one + 1));
        }
        summed(&hypotheses, &likely.weights(&priors))
    }

    #[test]
    fn a_small_difference_suffices_if_times_vary_little() {
        for (parts, factor) in [(1, 1.0), (2, 1.2), (4, 1.7), (8, 5.0)] {
            let (likeliest, probability) = after_pairs(parts, factor).likeliest();
            assert!(likeliest == parts && probability > 0.95, "{parts} {likeliest} {probability}");
        }
    }
}
