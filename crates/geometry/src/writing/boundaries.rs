//! Where erase blocks begin, told by what it costs to write across.
//!
//! A layer that maps whole erase blocks (or parts of them) keeps a few of them open. When writes go
//! to ever other places, each place opens the unit that it lies in, and another one has to give
//! way: it is merged, which copies about a unit. A stretch with a boundary inside opens two units
//! and costs two merges. So each stretch is a question about where boundaries lie, answered by one
//! merge or two, and a posterior over unit and offset says which stretch to ask next. What is
//! learnt is the unit in which the layer opens and merges. Limits: units up to a sixth of the
//! written window; a page-mapped layer has no such boundaries, which shows beforehand
//! ([`SensedMerging::sense`]). Source: Kim et al., "A space-efficient flash translation layer for
//! CompactFlash systems" (2002) for the merges; the choice of questions is that of Lindley, "On a
//! measure of the information provided by an experiment" (1956).

use std::ops::Range;

use super::layout::{LayoutHypothesis, UnitLayout};
use super::meter::{MeasurementStop, Meter};
use crate::belief::{ANSWERS, DeviceStructure, GeometryBelief, log_sum_exp, median};
use crate::probed::SamplePurpose;

/// The shortest stretch; small writes go to a log of their own on some devices.
pub const LEAST_STRETCH: u64 = 96 << 10;
/// Stretches begin at multiples of it, and offsets are told to it.
const GRAIN: u64 = 32 << 10;
/// Places that are written before merges are looked for: more than devices keep open.
const SENSING: usize = 24;
/// A stretch costs a merge when it takes so many times what writing in order takes.
const MERGING: f64 = 1.6;
/// It is clear that it does when it takes so many times more.
const CLEARLY: f64 = 3.0;
/// The longest stretch.
const LONGEST_STRETCH: u64 = 8 << 20;
/// Questions that are asked at least, and at most.
const QUESTIONS: Range<usize> = 14..140;
/// The posterior of the answer at which no more is asked.
const ENOUGH: f64 = 0.9995;
/// One cost in so many has nothing to do with boundaries.
const ASTRAY: f64 = 0.06;
/// Supposed spreads of the logarithm of a time.
const SPREADS: [f64; 3] = [0.12, 0.25, 0.5];
/// Supposed costs of a merge, in steps of the logarithm about what was sensed.
const LEVELS: i32 = 18;
const LEVEL_STEP: f64 = 0.13;
/// What is copied for a stretch is told in steps of its logarithm, from this part of a unit on.
const COPIED_STEP: f64 = 0.06;
const COPIED_STEPS: usize = 160;
const LEAST_COPIED: f64 = 0.03;
/// Times that differ by less than this, as a logarithm, are taken to tell nothing.
const CLASS_WIDTH: f64 = 0.4;
const CLASSES: usize = 16;
/// Over how much costs can lie at all, as a logarithm.
const BREADTH: f64 = 8.0;
/// How likely it is beforehand that costs have nothing to do with boundaries.
const NOTHING: f64 = 0.1;

/// A device that merges, as sensed.
#[derive(Debug, Clone)]
pub struct SensedMerging {
    /// What was written in order before, so that merges have something to copy.
    pub window: Range<u64>,
    /// What writing in order takes, in nanoseconds a byte.
    pub ns_per_byte: f64,
    /// What a stretch typically takes more than that.
    pub merge_ns: f64,
    /// The stretches that were written for it, which leave units open.
    sensed: Vec<TestWrite>,
}

/// A stretch that is written.
#[derive(Debug, Clone, Copy)]
pub struct TestWrite {
    /// Where it begins, in bytes.
    pub start: u64,
    /// Its length, in bytes.
    pub length: u64,
}

/// What the costs say.
#[derive(Debug)]
pub struct MergeEvidence {
    /// The likeliest layout and its probability among those considered.
    pub layout: UnitLayout,
    /// Its probability.
    pub probability: f64,
    /// The log-likelihood of each size.
    pub log_likelihoods: Vec<(u64, f64)>,
    /// The log-likelihood of costs that have nothing to do with boundaries.
    pub log_nothing: f64,
    /// How many stretches were written.
    pub questions: usize,
    /// How likely it is that units are written in order, behind copies of what lies before.
    pub in_order: f64,
}

impl SensedMerging {
    /// Writes to ever other places of a written window; `None` when that costs little more than
    /// writing in order.
    pub fn sense(
        meter: &mut Meter<'_>,
        window: &Range<u64>,
        ns_per_byte: f64,
    ) -> Result<Option<Self>, MeasurementStop> {
        let room = (window.end - window.start) / SENSING as u64;
        let (mut costs, mut in_order, mut sensed) = (Vec::new(), Vec::new(), Vec::new());
        // Stretches in order first: what they cost more than large requests is no merge.
        let first = align(window.start, GRAIN, window);
        for number in 0..SENSING as u64 {
            let at = first + number * LEAST_STRETCH;
            in_order.push(meter.write(SamplePurpose::WriteLinear, at, LEAST_STRETCH)?);
            sensed.push(TestWrite { start: at, length: LEAST_STRETCH });
        }
        let mut order: Vec<u64> = (0..SENSING as u64).collect();
        meter.random.shuffle(&mut order);
        for place in order {
            let within = meter.random.below((room - LEAST_STRETCH).max(1)) / GRAIN * GRAIN;
            let at = align(window.start + place * room + within, GRAIN, window);
            costs.push(meter.write(SamplePurpose::WriteRandom, at, LEAST_STRETCH)?);
            sensed.push(TestWrite { start: at, length: LEAST_STRETCH });
        }
        let settled = median(&costs[SENSING / 2..]);
        let in_order = median(&in_order).max(ns_per_byte * LEAST_STRETCH as f64);
        let merge_ns = settled - in_order;
        let merging = Self { window: window.clone(), ns_per_byte, merge_ns, sensed };
        Ok((settled > MERGING * in_order).then_some(merging))
    }

    /// Whether merges, and not something less, are what writes cost.
    pub fn is_clear(&self) -> bool {
        self.merge_ns > CLEARLY * self.ns_per_byte * LEAST_STRETCH as f64
    }

    /// Asks until the layout is known or more would not help.
    pub fn tell(
        &self,
        meter: &mut Meter<'_>,
        belief: &GeometryBelief,
        most_ns: u64,
    ) -> Result<MergeEvidence, MeasurementStop> {
        let mut inference = Inference::new(belief, self);
        let mut recent: Vec<TestWrite> = Vec::new();
        let from_ns = meter.elapsed_ns();
        while inference.asked < QUESTIONS.end {
            if inference.asked >= QUESTIONS.start {
                let (_, probability) = inference.likeliest();
                let late = meter.elapsed_ns() - from_ns > most_ns;
                if probability > ENOUGH || late {
                    break;
                }
            }
            let question = inference.next_question(meter, &self.window, &recent);
            let time_ns =
                match meter.write(SamplePurpose::WriteRandom, question.start, question.length) {
                    Err(MeasurementStop::Spent) if inference.asked >= QUESTIONS.start => break,
                    other => other?,
                };
            inference.learn(question, time_ns);
            recent.push(question);
        }
        Ok(inference.told())
    }
}

fn align(at: u64, grain: u64, window: &Range<u64>) -> u64 {
    (at / grain * grain).max(window.start.next_multiple_of(grain))
}

/// The posterior over layouts and ways of merging.
struct Inference {
    supposed: Vec<LayoutHypothesis>,
    /// The logarithms of how likely each is beforehand within its size, and of its size.
    priors: Vec<f64>,
    unit_priors: Vec<f64>,
    /// For each, and last for none, the log-likelihood under each supposed level and spread.
    logs: Vec<f32>,
    suppositions: Vec<(f64, f64)>,
    posterior: Vec<f64>,
    /// What writing in order takes, and what a merge typically takes more.
    ns_per_byte: f64,
    merge_ns: f64,
    asked: usize,
}

impl Inference {
    fn new(belief: &GeometryBelief, merging: &SensedMerging) -> Self {
        let room = merging.window.end - merging.window.start;
        let units = belief.candidates().filter_map(DeviceStructure::bytes);
        let (mut supposed, mut priors, mut unit_priors) = (Vec::new(), Vec::new(), Vec::new());
        for unit in units.filter(|unit| *unit >= *ANSWERS.start() && *unit <= room / 6) {
            let all = LayoutHypothesis::of_unit(unit, GRAIN);
            let of_unit = belief.probability(DeviceStructure::Unit(unit)).max(1e-12).ln();
            unit_priors.resize(unit_priors.len() + all.len(), of_unit);
            for (mut one, share) in all {
                for stretch in &merging.sensed {
                    one.write(*stretch);
                }
                supposed.push(one);
                priors.push(share.ln());
            }
        }
        let middle = merging.merge_ns.ln();
        let suppositions: Vec<(f64, f64)> = (0..LEVELS)
            .flat_map(|step| {
                let level = middle + f64::from(step - LEVELS * 2 / 3) * LEVEL_STEP;
                SPREADS.map(|spread| (level, spread))
            })
            .collect();
        let logs = vec![0.0_f32; (supposed.len() + 1) * suppositions.len()];
        let mut inference = Self {
            posterior: vec![0.0; supposed.len() + 1],
            supposed,
            priors,
            unit_priors,
            logs,
            suppositions,
            ns_per_byte: merging.ns_per_byte,
            merge_ns: merging.merge_ns,
            asked: 0,
        };
        inference.weigh();
        inference
    }

    fn learn(&mut self, question: TestWrite, time_ns: f64) {
        let base_ns = self.ns_per_byte * question.length as f64;
        let count = self.suppositions.len();
        // By the step of what is copied, then by supposition.
        let mut likely = vec![0_f32; COPIED_STEPS * count];
        for step in 0..COPIED_STEPS {
            for (at, &(level, spread)) in self.suppositions.iter().enumerate() {
                let expected_ns = base_ns + level.exp() * copied_at(step);
                let deviation = (time_ns / expected_ns).ln() / spread;
                let peak = (1.0 - ASTRAY) * (-0.5 * deviation * deviation).exp()
                    / (spread * std::f64::consts::TAU.sqrt());
                likely[step * count + at] = (peak + ASTRAY / BREADTH).ln() as f32;
            }
        }
        for (supposed, logs) in self.supposed.iter_mut().zip(self.logs.chunks_exact_mut(count)) {
            let step = step_of(supposed.write(question));
            add(logs, &likely[step * count..(step + 1) * count]);
        }
        let none = self.supposed.len() * count;
        let step = step_of(1.0);
        add(&mut self.logs[none..], &likely[step * count..(step + 1) * count]);
        self.asked += 1;
        self.weigh();
    }

    /// The evidence of each, over all levels and spreads alike.
    fn evidence(&self, at: usize) -> f64 {
        let count = self.suppositions.len();
        let logs = &self.logs[at * count..(at + 1) * count];
        log_sum_exp(logs.iter().map(|&log| f64::from(log))) - (count as f64).ln()
    }

    fn weigh(&mut self) {
        let weights: Vec<f64> = (0..self.supposed.len())
            .map(|at| self.evidence(at) + self.priors[at] + self.unit_priors[at])
            .chain([self.evidence(self.supposed.len()) + NOTHING.ln()])
            .collect();
        let total = log_sum_exp(weights.iter().copied());
        for (posterior, weight) in self.posterior.iter_mut().zip(weights) {
            *posterior = (weight - total).exp();
        }
    }

    /// The likeliest layout, whatever the way of merging.
    fn likeliest(&self) -> (UnitLayout, f64) {
        let mut best: Option<(UnitLayout, f64)> = None;
        for (at, one) in self.supposed.iter().enumerate() {
            if self.posterior[at] < 1e-3 || best.is_some_and(|(layout, _)| layout == one.layout) {
                continue;
            }
            let alike = self.supposed.iter().zip(&self.posterior);
            let alike = alike.filter(|(other, _)| other.layout == one.layout);
            let sum: f64 = alike.map(|(_, probability)| probability).sum();
            if best.is_none_or(|(_, other)| sum > other) {
                best = Some((one.layout, sum));
            }
        }
        best.unwrap_or((self.supposed[0].layout, self.posterior[0]))
    }

    /// Of some stretches at random, the one whose answer is least certain. Not where was asked just
    /// before: what is open still costs nothing.
    fn next_question(
        &self,
        meter: &mut Meter<'_>,
        window: &Range<u64>,
        recent: &[TestWrite],
    ) -> TestWrite {
        const TRIED: usize = 40;
        let room = window.end - window.start;
        let keep = SENSING.min(usize::try_from(room / (24 << 20)).unwrap_or(SENSING)).max(4);
        let last = &recent[recent.len().saturating_sub(keep)..];
        let likely: Vec<usize> =
            (0..self.supposed.len()).filter(|&at| self.posterior[at] > 1e-6).collect();
        let mut best: Option<(f64, TestWrite)> = None;
        for _ in 0..TRIED {
            let question = self.propose(meter, window);
            let distance = last
                .iter()
                .map(|other| other.start.abs_diff(question.start))
                .min()
                .unwrap_or(u64::MAX);
            let apart = (distance as f64 / (room as f64 / (2.0 * keep as f64))).min(1.0);
            let score = self.uncertainty(&likely, question) * apart;
            if best.is_none_or(|(other, _)| score > other) {
                best = Some((score, question));
            }
        }
        best.expect("some were tried").1
    }

    /// A stretch about a boundary of some likely layout, or anywhere.
    fn propose(&self, meter: &mut Meter<'_>, window: &Range<u64>) -> TestWrite {
        let layout = self.supposed[self.drawn(meter)].layout;
        let lengths = [LEAST_STRETCH, LEAST_STRETCH, 2 * LEAST_STRETCH, layout.unit / 2];
        let drawn = usize::try_from(meter.random.below(4)).expect("it is small");
        let length = lengths[drawn].clamp(LEAST_STRETCH, LONGEST_STRETCH) / GRAIN * GRAIN;
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
        // Half of the time by how likely each is, else all alike, so that none is forgotten.
        if meter.random.below(2) == 0 {
            return usize::try_from(meter.random.below(self.supposed.len() as u64)).unwrap_or(0);
        }
        let mut left = meter.random.below(1 << 32) as f64 / (1_u64 << 32) as f64;
        for (at, probability) in self.posterior[..self.supposed.len()].iter().enumerate() {
            left -= probability;
            if left <= 0.0 {
                return at;
            }
        }
        0
    }

    fn uncertainty(&self, likely: &[usize], question: TestWrite) -> f64 {
        let mut shares = [0.0; CLASSES];
        let base_ns = self.ns_per_byte * question.length as f64;
        for &at in likely {
            let time_ns = base_ns + self.merge_ns * self.supposed[at].copied(question);
            let class = (time_ns / base_ns).ln() / CLASS_WIDTH;
            shares[(class as usize).min(CLASSES - 1)] += self.posterior[at];
        }
        shares.iter().filter(|&&share| share > 0.0).map(|share| -share * share.ln()).sum()
    }

    fn told(&self) -> MergeEvidence {
        let (layout, probability) = self.likeliest();
        let alike = self.supposed.iter().zip(&self.posterior);
        let alike = alike.filter(|(one, _)| one.layout.unit == layout.unit);
        let (mut in_order, mut all) = (0.0, f64::MIN_POSITIVE);
        for (one, posterior) in alike {
            all += posterior;
            in_order += if one.is_in_order() { *posterior } else { 0.0 };
        }
        let mut log_likelihoods: Vec<(u64, f64)> = Vec::new();
        for (at, one) in self.supposed.iter().enumerate() {
            let log = self.evidence(at) + self.priors[at];
            match log_likelihoods.last_mut() {
                Some((unit, sum)) if *unit == one.layout.unit => {
                    *sum = log_sum_exp([*sum, log].into_iter());
                }
                _ => log_likelihoods.push((one.layout.unit, log)),
            }
        }
        MergeEvidence {
            layout,
            probability,
            log_likelihoods,
            log_nothing: self.evidence(self.supposed.len()),
            questions: self.asked,
            in_order: in_order / all,
        }
    }
}

/// What is copied in units, at a step.
fn copied_at(step: usize) -> f64 {
    if step == 0 { 0.0 } else { LEAST_COPIED * (step as f64 * COPIED_STEP).exp() }
}

fn step_of(copied: f64) -> usize {
    let steps = (copied.max(LEAST_COPIED) / LEAST_COPIED).ln() / COPIED_STEP;
    (steps.round() as usize).min(COPIED_STEPS - 1)
}

fn add(logs: &mut [f32], more: &[f32]) {
    for (log, more) in logs.iter_mut().zip(more) {
        *log += more;
    }
}
