//! The findings and plot series of the read-only probe.

use flashfit_device::Bytes;

use super::Search;
use super::confirm::{USUAL, spread};
use super::elsewhere::all_multiples_probability;
use super::question::{COARSE, LARGEST_WRITE_UNIT, UnitShares};
use super::regions::RegionKind;
use super::scores::{BoundaryRead, as_float, groups};
use super::session::ReadSession;
use crate::belief::{ANSWERS, median};
use crate::findings::{CandidateValue, GeometryFinding, GeometryFindings, QuantityValue, SURE};
use crate::probed::{PlotPoint, PlotSeries, Probed};

/// The shortest mapping lookup; shorter differences come from the host or the bus.
const MIN_LOOKUP_NS: f64 = 5000.0;
/// The shortest page read (SLC takes 25 us); shorter differences do not come from flash.
const MIN_PAGE_NS: f64 = 10_000.0;
/// The same as a share of a read.
const MIN_SHARE: f64 = 0.01;
/// The fewest reads for a median.
const FEW: usize = 8;
/// Factor from the spread of single values to the standard error of the difference of two medians.
const OF_MEDIANS: f64 = 1.7725;
/// Standard errors of a second step.
const SURELY: f64 = 3.0;
/// Half the 95 % interval of a median, in standard deviations of its rank.
const TWO_SIDED_95: f64 = 1.96;

/// A step at the boundaries of a unit.
#[derive(Debug, Clone, Copy)]
pub struct BoundaryStep {
    /// Extra time of reads across it relative to smaller boundaries, in nanoseconds.
    pub ns: f64,
    /// Spread of equivalent reads, in nanoseconds.
    pub spread_ns: f64,
    /// Time of an adjacent read, in nanoseconds.
    pub base_ns: f64,
    /// Number of reads across.
    pub across: usize,
    /// Number of adjacent reads.
    pub beside: usize,
}

/// The step at a unit: the median over the groups of the difference from reads across boundaries
/// half as large, or similar.
pub fn step(crossings: &[BoundaryRead], unit: u64) -> BoundaryStep {
    let power = 1u64 << unit.trailing_zeros();
    // The cost of smaller units is then the same on both sides.
    [unit / 2, power, power / 2, power / 8]
        .into_iter()
        .map(|finest| step_above(crossings, unit, finest.max(1)))
        .find(|step| step.across >= FEW && step.beside >= FEW)
        .unwrap_or_else(|| step_above(crossings, unit, 1))
}

fn step_above(crossings: &[BoundaryRead], unit: u64, finest: u64) -> BoundaryStep {
    let like: Vec<BoundaryRead> =
        crossings.iter().copied().filter(|crossing| crossing.center % finest == 0).collect();
    let times = |members: &[usize], on_boundary: bool| -> Vec<f64> {
        let members = members.iter().map(|&at| like[at]);
        let wanted = members.filter(|read| (read.center % unit == 0) == on_boundary);
        wanted.map(|read| as_float(read.elapsed_ns)).collect()
    };
    let pairs: Vec<(Vec<f64>, Vec<f64>)> = groups(&like)
        .values()
        .map(|members| (times(members, true), times(members, false)))
        .filter(|(on, off)| !on.is_empty() && !off.is_empty())
        .collect();
    // Weight each difference by its number of reads.
    let differences: Vec<f64> = pairs
        .iter()
        .flat_map(|(on, off)| vec![median(on) - median(off); on.len().min(off.len())])
        .collect();
    let step_ns = median(&differences);
    let (mut rest, mut across) = (Vec::new(), 0);
    for (on, off) in &pairs {
        let on = || on.iter().map(|time| time - step_ns);
        let base = median(&on().chain(off.iter().copied()).collect::<Vec<f64>>());
        rest.extend(off.iter().map(|time| time - base));
        across += on().count();
    }
    let base: Vec<f64> = pairs.iter().flat_map(|(_, off)| off.iter().copied()).collect();
    BoundaryStep {
        ns: step_ns,
        spread_ns: spread(&rest),
        base_ns: median(&base),
        across,
        beside: rest.len(),
    }
}

impl BoundaryStep {
    /// Whether the extra time is significantly too short for a lookup. Then only some boundaries
    /// have the step.
    pub fn is_surely_none(&self) -> bool {
        let reads = self.across.min(self.beside);
        reads >= FEW && self.ns + TWO_SIDED_95 * self.error_ns() < MIN_LOOKUP_NS
    }

    /// The standard error of the extra time, in nanoseconds.
    fn error_ns(&self) -> f64 {
        let reads = self.across.min(self.beside);
        OF_MEDIANS * self.spread_ns / (reads.max(1) as f64).sqrt()
    }

    fn is_at_least(&self, least_ns: f64) -> bool {
        self.ns >= least_ns.max(MIN_SHARE * self.base_ns)
    }

    fn describe(&self, unit: u64) -> String {
        format!(
            "{} reads across multiples of {} took {:.0} us longer than {} adjacent reads, which took \
             {:.0} us (medians)",
            self.across,
            Bytes(unit),
            self.ns / 1000.0,
            self.beside,
            self.base_ns / 1000.0,
        )
    }
}

impl Search {
    /// The step at a unit in the kind of region with the most reads.
    pub fn step(&self, unit: u64) -> (RegionKind, BoundaryStep) {
        let believed = self.believed();
        let of_kind = |kind: RegionKind| {
            let reads = believed.iter().filter(|(of, _)| *of == kind).map(|&(_, read)| read);
            (kind, step(&reads.collect::<Vec<_>>(), unit))
        };
        let steps = [RegionKind::Informative, RegionKind::Uninformative].map(of_kind);
        steps.into_iter().max_by_key(|(_, step)| step.across.min(step.beside)).expect("two kinds")
    }
}

/// The confidence of the current answer, if there is one.
pub fn confidence(search: &Search) -> Option<f64> {
    let (unit, probability) = search.belief.answer()?;
    let confidence = probability * remains(search, unit);
    // The alignment is expensive to evaluate.
    let is_open = confidence >= SURE;
    Some(if is_open { confidence * alignment_probability(search, unit) } else { confidence })
}

/// The probability that the step of a unit remains when the card has just read both sides; the
/// prior if there were too few reads left to check.
fn remains(search: &Search, unit: u64) -> f64 {
    search.map_check_result(unit).unwrap_or(USUAL)
}

/// The probability that all multiples of a unit have its step.
fn alignment_probability(search: &Search, unit: u64) -> f64 {
    all_multiples_probability(&search.believed(), &search.levels, unit)
}

pub fn conclude(search: Search, mut session: ReadSession<'_>) -> Probed {
    let erase_block = erase_block(&search);
    let found = match erase_block.value {
        Some(QuantityValue::Bytes(bytes)) => Some(bytes),
        _ => None,
    };
    let findings = GeometryFindings {
        erase_block,
        write_unit: write_unit(&search, found),
        page: page(&search),
        ..GeometryFindings::uniform(&GeometryFinding::not_measured("requires writing"))
    };
    let elapsed_ns = session.elapsed_ns();
    let mut probed = std::mem::take(&mut session.probed);
    probed.findings = findings;
    probed.elapsed_ns = elapsed_ns;
    probed.evidence.series = series(&search.crossings);
    for &unit in &search.disproved {
        let percent = 100.0 * (1.0 - search.map_check_result(unit).unwrap_or(0.0));
        probed.notes.push(format!(
            "Reads across multiples of {} take longer only if the card has not read the place \
             recently (mapping table), or only at some of them: with a probability of {:.1} %, \
             this is not an erase block.",
            Bytes(unit),
            percent.min(99.9)
        ));
    }
    probed.belief = Some(search.belief);
    if !probed.errors.is_empty() {
        let failed = probed.errors.len();
        probed.notes.push(format!("{failed} reads failed; no figure includes them."));
    }
    probed
}

fn erase_block(search: &Search) -> GeometryFinding {
    let candidates = search.belief.shown();
    let Some((unit, probability)) = search.belief.answer() else {
        return GeometryFinding::inconclusive(nothing_shows(search), candidates);
    };
    let (_, step) = search.step(unit);
    if !step.is_at_least(MIN_LOOKUP_NS) {
        let reason = format!("{}, too little to be caused by flash", step.describe(unit));
        return GeometryFinding::inconclusive(reason, candidates);
    }
    let here = alignment_probability(search, unit);
    if here < SURE {
        let reason = format!(
            "{}, but not all of them: erase blocks may start elsewhere",
            step.describe(unit)
        );
        return GeometryFinding {
            confidence: Some(probability * here),
            ..GeometryFinding::inconclusive(reason, candidates)
        };
    }
    let confidence = probability * here * remains(search, unit);
    if confidence < SURE {
        let reason = format!(
            "{}, but it is unclear whether this holds everywhere and for recently read places",
            step.describe(unit)
        );
        return GeometryFinding {
            confidence: Some(confidence),
            ..GeometryFinding::inconclusive(reason, candidates)
        };
    }
    let reason = step.describe(unit) + &smaller_step(search, unit).unwrap_or_default();
    let found = GeometryFinding::found(QuantityValue::Bytes(unit), confidence, reason);
    GeometryFinding { candidates, ..found }
}

/// A clause about a second step that is too large for a write unit. What is aligned to the unit is
/// aligned to the smaller size, too.
fn smaller_step(search: &Search, unit: u64) -> Option<String> {
    // All are across multiples of the write unit, whose own step is not a second one.
    let write_unit = search.small.write_unit.first().and_then(|(write_unit, _)| *write_unit);
    let grid = write_unit.unwrap_or(1);
    let is_other = |read: &BoundaryRead| read.center % unit != 0 && read.center % grid == 0;
    let reads = search.believed().into_iter().map(|(_, read)| read);
    let others: Vec<BoundaryRead> = reads.filter(is_other).collect();
    let levels = search.levels.iter().copied().filter(|level| !search.disproved.contains(level));
    let (level, step) = levels
        .chain([unit / 2])
        .filter(|&level| (2 * LARGEST_WRITE_UNIT..unit).contains(&level) && unit % level == 0)
        .map(|level| (level, step(&others, level)))
        .filter(|(_, step)| write_unit.is_none() || step.across.min(step.beside) >= FEW)
        .filter(|(_, step)| step.is_at_least(MIN_LOOKUP_NS) && step.ns > SURELY * step.error_ns())
        .max_by_key(|(level, _)| *level)?;
    let step_us = step.ns / 1000.0;
    Some(format!(
        "; those across other multiples of {} took {step_us:.0} us longer, so erase blocks may be \
         of either size",
        Bytes(level)
    ))
}

/// A short time for people.
fn short_time(ns: f64) -> String {
    if ns >= 1000.0 { format!("{:.1} us", ns / 1000.0) } else { format!("{ns:.0} ns") }
}

/// Why no erase block was found: no step, or several possible sizes.
fn nothing_shows(search: &Search) -> String {
    let (likeliest, probability) = search.belief.likeliest();
    let coarse: Vec<BoundaryRead> =
        search.informative_reads().into_iter().filter(|read| read.center % COARSE == 0).collect();
    if coarse.is_empty() {
        return "no read across a boundary succeeded".to_owned();
    }
    let mut rest = Vec::new();
    for members in groups(&coarse).values() {
        let times: Vec<f64> = members.iter().map(|&at| as_float(coarse[at].elapsed_ns)).collect();
        let middle = median(&times);
        rest.extend(times.iter().map(|time| time - middle));
    }
    let count = rest.len() as f64;
    let least_ns = 2.0 * TWO_SIDED_95 * spread(&rest) / (count / 4.0).sqrt();
    // Shorter differences count as none, however little the times vary.
    let all: Vec<f64> = coarse.iter().map(|read| as_float(read.elapsed_ns)).collect();
    let least = short_time(least_ns.max(MIN_SHARE * median(&all)));
    match likeliest.bytes() {
        None if search.small.write_unit.first().is_some_and(|(size, _)| size.is_some()) => format!(
            "reads across large boundaries cost no more than those across boundaries of the write \
             unit (less than {least})"
        ),
        None => format!(
            "reads across boundaries of any size cost no more than adjacent reads (less than \
             {least})"
        ),
        Some(unit) if probability >= SURE && unit > *ANSWERS.end() => format!(
            "reads across multiples of {} take longer, but erase blocks are at most {}",
            Bytes(unit),
            Bytes(*ANSWERS.end())
        ),
        Some(unit) => format!(
            "the read times vary too much: {} is most likely with {:.0} %",
            Bytes(unit),
            100.0 * probability
        ),
    }
}

fn shown(shares: &UnitShares) -> Vec<CandidateValue> {
    let sizes = shares.iter().filter_map(|&(size, probability)| {
        Some(CandidateValue { value: QuantityValue::Bytes(size?), probability })
    });
    sizes.filter(|candidate| candidate.probability >= 0.001).take(5).collect()
}

fn write_unit(search: &Search, erase_block: Option<u64>) -> GeometryFinding {
    let candidates = shown(&search.small.write_unit);
    let nothing = "reads across page boundaries cost no more than adjacent reads";
    let Some(&(Some(unit), probability)) = search.small.write_unit.first() else {
        return GeometryFinding::inconclusive(nothing, candidates);
    };
    let step = step(&search.informative_reads(), unit);
    let reason = if !step.is_at_least(MIN_PAGE_NS) {
        format!("{}, too little for a page of flash", step.describe(unit))
    } else if probability < SURE {
        format!("{}, but other sizes explain it as well", step.describe(unit))
    } else if unit >= *ANSWERS.start()
        && erase_block.is_none_or(|erase_block| unit > erase_block / 8)
    {
        // It may come from a small erase block.
        format!("{}: a write unit or an erase block", step.describe(unit))
    } else {
        let found =
            GeometryFinding::found(QuantityValue::Bytes(unit), probability, step.describe(unit));
        return GeometryFinding { candidates, ..found };
    };
    GeometryFinding::inconclusive(reason, candidates)
}

fn page(search: &Search) -> GeometryFinding {
    let candidates = shown(&search.small.page);
    if let Some(&(Some(page), probability)) = search.small.page.first() {
        let step = step(&search.informative_reads(), page);
        if probability >= SURE && step.is_at_least(MIN_PAGE_NS) {
            let found = GeometryFinding::found(
                QuantityValue::Bytes(page),
                probability,
                step.describe(page),
            );
            return GeometryFinding { candidates, ..found };
        }
    }
    GeometryFinding::inconclusive("no step below that of the write unit is visible", candidates)
}

/// The median time by boundary size, for powers of two and for three times them.
fn series(crossings: &[BoundaryRead]) -> Vec<PlotSeries> {
    let line = |name: &str, odd: u64| {
        let points = (0..40).filter_map(|exponent| {
            let unit = odd << exponent;
            let on = crossings.iter().filter(|read| {
                read.center % unit == 0
                    && read.center % (2 * unit) != 0
                    && (odd == 3 || read.center % 3 != 0)
            });
            let mut times: Vec<f64> = on.map(|read| as_float(read.elapsed_ns)).collect();
            times.sort_by(f64::total_cmp);
            point(unit, &times)
        });
        PlotSeries {
            name: name.to_owned(),
            x_unit: "bytes".to_owned(),
            y_unit: "ns".to_owned(),
            points: points.collect(),
        }
    };
    let lines =
        [line("reads across multiples of 2^k", 1), line("reads across multiples of 3 x 2^k", 3)];
    lines.into_iter().filter(|line| !line.points.is_empty()).collect()
}

/// The median of sorted times with the interval from its rank.
fn point(unit: u64, sorted: &[f64]) -> Option<PlotPoint> {
    if sorted.is_empty() {
        return None;
    }
    let (count, last) = (sorted.len() as f64, sorted.len() - 1);
    let half = TWO_SIDED_95 * count.sqrt() / 2.0;
    let at = |rank: f64| sorted[(rank.max(0.0) as usize).min(last)];
    Some(PlotPoint {
        x: as_float(unit),
        y: median(sorted),
        low: at((count / 2.0 - half).floor()),
        high: at((count / 2.0 + half).ceil()),
    })
}
