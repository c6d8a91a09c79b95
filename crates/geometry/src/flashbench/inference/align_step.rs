//! The units in alignment tables: the steps above which every read across a boundary takes longer.
//!
//! A boundary at an odd multiple of `align` lies on one of the units where `align` is the unit or a
//! larger power of two, so the rows of a table lie on a level below it and on a higher one from it
//! on. The rows are partitioned into levels (`super::segments`); each partition speaks for the
//! unit at its step, or for none. Reads at the first units, which are often mapped in another way,
//! are allowed for. Several tables of one device are pooled first,
//! because what one row does, it does in all of them. Limits: flashbench takes powers of two only,
//! and seven places of which some wrap around the end of the device, so the height of the step says
//! little; a unit of 3 x 2^k would show as a step of 2/7 of its height at 2^k.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use flashfit_device::Bytes;

use super::segments::{NoisySeries, SegmentLevel};
use crate::belief::{ANSWERS, DeviceStructure, GeometryBelief, log_sum_exp, median};
use crate::findings::{CandidateValue, QuantityValue};
use crate::flashbench::AlignTable;

/// A step less than this share of the time beside it is none that a device shows on purpose.
const LEAST_RISE: f64 = 0.01;
/// Later levels may lie lower than the step's, but not by more than this share of the rise.
const STAYS: f64 = 0.35;
/// A rise that is less than this share of the highest one is no erase block's.
const NOTABLE: f64 = 0.4;
/// How likely a unit of 3 x 2^k shows as a step at 2^k as it was seen, against one of 2^k: its
/// boundaries are at two of the seven places, so it would have to cost 3.5 times as much.
const THIRD: f64 = 0.1;
/// How likely the row of the unit itself lies on the way up, as where the first units are mapped in
/// another way.
const ON_THE_WAY: f64 = 0.25;
/// Less than this share of the whole rise is no row on the way up: two of the seven places make
/// 2/7.
const WORTH_A_PLACE: f64 = 0.25;
/// With fewer rows there is nothing to see.
const LEAST_ROWS: usize = 6;

/// A row of all tables together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PooledRow {
    /// The alignment.
    pub align: Bytes,
    /// What a read across takes longer, in nanoseconds: the median over the tables.
    pub extra_ns: f64,
    /// What a read beside takes, in nanoseconds: the median over the tables.
    pub beside_ns: f64,
    /// How finely the first is known, in nanoseconds.
    pub grain_ns: f64,
}

/// Pools tables of one device: the rows that most of them have, the smallest alignment first.
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
                beside_ns: of(|row| row.beside_ns()),
                grain_ns: of(|row| row.grain_ns()) / (rows.len() as f64).sqrt(),
            }
        })
        .collect()
}

/// How much a row varies by chance, from how far rows lie from their neighbours: steps are few.
pub fn noise_ns(rows: &[PooledRow]) -> f64 {
    let off: Vec<f64> = rows
        .windows(3)
        .map(|of| (of[1].extra_ns - f64::midpoint(of[0].extra_ns, of[2].extra_ns)).abs())
        .collect();
    // The deviation from the mean of two neighbours is wider by the root of 3/2, the median of its
    // amount narrower than the deviation by 0.67.
    let noise = if off.is_empty() { 0.0 } else { median(&off) / 0.6745 / 1.5f64.sqrt() };
    let grain = median(&rows.iter().map(|row| row.grain_ns).collect::<Vec<_>>());
    noise.max(grain).max(1.0)
}

/// Which step is sought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoughtStep {
    /// The last one from 64 KiB on: the erase block.
    Erase,
    /// The last one up to 256 KiB, below the erase block: what is written together.
    Write,
    /// The first one there, of at least two: the page.
    Page,
}

impl SoughtStep {
    /// Where the step can be, in bytes.
    fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::Erase => ANSWERS,
            Self::Write | Self::Page => 1 << 10..=256 << 10,
        }
    }

    /// How many rows there must be below it to judge it by: pages have few.
    fn least_below(self) -> usize {
        if self == Self::Erase { 2 } else { 1 }
    }
}

/// What the rows say, by the smallest unit that would show so; unnormalized logarithms.
#[derive(Debug, Clone, PartialEq)]
pub struct StepEvidence {
    nothing: f64,
    at: BTreeMap<u64, f64>,
}

impl StepEvidence {
    /// Weighs every partition of pooled rows; `None` where they are too few.
    pub fn of(rows: &[PooledRow], sought: SoughtStep) -> Option<Self> {
        if rows.len() < LEAST_ROWS {
            return None;
        }
        let values: Vec<f64> = rows.iter().map(|row| row.extra_ns).collect();
        let beside_ns = median(&rows.iter().map(|row| row.beside_ns).collect::<Vec<_>>());
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let noise = noise_ns(rows);
        let series = NoisySeries { values: &values, noise, range: beside_ns.max(most - least) };
        let least_rise = (LEAST_RISE * beside_ns).max(2.0 * noise / (rows.len() as f64).sqrt());
        let mut nothing = Vec::new();
        let mut at: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        // The place of the step is the belief's own prior; the partition's is taken back.
        let place = (rows.len() as f64).ln();
        series.partitions(|levels, log| match step(rows, levels, sought, least_rise) {
            Some(step) => {
                // So are the place and the height of a row on the way up.
                let way = (ON_THE_WAY * series.range / step.rise).ln() + place;
                let way = if step.own_level { way } else { (1.0 - ON_THE_WAY).ln() };
                at.entry(step.align.0).or_default().push(log + place + way + step.sure.ln());
                nothing.push(log + (1.0 - step.sure).max(1e-12).ln());
            }
            None => nothing.push(log),
        });
        let sum = |logs: &[f64]| log_sum_exp(logs.iter().copied());
        Some(Self {
            nothing: sum(&nothing),
            at: at.into_iter().map(|(align, logs)| (align, sum(&logs))).collect(),
        })
    }

    /// How likely the rows are under a structure, up to a constant; a logarithm.
    pub fn log_likelihood(&self, structure: DeviceStructure) -> f64 {
        let Some(unit) = structure.bytes() else { return self.nothing };
        // The largest power of two that divides it is where its boundaries begin to be met.
        let align = 1 << unit.trailing_zeros();
        let met = if unit == align { 0.0 } else { THIRD.ln() };
        let step = self.at.get(&align).map_or(f64::NEG_INFINITY, |log| log + met);
        // A unit can fail to show.
        log_sum_exp([step, self.nothing - 3.0].into_iter())
    }

    /// Adds what the rows say to a belief.
    pub fn teach(&self, belief: &mut GeometryBelief) {
        belief.learn(|structure| self.log_likelihood(structure));
    }

    /// The sizes and their probabilities where each row is as likely as any other before, and all
    /// together as likely as none; the likeliest first.
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

/// A step that an erase block can make.
struct Step {
    align: Bytes,
    /// In nanoseconds.
    rise: f64,
    /// The probability that it is one.
    sure: f64,
    /// Whether the unit's own row is a level by itself.
    own_level: bool,
}

/// The step that the levels show.
fn step(
    rows: &[PooledRow],
    levels: &[SegmentLevel],
    sought: SoughtStep,
    least_rise: f64,
) -> Option<Step> {
    let rise = |at: usize| levels[at].mean - levels[at - 1].mean;
    // For an erase block: below, reads step at the page; above, at what the device's end does to
    // the places. On both sides there must be a level to judge it by.
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
    // A single row on the way up is the unit's own, whether it is a level or one that is off.
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
    let align = rows[off.unwrap_or(levels[first].first)].align;
    Some(Step { align, rise, sure, own_level })
}

/// The probability of a normal deviate below `z`, by the logistic approximation of Bowling et al.
/// (2009), which is right to 0.0002.
fn normal_below(z: f64) -> f64 {
    1.0 / (1.0 + (-(0.07056 * z.powi(3) + 1.5976 * z)).exp())
}
