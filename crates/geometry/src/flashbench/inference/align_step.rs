//! Infers units from alignment tables: the steps above which every read across a boundary takes
//! longer.
//!
//! A boundary at an odd multiple of `align` is also a unit boundary if `align` is the unit size or
//! a larger power of two. The rows therefore form a lower level below the unit size and a higher
//! one from it on. The rows are partitioned into levels (`super::segments`); each partition
//! supports the unit at its step, or none. Reads within the first units, which are often mapped in
//! a different way, are allowed for: one row may then have most of the rise. If it has about half
//! of it, the erase block may as well be twice as large ([`TwoSteps`]). Tables of the same device
//! are pooled first, since their rows have the same steps. If rows are missing, the step may begin
//! at any of them.
//!
//! Limits: flashbench only measures powers of two, at seven places of which some wrap around the
//! end of the device, so the height of a step carries little information; a unit of 3 x 2^k
//! appears as a step of 2/7 of its height at 2^k. Steps of units of 2^k are as high as that on some
//! cards, so only a high step rules it out ([`StepEvidence::may_be_a_third`]).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use flashfit_device::Bytes;

use super::segments::{NoisySeries, SegmentLevel};
use crate::belief::{ANSWERS, DeviceStructure, GeometryBelief, log_sum_exp, median};
use crate::findings::{CandidateValue, QuantityValue, SURE};
use crate::flashbench::AlignTable;

/// The smallest step, as a share of the time of adjacent reads.
const MIN_RISE: f64 = 0.01;
/// Later levels may be below the step's by up to this share of its rise.
const STAYS: f64 = 0.35;
/// The smallest rise of an erase block, as a share of the highest rise.
const NOTABLE: f64 = 0.4;
/// Likelihood of the observed step at 2^k for a unit of 3 x 2^k, relative to one of 2^k. Two of the
/// seven places are its boundaries, so each would have to cost 3.5 times as much.
const THIRD: f64 = 0.1;
/// The share of the places of a row that are boundaries of a unit of 3 x 2^k.
const THIRD_OF_PLACES: f64 = 2.0 / 7.0;
/// The most that a read across a boundary takes in addition, as a share of an adjacent read: up to
/// 36 % on published cards.
const MOST_EXTRA: f64 = 0.4;
/// Probability that the row of the unit itself is between the levels, as if the first units were
/// mapped in a different way.
const ON_THE_WAY: f64 = 0.25;
/// The smallest rise of such a row, as a share of the whole; two of seven places make 2/7.
const WORTH_A_PLACE: f64 = 0.25;
/// The largest share of the rise that is a step by itself.
const HALF_OF_THE_RISE: f64 = 0.6;
/// The smallest number of rows.
const MIN_ROWS: usize = 6;

/// A row pooled over all tables.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PooledRow {
    pub align: Bytes,
    /// Median extra time of a read across, in nanoseconds.
    pub extra_ns: f64,
    /// Median time of an adjacent read, in nanoseconds.
    pub adjacent_ns: f64,
    /// Resolution of `extra_ns`, in nanoseconds.
    pub grain_ns: f64,
}

/// Pools tables of one device: the rows that at least half of them have, smallest alignment first.
pub fn pool(tables: &[AlignTable]) -> Vec<PooledRow> {
    let mut rows: BTreeMap<u64, Vec<_>> = BTreeMap::new();
    for row in tables.iter().flat_map(|table| &table.rows) {
        rows.entry(row.align.0).or_default().push(*row);
    }
    let pooled = rows.into_iter().filter(|(_, rows)| 2 * rows.len() >= tables.len());
    pooled
        .map(|(align, rows)| {
            let of = |value: fn(&crate::flashbench::AlignRow) -> f64| {
                median(&rows.iter().map(value).collect::<Vec<_>>())
            };
            PooledRow {
                align: Bytes(align),
                extra_ns: of(|row| row.extra_ns()),
                adjacent_ns: of(|row| row.adjacent_ns()),
                grain_ns: of(|row| row.grain_ns()) / (rows.len() as f64).sqrt(),
            }
        })
        .collect()
}

/// The noise of a row, estimated from the differences of rows from their neighbors.
pub fn noise_ns(rows: &[PooledRow]) -> f64 {
    let off: Vec<f64> = rows
        .windows(3)
        .map(|of| (of[1].extra_ns - f64::midpoint(of[0].extra_ns, of[2].extra_ns)).abs())
        .collect();
    // The deviation from the mean of two neighbors is wider by sqrt(3/2); the median absolute
    // deviation is narrower by 0.67.
    let noise = if off.is_empty() { 0.0 } else { median(&off) / 0.6745 / 1.5f64.sqrt() };
    let grain = median(&rows.iter().map(|row| row.grain_ns).collect::<Vec<_>>());
    noise.max(grain).max(1.0)
}

/// The step to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoughtStep {
    /// The last one from 64 KiB up: the erase block.
    Erase,
    /// The last one up to 256 KiB, below the erase block: the write unit.
    Write,
    /// The first of at least two in the same range: the page.
    Page,
}

impl SoughtStep {
    /// The possible alignments of the step, in bytes.
    fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::Erase => ANSWERS,
            Self::Write | Self::Page => 1 << 10..=256 << 10,
        }
    }

    /// The required number of rows below the step; pages have few.
    fn least_below(self) -> usize {
        if self == Self::Erase { 2 } else { 1 }
    }
}

/// Unnormalized log-evidence by the alignment of the step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepEvidence {
    nothing: f64,
    at: BTreeMap<u64, f64>,
    /// By the alignment of the first of two steps: part of the evidence for each of the two.
    two_steps: BTreeMap<u64, f64>,
    /// By the alignment of the step, its likeliest rise, as a share of the time of adjacent reads.
    rises: BTreeMap<u64, f64>,
    /// Sizes that a step may have because rows are missing, each with the row above them.
    gaps: Vec<Vec<u64>>,
}

/// Reads across boundaries of the larger unit take longer than those of the smaller one, which take
/// longer than others: either may be the erase block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoSteps {
    pub smaller: Bytes,
    pub larger: Bytes,
    /// That the erase block is one of them.
    pub probability: f64,
}

impl StepEvidence {
    /// Evaluates every partition of pooled rows; `None` if there are too few.
    pub fn of(rows: &[PooledRow], sought: SoughtStep) -> Option<Self> {
        if rows.len() < MIN_ROWS {
            return None;
        }
        let values: Vec<f64> = rows.iter().map(|row| row.extra_ns).collect();
        let adjacent_ns = median(&rows.iter().map(|row| row.adjacent_ns).collect::<Vec<_>>());
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let noise = noise_ns(rows);
        let series = NoisySeries { values: &values, noise, range: adjacent_ns.max(most - least) };
        let least_rise = (MIN_RISE * adjacent_ns).max(2.0 * noise / (rows.len() as f64).sqrt());
        let mut nothing = Vec::new();
        let mut at: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let mut two_steps: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let mut rises: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        // The belief has its own prior for the size, so the prior of the partition is removed.
        let place = (rows.len() as f64).ln();
        series.partitions(|levels, log| match step(rows, levels, sought, least_rise, noise) {
            Some(step) => {
                // The same applies to the place and height of a row between the levels.
                let way = (ON_THE_WAY * series.range / step.rise).ln() + place;
                let way = if step.own_level { way } else { (1.0 - ON_THE_WAY).ln() };
                let log_step = log + place + way + step.sure.ln();
                let sizes = sizes_from_row(rows, step.row);
                let mut add = |sizes: &[u64], log: f64| {
                    for &size in sizes {
                        let log = log - (sizes.len() as f64).ln();
                        at.entry(size).or_default().push(log);
                        let likeliest = rises.entry(size).or_insert((log, step.rise));
                        if log > likeliest.0 {
                            *likeliest = (log, step.rise);
                        }
                    }
                };
                add(&sizes, log_step);
                if step.is_first_of_two > 0.0 {
                    let log_two = log_step + step.is_first_of_two.ln();
                    let next = sizes_from_row(rows, step.row + 1);
                    add(&next, log_two);
                    if let ([size], [_]) = (&sizes[..], &next[..]) {
                        two_steps.entry(*size).or_default().push(log_two);
                    }
                }
                nothing.push(log + (1.0 - step.sure).max(1e-12).ln());
            }
            None => nothing.push(log),
        });
        let sum = |logs: &[f64]| log_sum_exp(logs.iter().copied());
        let sums = |of: BTreeMap<u64, Vec<f64>>| {
            of.into_iter().map(|(align, logs)| (align, sum(&logs))).collect()
        };
        let sizes = (1..rows.len()).map(|row| sizes_from_row(rows, row));
        Some(Self {
            nothing: sum(&nothing),
            at: sums(at),
            two_steps: sums(two_steps),
            rises: rises.into_iter().map(|(of, (_, rise))| (of, rise / adjacent_ns)).collect(),
            gaps: sizes.filter(|sizes| sizes.len() > 1).collect(),
        })
    }

    /// The sizes, ascending, of which one is certain and none is because only the largest has a
    /// row.
    pub fn gap(&self, probability: impl Fn(u64) -> f64) -> Option<&[u64]> {
        let total = |sizes: &[u64]| sizes.iter().map(|&size| probability(size)).sum::<f64>();
        self.gaps.iter().map(Vec::as_slice).find(|sizes| total(sizes) >= SURE)
    }

    /// The two steps that the rows have if `belief`, which has no answer, is sure of either.
    pub fn two_steps(&self, belief: &GeometryBelief) -> Option<TwoSteps> {
        let of = |bytes| belief.probability(DeviceStructure::Unit(bytes));
        let pairs = self.two_steps.iter().filter_map(|(&smaller, &log)| {
            let larger = 2 * smaller;
            // Without two steps, noise is what leaves both likely.
            let is_seen = self.at.get(&larger).is_some_and(|all| log > all - 2f64.ln());
            let probability = of(smaller) + of(larger);
            (is_seen && probability >= SURE && of(smaller).max(of(larger)) < SURE)
                .then_some(TwoSteps { smaller: Bytes(smaller), larger: Bytes(larger), probability })
        });
        pairs.max_by(|one, other| one.probability.total_cmp(&other.probability))
    }

    /// The rise of the step at this size, in bytes, as a share of the time of adjacent reads, if it
    /// is so small that it may as well come from units of three times the size.
    pub fn may_be_a_third(&self, bytes: u64) -> Option<f64> {
        let rise = self.rises.get(&bytes).copied();
        rise.filter(|rise| *rise <= MOST_EXTRA * THIRD_OF_PLACES)
    }

    /// The log-likelihood of the rows under a structure, up to a constant.
    pub fn log_likelihood(&self, structure: DeviceStructure) -> f64 {
        let Some(unit) = structure.bytes() else { return self.nothing };
        // Its boundaries first coincide with those of the largest power of two that divides it.
        let align = 1 << unit.trailing_zeros();
        let met = if unit == align { 0.0 } else { THIRD.ln() };
        let step = self.at.get(&align).map_or(f64::NEG_INFINITY, |log| log + met);
        // A unit may be invisible.
        log_sum_exp([step, self.nothing - 3.0].into_iter())
    }

    /// Adds the evidence to a belief.
    pub fn update(&self, belief: &mut GeometryBelief) {
        belief.update(|structure| self.log_likelihood(structure));
    }

    /// The posterior of the sizes, most likely first, with equal priors for all rows, and in sum as
    /// much as for no step.
    pub fn posterior(&self, rows: usize) -> Vec<CandidateValue> {
        let prior = (rows.max(1) as f64).ln();
        let logs = self.at.values().map(|log| log - prior).chain([self.nothing]);
        let total = log_sum_exp(logs.collect::<Vec<_>>().into_iter());
        let mut all: Vec<CandidateValue> = self
            .at
            .iter()
            .map(|(&align, log)| CandidateValue {
                value: QuantityValue::Bytes(align),
                probability: (log - prior - total).exp(),
            })
            .collect();
        all.sort_by(|one, other| other.probability.total_cmp(&one.probability));
        all
    }
}

/// A step that may come from an erase block.
struct Step {
    /// Index of its first row.
    row: usize,
    rise: f64,
    /// The probability that it is a real step.
    sure: f64,
    /// Whether the unit's own row is a separate level.
    own_level: bool,
    /// The probability that its row has a step by itself, and the next row another one.
    is_first_of_two: f64,
}

/// The step in a partition.
fn step(
    rows: &[PooledRow],
    levels: &[SegmentLevel],
    sought: SoughtStep,
    least_rise: f64,
    noise: f64,
) -> Option<Step> {
    let rise = |at: usize| levels[at].mean - levels[at - 1].mean;
    // Below an erase block, reads have a step at the page; above it, the end of the device affects
    // the places. A level is required on both sides.
    let can_be = |at: usize| {
        sought.range().contains(&rows[levels[at].first].align.0)
            && levels[at].first >= sought.least_below()
            && rows.len() - levels[at].first >= 2
    };
    let stays = |at: usize| {
        levels[at..].iter().all(|later| later.mean >= levels[at - 1].mean + STAYS * rise(at))
    };
    let steps: Vec<usize> =
        (1..levels.len()).filter(|&at| rise(at) > 0.0 && can_be(at) && stays(at)).collect();
    let highest = steps.iter().map(|&at| rise(at)).fold(0.0, f64::max);
    let notable: Vec<usize> =
        steps.into_iter().filter(|&at| rise(at) >= NOTABLE * highest).collect();
    let last = match sought {
        SoughtStep::Erase | SoughtStep::Write => *notable.last()?,
        SoughtStep::Page => *notable.first().filter(|_| notable.len() > 1)?,
    };
    // A single row between the levels belongs to the unit itself, as a level or as an outlier.
    let worth = |height: f64, whole: f64| height > least_rise.max(WORTH_A_PLACE * whole);
    let own_level = sought == SoughtStep::Erase
        && last >= 2
        && levels[last - 1].count() == 1
        && worth(rise(last - 1), rise(last - 1) + rise(last))
        && can_be(last - 1);
    let (first, below) = if own_level { (last - 1, last - 2) } else { (last, last - 1) };
    let (low, high) = (levels[below], levels[last]);
    let rise = high.mean - low.mean;
    let sure = normal_below((rise - least_rise) / low.error.hypot(high.error));
    let off = low.off.filter(|&off| {
        let height = rows[off].extra_ns - low.mean;
        sought == SoughtStep::Erase
            && off + 1 == levels[first].first
            && worth(height, rise)
            && height < rise
            && sought.range().contains(&rows[off].align.0)
    });
    let own = off.unwrap_or(levels[first].first);
    let is_between = own_level || off.is_some() || high.off == Some(own);
    let share = (rows[own].extra_ns - low.mean) / rise;
    let can_be_two = sought == SoughtStep::Erase
        && is_between
        && share >= WORTH_A_PLACE
        && rows.get(own + 1).is_some_and(|next| sought.range().contains(&next.align.0));
    let is_first_of_two = if can_be_two {
        normal_below((HALF_OF_THE_RISE - share) * rise / noise.hypot(low.error).hypot(high.error))
    } else {
        0.0
    };
    Some(Step { row: own, rise, sure, own_level, is_first_of_two })
}

/// The possible sizes of a step whose first row this is, ascending: the powers of two above the
/// row before it. Of those, a complete table has this row only.
fn sizes_from_row(rows: &[PooledRow], row: usize) -> Vec<u64> {
    let align = rows[row].align.0;
    let before = row.checked_sub(1).map_or(align / 2, |before| rows[before].align.0);
    let powers = (0..u64::BITS).map(|exponent| 1 << exponent);
    let sizes: Vec<u64> = powers.filter(|size| (before + 1..=align).contains(size)).collect();
    if sizes.is_empty() { vec![align] } else { sizes }
}

/// Standard normal distribution function, by the logistic approximation of Bowling et al. (2009),
/// accurate to 0.0002.
fn normal_below(z: f64) -> f64 {
    1.0 / (1.0 + (-(0.07056 * z.powi(3) + 1.5976 * z)).exp())
}
