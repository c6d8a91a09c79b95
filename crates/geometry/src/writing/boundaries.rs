//! Locates erase block boundaries by the cost of writing across them.
//!
//! A layer that maps whole erase blocks, or parts of them, keeps a few of them open. Each scattered
//! write opens the unit it falls into, and another unit must be closed: it is merged, which copies
//! about a unit. A write with a boundary inside opens two units and costs two merges. Each write is
//! thus a query about boundaries with two possible answers, and a posterior over unit and offset
//! selects the next query. The result is the unit in which the layer opens and merges. Limits:
//! units of which a few fit into the written window, and whose offset is not behind its start; a
//! page-mapped layer has no such boundaries, which is detected beforehand
//! ([`SensedMerging::sense`]). Sources: Kim et al., "A space-efficient flash translation layer for
//! CompactFlash systems" (2002) for merges; Lindley, "On a measure of the information provided by
//! an experiment" (1956) for the choice of queries.

use std::ops::Range;

use super::layout::{LayoutHypothesis, UnitLayout};
use super::meter::{MeasurementStop, Meter};
use crate::belief::{ANSWERS, DeviceStructure, GeometryBelief, log_sum_exp, median};
use crate::probed::SamplePurpose;

/// The shortest test write; smaller ones go to a separate log on some devices.
pub const MIN_STRETCH: u64 = 96 << 10;
/// The shortest one where a cache hands those on in pieces that go to the log, or write units are
/// so large that those cause merges even in order.
const LONG_STRETCH: u64 = 768 << 10;
/// How much better than chance boundaries must explain the costs, as a logarithm.
const RELATED: f64 = 3.0;
/// Alignment of test writes, and resolution of offsets.
const GRAIN: u64 = 32 << 10;
/// Writes before merges are evaluated; more than devices keep open.
const SENSING: usize = 24;
/// A write causes a merge if it takes this many times its sequential time.
const MERGING: f64 = 1.6;
/// From this factor on, merges are unambiguous.
const CLEARLY: f64 = 3.0;
/// The longest test write.
const LONGEST_STRETCH: u64 = 8 << 20;
/// Range of the number of queries.
const QUERIES: Range<usize> = 14..140;
/// The posterior at which queries end.
const ENOUGH: f64 = 0.9995;
/// Share of costs unrelated to boundaries.
const OUTLIER: f64 = 0.06;
/// Hypotheses for the spread of log times.
const SPREADS: [f64; 3] = [0.12, 0.25, 0.5];
/// Hypotheses for the cost of a merge: log steps around the sensed cost.
const LEVELS: i32 = 18;
const LEVEL_STEP: f64 = 0.13;
/// The amount copied for a write is quantized in log steps, starting at this share of a unit.
const COPIED_STEP: f64 = 0.06;
const COPIED_STEPS: usize = 160;
const MIN_COPIED: f64 = 0.03;
/// Times within this log distance count as equal.
const CLASS_WIDTH: f64 = 0.4;
const CLASSES: usize = 16;
/// Log range of all costs.
const BREADTH: f64 = 8.0;
/// The fewest units in the window by which a size is told from larger ones.
const LEAST_UNITS: u64 = 4;
/// Prior probability that costs are unrelated to boundaries.
const NO_STRUCTURE: f64 = 0.1;

/// A device that merges.
#[derive(Debug, Clone)]
pub struct SensedMerging {
    /// The sequentially written window, so that merges have data to copy.
    pub window: Range<u64>,
    /// Sequential write time in nanoseconds per byte.
    pub ns_per_byte: f64,
    /// Typical extra time of a test write.
    pub merge_ns: f64,
    /// The shortest test write, in bytes.
    stretch: u64,
    /// The test writes, which leave units open.
    sensed: Vec<TestWrite>,
}

#[derive(Debug, Clone, Copy)]
pub struct TestWrite {
    /// In bytes.
    pub start: u64,
    /// In bytes.
    pub length: u64,
}

/// The evidence of the costs.
#[derive(Debug)]
pub struct MergeEvidence {
    /// The most likely layout.
    pub layout: UnitLayout,
    pub probability: f64,
    /// The log-likelihood of each size.
    pub log_likelihoods: Vec<(u64, f64)>,
    /// The log-likelihood of costs unrelated to boundaries.
    pub log_nothing: f64,
    /// Number of test writes.
    pub queries: usize,
    /// Probability that units are written in order, after copies of the preceding data.
    pub in_order: f64,
}

impl MergeEvidence {
    /// Whether boundaries explain the costs. Whatever slowed the writes down otherwise, a device
    /// without boundaries may still have erase blocks.
    pub fn is_related(&self) -> bool {
        let best = self.log_likelihoods.iter().map(|(_, log)| *log).fold(f64::MIN, f64::max);
        best >= self.log_nothing + RELATED
    }
}

impl SensedMerging {
    /// Makes scattered writes in a written window; `None` if they cost little more than sequential
    /// ones. Longer ones follow if sequential ones are slow, too.
    pub fn sense(
        meter: &mut Meter<'_>,
        window: &Range<u64>,
        ns_per_byte: f64,
    ) -> Result<Option<Self>, MeasurementStop> {
        let (found, in_order_ns) = Self::sense_with(meter, window, ns_per_byte, MIN_STRETCH)?;
        let is_slow = in_order_ns > CLEARLY * ns_per_byte * MIN_STRETCH as f64;
        if found.is_some() || !is_slow || !Self::has_room(window) {
            return Ok(found);
        }
        Ok(Self::sense_with(meter, window, ns_per_byte, LONG_STRETCH)?.0)
    }

    /// Whether the window has room for longer test writes.
    fn has_room(window: &Range<u64>) -> bool {
        (window.end - window.start) / SENSING as u64 >= 2 * LONG_STRETCH
    }

    /// Like [`Self::sense`], with writes of this length; also returns the time of sequential ones.
    fn sense_with(
        meter: &mut Meter<'_>,
        window: &Range<u64>,
        ns_per_byte: f64,
        stretch: u64,
    ) -> Result<(Option<Self>, f64), MeasurementStop> {
        let room = (window.end - window.start) / SENSING as u64;
        let (mut costs, mut in_order, mut sensed) = (Vec::new(), Vec::new(), Vec::new());
        // Sequential test writes first: their extra cost over large requests is usually no merge.
        let first = align(window.start, GRAIN, window);
        for number in 0..SENSING as u64 {
            let at = first + number * stretch;
            in_order.push(meter.write(SamplePurpose::WriteLinear, at, stretch)?);
            sensed.push(TestWrite { start: at, length: stretch });
        }
        let mut order: Vec<u64> = (0..SENSING as u64).collect();
        meter.random.shuffle(&mut order);
        for place in order {
            let within = meter.random.below((room - stretch).max(1)) / GRAIN * GRAIN;
            let at = align(window.start + place * room + within, GRAIN, window);
            costs.push(meter.write(SamplePurpose::WriteRandom, at, stretch)?);
            sensed.push(TestWrite { start: at, length: stretch });
        }
        let settled = median(&costs[SENSING / 2..]);
        let in_order = median(&in_order).max(ns_per_byte * stretch as f64);
        let merge_ns = settled - in_order;
        let merging = Self { window: window.clone(), ns_per_byte, merge_ns, stretch, sensed };
        Ok(((settled > MERGING * in_order).then_some(merging), in_order))
    }

    /// Whether the extra cost clearly comes from merges.
    pub fn is_clear(&self) -> bool {
        self.merge_ns > CLEARLY * self.ns_per_byte * self.stretch as f64
    }

    /// Makes queries until the layout is known or more would not help; again with longer writes if
    /// the costs are unrelated to boundaries and longer ones cause merges, too.
    pub fn locate(
        &mut self,
        meter: &mut Meter<'_>,
        belief: &GeometryBelief,
        most_ns: u64,
    ) -> Result<MergeEvidence, MeasurementStop> {
        let found = self.query(meter, belief, most_ns)?;
        let is_long = self.stretch == LONG_STRETCH || !Self::has_room(&self.window);
        if found.is_related() || is_long {
            return Ok(found);
        }
        let longer = Self::sense_with(meter, &self.window, self.ns_per_byte, LONG_STRETCH)?;
        let (Some(longer), _) = longer else { return Ok(found) };
        *self = longer;
        self.query(meter, belief, most_ns)
    }

    fn query(
        &self,
        meter: &mut Meter<'_>,
        belief: &GeometryBelief,
        most_ns: u64,
    ) -> Result<MergeEvidence, MeasurementStop> {
        let mut inference = Inference::new(belief, self);
        let mut recent: Vec<TestWrite> = Vec::new();
        let from_ns = meter.elapsed_ns();
        while inference.queries < QUERIES.end {
            if inference.queries >= QUERIES.start {
                let (_, probability) = inference.likeliest();
                let late = meter.elapsed_ns() - from_ns > most_ns;
                if probability > ENOUGH || late {
                    break;
                }
            }
            let query = inference.next_query(meter, &self.window, self.stretch, &recent);
            let time_ns = match meter.write(SamplePurpose::WriteRandom, query.start, query.length) {
                Err(MeasurementStop::Spent) if inference.queries >= QUERIES.start => break,
                other => other?,
            };
            inference.update(query, time_ns);
            recent.push(query);
        }
        Ok(inference.result())
    }
}

fn align(at: u64, grain: u64, window: &Range<u64>) -> u64 {
    (at / grain * grain).max(window.start.next_multiple_of(grain))
}

/// The posterior over layouts and merge policies.
struct Inference {
    hypotheses: Vec<LayoutHypothesis>,
    /// Log-priors of each hypothesis within its size, and of its size.
    priors: Vec<f64>,
    unit_priors: Vec<f64>,
    /// Log-likelihoods of each hypothesis, and last of none, by level and spread.
    logs: Vec<f32>,
    level_hypotheses: Vec<(f64, f64)>,
    posterior: Vec<f64>,
    /// Sequential write time, and typical extra time of a merge.
    ns_per_byte: f64,
    merge_ns: f64,
    /// The size of the window, in bytes.
    room: u64,
    queries: usize,
}

impl Inference {
    fn new(belief: &GeometryBelief, merging: &SensedMerging) -> Self {
        let units = belief.candidates().filter_map(DeviceStructure::bytes);
        let (mut hypotheses, mut priors, mut unit_priors) = (Vec::new(), Vec::new(), Vec::new());
        // Also those that hardly fit into the window: a part of one explains many costs, too.
        for unit in units.filter(|unit| ANSWERS.contains(unit)) {
            let mut all = LayoutHypothesis::of_unit(unit, GRAIN);
            all.retain(|(one, _)| one.layout.offset <= merging.window.start);
            let of_unit = belief.probability(DeviceStructure::Unit(unit)).max(1e-12).ln();
            unit_priors.resize(unit_priors.len() + all.len(), of_unit);
            for (mut one, share) in all {
                for stretch in &merging.sensed {
                    one.write(*stretch);
                }
                hypotheses.push(one);
                priors.push(share.ln());
            }
        }
        let middle = merging.merge_ns.ln();
        let level_hypotheses: Vec<(f64, f64)> = (0..LEVELS)
            .flat_map(|step| {
                let level = middle + f64::from(step - LEVELS * 2 / 3) * LEVEL_STEP;
                SPREADS.map(|spread| (level, spread))
            })
            .collect();
        let logs = vec![0.0_f32; (hypotheses.len() + 1) * level_hypotheses.len()];
        let mut inference = Self {
            posterior: vec![0.0; hypotheses.len() + 1],
            hypotheses,
            priors,
            unit_priors,
            logs,
            level_hypotheses,
            ns_per_byte: merging.ns_per_byte,
            merge_ns: merging.merge_ns,
            room: merging.window.end - merging.window.start,
            queries: 0,
        };
        inference.weigh();
        inference
    }

    fn update(&mut self, query: TestWrite, time_ns: f64) {
        let base_ns = self.ns_per_byte * query.length as f64;
        let count = self.level_hypotheses.len();
        // By quantized amount copied, then by level and spread.
        let mut likely = vec![0_f32; COPIED_STEPS * count];
        for step in 0..COPIED_STEPS {
            for (at, &(level, spread)) in self.level_hypotheses.iter().enumerate() {
                let expected_ns = base_ns + level.exp() * copied_at(step);
                let deviation = (time_ns / expected_ns).ln() / spread;
                let peak = (1.0 - OUTLIER) * (-0.5 * deviation * deviation).exp()
                    / (spread * std::f64::consts::TAU.sqrt());
                likely[step * count + at] = (peak + OUTLIER / BREADTH).ln() as f32;
            }
        }
        for (hypotheses, logs) in self.hypotheses.iter_mut().zip(self.logs.chunks_exact_mut(count))
        {
            let step = step_of(hypotheses.write(query));
            add(logs, &likely[step * count..(step + 1) * count]);
        }
        let none = self.hypotheses.len() * count;
        let step = step_of(1.0);
        add(&mut self.logs[none..], &likely[step * count..(step + 1) * count]);
        self.queries += 1;
        self.weigh();
    }

    /// The evidence of a hypothesis, averaged over levels and spreads.
    fn evidence(&self, at: usize) -> f64 {
        let count = self.level_hypotheses.len();
        let logs = &self.logs[at * count..(at + 1) * count];
        log_sum_exp(logs.iter().map(|&log| f64::from(log))) - (count as f64).ln()
    }

    fn weigh(&mut self) {
        let weights: Vec<f64> = (0..self.hypotheses.len())
            .map(|at| self.evidence(at) + self.priors[at] + self.unit_priors[at])
            .chain([self.evidence(self.hypotheses.len()) + NO_STRUCTURE.ln()])
            .collect();
        let total = log_sum_exp(weights.iter().copied());
        for (posterior, weight) in self.posterior.iter_mut().zip(weights) {
            *posterior = (weight - total).exp();
        }
    }

    /// The most likely layout over all merge policies.
    fn likeliest(&self) -> (UnitLayout, f64) {
        let mut best: Option<(UnitLayout, f64)> = None;
        for (at, one) in self.hypotheses.iter().enumerate() {
            if self.posterior[at] < 1e-3 || best.is_some_and(|(layout, _)| layout == one.layout) {
                continue;
            }
            let alike = self.hypotheses.iter().zip(&self.posterior);
            let alike = alike.filter(|(other, _)| other.layout == one.layout);
            let sum: f64 = alike.map(|(_, probability)| probability).sum();
            if best.is_none_or(|(_, other)| sum > other) {
                best = Some((one.layout, sum));
            }
        }
        best.unwrap_or((self.hypotheses[0].layout, self.posterior[0]))
    }

    /// The random test write with the least certain answer. Not close to recent ones, whose units
    /// are still open and cost nothing.
    fn next_query(
        &self,
        meter: &mut Meter<'_>,
        window: &Range<u64>,
        stretch: u64,
        recent: &[TestWrite],
    ) -> TestWrite {
        const TRIED: usize = 40;
        let room = window.end - window.start;
        let keep = SENSING.min(usize::try_from(room / (24 << 20)).unwrap_or(SENSING)).max(4);
        let last = &recent[recent.len().saturating_sub(keep)..];
        let likely: Vec<usize> =
            (0..self.hypotheses.len()).filter(|&at| self.posterior[at] > 1e-6).collect();
        let mut best: Option<(f64, TestWrite)> = None;
        for _ in 0..TRIED {
            let query = self.propose(meter, window, stretch);
            let distance = last
                .iter()
                .map(|other| other.start.abs_diff(query.start))
                .min()
                .unwrap_or(u64::MAX);
            let apart = (distance as f64 / (room as f64 / (2.0 * keep as f64))).min(1.0);
            let score = self.uncertainty(&likely, query) * apart;
            if best.is_none_or(|(other, _)| score > other) {
                best = Some((score, query));
            }
        }
        best.expect("some were tried").1
    }

    /// A test write around a boundary of a likely layout, or anywhere.
    fn propose(&self, meter: &mut Meter<'_>, window: &Range<u64>, stretch: u64) -> TestWrite {
        let layout = self.hypotheses[self.drawn(meter)].layout;
        let lengths = [stretch, stretch, 2 * stretch, layout.unit / 2];
        let drawn = usize::try_from(meter.random.below(4)).expect("it is small");
        let longest = LONGEST_STRETCH.min((window.end - window.start) / 12).max(stretch);
        let length = lengths[drawn].clamp(stretch, longest) / GRAIN * GRAIN;
        let room = window.end - window.start - 2 * length - 2 * GRAIN;
        let anywhere = window.start + length + meter.random.below(room);
        let at = if meter.random.below(4) == 0 {
            anywhere
        } else {
            let number = (anywhere + layout.unit - layout.offset) / layout.unit;
            (number * layout.unit + layout.offset).saturating_sub(layout.unit + length / 2)
        };
        let start = align(at, GRAIN, window).min((window.end - length) / GRAIN * GRAIN);
        TestWrite { start, length }
    }

    fn drawn(&self, meter: &mut Meter<'_>) -> usize {
        // Half of the time weighted by probability, otherwise uniform, so that none is neglected.
        if meter.random.below(2) == 0 {
            return usize::try_from(meter.random.below(self.hypotheses.len() as u64)).unwrap_or(0);
        }
        let mut left = meter.random.below(1 << 32) as f64 / (1_u64 << 32) as f64;
        for (at, probability) in self.posterior[..self.hypotheses.len()].iter().enumerate() {
            left -= probability;
            if left <= 0.0 {
                return at;
            }
        }
        0
    }

    fn uncertainty(&self, likely: &[usize], query: TestWrite) -> f64 {
        let mut shares = [0.0; CLASSES];
        let base_ns = self.ns_per_byte * query.length as f64;
        for &at in likely {
            let time_ns = base_ns + self.merge_ns * self.hypotheses[at].copied(query);
            let class = (time_ns / base_ns).ln() / CLASS_WIDTH;
            shares[(class as usize).min(CLASSES - 1)] += self.posterior[at];
        }
        shares.iter().filter(|&&share| share > 0.0).map(|share| -share * share.ln()).sum()
    }

    fn result(&self) -> MergeEvidence {
        let (layout, probability) = self.likeliest();
        let alike = self.hypotheses.iter().zip(&self.posterior);
        let alike = alike.filter(|(one, _)| one.layout.unit == layout.unit);
        let (mut in_order, mut all) = (0.0, f64::MIN_POSITIVE);
        for (one, posterior) in alike {
            all += posterior;
            in_order += if one.is_in_order() { *posterior } else { 0.0 };
        }
        let mut log_likelihoods: Vec<(u64, f64)> = Vec::new();
        for (at, one) in self.hypotheses.iter().enumerate() {
            let log = self.evidence(at) + self.priors[at];
            match log_likelihoods.last_mut() {
                Some((unit, sum)) if *unit == one.layout.unit => {
                    *sum = log_sum_exp([*sum, log].into_iter());
                }
                _ => log_likelihoods.push((one.layout.unit, log)),
            }
        }
        unify_large_ones(&mut log_likelihoods, self.room);
        MergeEvidence {
            layout,
            probability,
            log_likelihoods,
            log_nothing: self.evidence(self.hypotheses.len()),
            queries: self.queries,
            in_order: in_order / all,
        }
    }
}

/// Sizes of which few fit into the window have too few boundaries in it to be told apart.
fn unify_large_ones(log_likelihoods: &mut [(u64, f64)], room: u64) {
    let is_large = |unit: u64| unit.saturating_mul(LEAST_UNITS) > room;
    let large = log_likelihoods.iter().filter(|(unit, _)| is_large(*unit));
    let best = large.map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
    for (_, log) in log_likelihoods.iter_mut().filter(|(unit, _)| is_large(*unit)) {
        *log = best;
    }
}

/// The amount copied at a quantization step, in units.
fn copied_at(step: usize) -> f64 {
    if step == 0 { 0.0 } else { MIN_COPIED * (step as f64 * COPIED_STEP).exp() }
}

fn step_of(copied: f64) -> usize {
    let steps = (copied.max(MIN_COPIED) / MIN_COPIED).ln() / COPIED_STEP;
    (steps.round() as usize).min(COPIED_STEPS - 1)
}

fn add(logs: &mut [f32], more: &[f32]) {
    for (log, more) in logs.iter_mut().zip(more) {
        *log += more;
    }
}
