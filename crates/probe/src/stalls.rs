//! Stalls: requests that take longer at random, always by about the same time, whatever they do.
//!
//! A measurement of a hundred requests has a few stalls or many, and a model of the device would
//! take the difference for copies or a log. So the time of stalls is spread evenly over all
//! requests, or over those of a kind if kinds differ; the sum stays. They are known by reads, which
//! no merge of the simulated cards makes wait.
//! Limits: tried on simulated cards only; a device that collects garbage while it is read can look
//! alike. Stalls of many lengths are not seen, and neither are those that few reads have; those of
//! requests that take longer than a stall stay where they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::recorded::{TimedRequest, TimedRequestKind};

/// A request of a few that are compared needs so many like it.
const LEAST_ALIKE: usize = 8;
/// Fewer stalls of reads do not show how long they are.
const LEAST_SEEN: usize = 5;
/// A read that takes so many times the usual is long.
const LONG: u64 = 3;
/// Looking a place up, or correcting what was read, takes less.
const LEAST_STALL_NS: u64 = 2_000_000;
/// Of so many reads, at most one is long.
const LEAST_EVERY: usize = 10;
/// Of long reads, the middle 60 % differ by at most this part of their median.
const LONGEST_SPREAD: f64 = 0.3;
/// By how much a stalled request may differ, in parts of the usual time and of the stall.
const TIME_TOLERANCE: f64 = 0.35;
const STALL_TOLERANCE: f64 = 0.15;
/// A measurement with more of them than chance gives in so many standard deviations has other long
/// requests.
const MOST_DEVIATIONS: f64 = 3.0;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// How much longer a stalled request takes.
    pub stall_ns: u64,
    /// On average one of so many reads has it.
    pub every: u64,
    /// For each measurement, what it would have taken more or less without chance.
    pub difference_ns: Vec<i64>,
}

/// What is compared: a kind of requests, and their size to a factor of two.
type Class = (TimedRequestKind, u32);

type Counts = BTreeMap<TimedRequestKind, Counted>;

const KINDS: [TimedRequestKind; 3] =
    [TimedRequestKind::Read, TimedRequestKind::Write, TimedRequestKind::Flush];

/// Stalls in a measurement, and how many requests could have been recognized as stalled.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    stalled: usize,
    of: usize,
}

impl Stalls {
    /// In the requests of each measurement, known by all `reads`; `None` if no stalls are seen, or
    /// none that count.
    pub fn seen(reads: &[TimedRequest], measurements: &[&[TimedRequest]]) -> Option<Self> {
        let reads = LongReads::of(reads);
        let everywhere = usual_ns(measurements.iter().copied().flatten());
        let stall_ns = reads.stall_ns()?;
        let all: Vec<Counts> =
            measurements.iter().map(|of| counted(of, &everywhere, stall_ns)).collect();
        let rates = Rates::of(&all, reads.most_rate());
        let difference_ns = all.iter().map(|of| rates.difference_ns(of, stall_ns)).collect();
        let has_some = rates.all.values().any(|of| of.stalled > 0);
        let every = 1.0 / rates.common.unwrap_or_else(|| reads.rate());
        has_some.then_some(Self { stall_ns, every: every.round() as u64, difference_ns })
    }

    /// For the user.
    pub fn note(&self) -> String {
        format!(
            "About one of {} reads takes {} ms longer than others like it. For the twin, the time \
             of such stalls is spread evenly over all requests.",
            self.every,
            self.stall_ns / 1_000_000
        )
    }

    /// For those who use the twin, as lines of its card file.
    pub fn comment(&self) -> String {
        format!(
            "# The device stalls: about one of {} reads takes {} ms longer. Here each request takes\n\
             # its part of that, so the longest latencies are not those of the device.",
            self.every,
            self.stall_ns / 1_000_000
        )
    }
}

/// Reads that take much longer than others like them.
struct LongReads {
    /// Of how many.
    reads: usize,
    /// By how much, sorted.
    excess_ns: Vec<u64>,
}

impl LongReads {
    fn of(reads: &[TimedRequest]) -> Self {
        let usual_ns = usual_ns(reads.iter());
        let known =
            reads.iter().filter_map(|read| usual_ns.get(&class(read)).map(|&usual| (read, usual)));
        let (mut number, mut excess_ns) = (0, Vec::new());
        for (read, usual) in known {
            number += 1;
            if read.took_ns > usual.saturating_mul(LONG) {
                excess_ns.push(read.took_ns - usual);
            }
        }
        excess_ns.sort_unstable();
        Self { reads: number, excess_ns }
    }

    /// If they are a few, and longer by about the same time.
    fn stall_ns(&self) -> Option<u64> {
        let number = self.excess_ns.len();
        let at = |fifths: usize| self.excess_ns.get(number * fifths / 5);
        let stall_ns = middle(&self.excess_ns)?;
        let spread_ns = at(4)? - at(1)?;
        let alike = spread_ns as f64 <= LONGEST_SPREAD * stall_ns as f64;
        let rare = number >= LEAST_SEEN && number * LEAST_EVERY <= self.reads;
        (rare && alike && stall_ns >= LEAST_STALL_NS).then_some(stall_ns)
    }

    fn rate(&self) -> f64 {
        self.excess_ns.len() as f64 / self.reads as f64
    }

    /// The highest rate of stalls that goes with so many.
    fn most_rate(&self) -> f64 {
        let seen = self.excess_ns.len() as f64;
        (seen + MOST_DEVIATIONS * seen.sqrt()) / self.reads as f64
    }
}

/// How often requests stall.
struct Rates {
    /// What half of the requests of a kind are measured with, or less: in a minority of the
    /// measurements, other requests can take as long.
    usual: BTreeMap<TimedRequestKind, f64>,
    all: BTreeMap<TimedRequestKind, Counted>,
    /// Of all kinds, if they differ only by chance.
    common: Option<f64>,
}

impl Rates {
    fn of(measurements: &[Counts], most_rate: f64) -> Self {
        let usual = KINDS.map(|kind| (kind, usual_rate(measurements, kind).min(most_rate)));
        let mut rates = Self { usual: usual.into(), all: BTreeMap::new(), common: None };
        for (&kind, of) in measurements.iter().flatten() {
            if rates.is_chance(kind, of) {
                let all = rates.all.entry(kind).or_default();
                all.stalled += of.stalled;
                all.of += of.of;
            }
        }
        let sum = |part: fn(&Counted) -> usize| rates.all.values().map(part).sum::<usize>() as f64;
        let common = sum(|of| of.stalled) / sum(|of| of.of).max(1.0);
        rates.common = rates.all.values().all(|of| of.is_chance(common)).then_some(common);
        rates
    }

    fn is_chance(&self, kind: TimedRequestKind, of: &Counted) -> bool {
        of.stalled as f64 <= of.most_by_chance(self.usual[&kind])
    }

    fn of_kind(&self, kind: TimedRequestKind) -> f64 {
        self.common.unwrap_or_else(|| {
            let Counted { stalled, of } = self.all.get(&kind).copied().unwrap_or_default();
            stalled as f64 / of.max(1) as f64
        })
    }

    /// What a measurement would have taken more or less without chance.
    fn difference_ns(&self, counts: &Counts, stall_ns: u64) -> i64 {
        let more = counts.iter().filter(|(kind, of)| self.is_chance(**kind, of)).map(
            |(&kind, &Counted { stalled, of })| of as f64 * self.of_kind(kind) - stalled as f64,
        );
        (more.sum::<f64>() * stall_ns as f64) as i64
    }
}

impl Counted {
    fn most_by_chance(&self, rate: f64) -> f64 {
        let expected = self.of as f64 * rate;
        1.0 + expected + MOST_DEVIATIONS * expected.sqrt()
    }

    /// Whether so many stalls are neither too many nor too few.
    fn is_chance(&self, rate: f64) -> bool {
        let expected = self.of as f64 * rate;
        (self.stalled as f64 - expected).abs() <= MOST_DEVIATIONS * expected.sqrt()
    }
}

fn usual_rate(measurements: &[Counts], kind: TimedRequestKind) -> f64 {
    let of_kind = measurements.iter().filter_map(|of| of.get(&kind));
    let mut rates: Vec<(f64, usize)> =
        of_kind.map(|&Counted { stalled, of }| (stalled as f64 / of as f64, of)).collect();
    rates.sort_by(|one, other| one.0.total_cmp(&other.0));
    let half = rates.iter().map(|(_, of)| of).sum::<usize>() / 2;
    let mut below = 0;
    let middle = rates.iter().find(|(_, of)| {
        below += of;
        below >= half
    });
    middle.map_or(0.0, |(rate, _)| *rate)
}

fn class(request: &TimedRequest) -> Class {
    (request.kind, request.bytes.checked_ilog2().unwrap_or(0))
}

/// The median time of each class with enough requests.
fn usual_ns<'a>(requests: impl Iterator<Item = &'a TimedRequest>) -> BTreeMap<Class, u64> {
    let mut all: BTreeMap<Class, Vec<u64>> = BTreeMap::new();
    for request in requests {
        all.entry(class(request)).or_default().push(request.took_ns);
    }
    let enough = all.into_iter().filter(|(_, times)| times.len() >= LEAST_ALIKE);
    enough
        .filter_map(|(class, mut times)| {
            times.sort_unstable();
            middle(&times).map(|usual| (class, usual))
        })
        .collect()
}

/// The median of sorted values.
fn middle(sorted: &[u64]) -> Option<u64> {
    sorted.get(sorted.len() / 2).copied()
}

/// The stalls in a measurement, by kind of request.
fn counted(
    measurement: &[TimedRequest],
    everywhere: &BTreeMap<Class, u64>,
    stall_ns: u64,
) -> Counts {
    let here = usual_ns(measurement.iter());
    let mut counted = Counts::new();
    for request in measurement {
        let class = class(request);
        let Some(&usual) = here.get(&class).or_else(|| everywhere.get(&class)) else { continue };
        if usual > stall_ns {
            continue;
        }
        let tolerance = (TIME_TOLERANCE * usual as f64).max(STALL_TOLERANCE * stall_ns as f64);
        let stalled = request.took_ns.abs_diff(usual + stall_ns) as f64 <= tolerance;
        let of = counted.entry(request.kind).or_default();
        of.of += 1;
        of.stalled += usize::from(stalled);
    }
    counted
}

#[cfg(test)]
mod tests {
    use flashfit_device::random::Random;

    use super::*;

    const STALL_NS: u64 = 40_000_000;

    fn request(kind: TimedRequestKind, bytes: u64, took_ns: u64) -> TimedRequest {
        TimedRequest { kind, bytes, took_ns }
    }

    /// Requests of one size, of which one in `every` stalls, and jitter of up to a fifth.
    fn stalling(kind: TimedRequestKind, count: usize, every: u64, seed: u64) -> Vec<TimedRequest> {
        let mut random = Random::new(seed);
        let mut one = || {
            let stall_ns = if random.below(every) == 0 { STALL_NS } else { 0 };
            request(kind, 4096, 2_000_000 + random.below(400_000) + stall_ns)
        };
        (0..count).map(|_| one()).collect()
    }

    /// Only the first one has reads.
    fn seen(measurements: &[Vec<TimedRequest>]) -> Option<Stalls> {
        let reads = measurements.first().map_or(&[][..], Vec::as_slice);
        Stalls::seen(reads, &measurements.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    fn evened_ns(of: &[TimedRequest], difference_ns: i64) -> f64 {
        of.iter().map(|request| request.took_ns).sum::<u64>() as f64 + difference_ns as f64
    }

    #[test]
    fn measurements_of_the_same_take_the_same_time_without_chance() {
        let mut all = vec![stalling(TimedRequestKind::Read, 200, 20, 1)];
        all.extend((0..20).map(|seed| stalling(TimedRequestKind::Write, 100, 20, 100 + seed)));
        let stalls = seen(&all).expect("stalls");
        assert!(stalls.stall_ns.abs_diff(STALL_NS) < STALL_NS / 20, "{stalls:?}");
        assert!((12..=40).contains(&stalls.every), "{stalls:?}");
        let expected_ns = 100.0 * (2_200_000.0 + STALL_NS as f64 / 20.0);
        let ratios = |difference: &dyn Fn(usize) -> i64| {
            let ratio = |at: usize| evened_ns(&all[at], difference(at)) / expected_ns;
            let all: Vec<f64> = (1..all.len()).map(ratio).collect();
            all.iter().map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max)
        };
        let (before, after) = (ratios(&|_| 0), ratios(&|at| stalls.difference_ns[at]));
        assert!(before > 0.4 && after < 0.15, "{before} {after}");
        let sum: i64 = stalls.difference_ns.iter().sum();
        assert!(sum.abs() < STALL_NS as i64 / 10, "the sum stays: {sum}");
    }

    /// A merge for every eighth write takes as long as a stall, and some take much longer.
    #[test]
    fn merges_stay_where_they_are() {
        let merging = |merge_ns: u64| -> Vec<TimedRequest> {
            let took_ns = |at: u64| 2_000_000 + if at % 8 == 7 { merge_ns } else { 0 };
            (0..96).map(|at| request(TimedRequestKind::Write, 4096, took_ns(at))).collect()
        };
        let reads = |every| stalling(TimedRequestKind::Read, 200, every, 3);
        let calm: Vec<_> = reads(u64::MAX);
        assert_eq!(seen(&[calm, merging(STALL_NS)]), None);
        let calm = |seed| stalling(TimedRequestKind::Write, 1000, u64::MAX, seed);
        let all = [reads(20), merging(8 * STALL_NS), merging(STALL_NS), calm(1), calm(2)];
        let stalls = seen(&all).expect("stalls");
        assert_eq!(stalls.difference_ns[1..], [0; 4]);
    }

    #[test]
    fn stalls_of_reads_alone_say_nothing_of_writes() {
        let writes = |seed| stalling(TimedRequestKind::Write, 500, u64::MAX, seed);
        let stalls = seen(&[stalling(TimedRequestKind::Read, 200, 20, 5), writes(1), writes(2)]);
        assert_eq!(stalls.expect("stalls").difference_ns[1..], [0, 0]);
    }

    #[test]
    fn long_reads_of_many_lengths_are_no_stalls() {
        let mut random = Random::new(9);
        let one = |_| {
            let long_ns = if random.below(15) == 0 { random.below(100_000_000) } else { 0 };
            request(TimedRequestKind::Read, 4096, 500_000 + long_ns)
        };
        assert_eq!(seen(&[(0..200).map(one).collect()]), None);
        assert_eq!(seen(&[]), None);
        assert_eq!(Stalls::seen(&stalling(TimedRequestKind::Read, 200, 20, 5), &[]), None);
    }
}
