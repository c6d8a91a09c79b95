//! The findings of a reading-only probe, and what a plot shows of it.

use flashfit_device::Bytes;

use super::Search;
use super::confirm::{USUAL, spread};
use super::elsewhere::begin_here;
use super::question::{COARSE, UnitShares};
use super::regions::RegionKind;
use super::scores::{BoundaryRead, as_float, groups};
use super::session::ReadSession;
use crate::belief::median;
use crate::findings::{CandidateValue, GeometryFinding, GeometryFindings, QuantityValue, SURE};
use crate::probed::{PlotPoint, PlotSeries, Probed};

/// A look-up in the fastest map, over the slowest way to it: what is shorter is the host's or the
/// bus's.
const LEAST_LOOKUP_NS: f64 = 5000.0;
/// Reading a page of SLC takes 25 us; of what is shorter no flash is the cause.
const LEAST_PAGE_NS: f64 = 10_000.0;
/// The same in parts of a read.
const LEAST_SHARE: f64 = 0.01;
/// Fewer reads are no median.
const FEW: usize = 8;
/// A step at a larger size, in bytes, may be that of a small erase block.
const LARGEST_PLAIN: u64 = 64 << 10;
/// The standard error of the difference of two medians, for the spread of one value and one value.
const OF_MEDIANS: f64 = 1.7725;
/// Half of the reads' 95 % interval of a median, in standard deviations of its rank.
const TWO_SIDED_95: f64 = 1.96;

/// A step at the boundaries of a unit.
#[derive(Debug, Clone, Copy)]
pub struct BoundaryStep {
    /// How much longer reads across it take than those across smaller ones, in nanoseconds.
    pub ns: f64,
    /// How far like reads differ, in nanoseconds.
    pub spread_ns: f64,
    /// How long a read beside it takes, in nanoseconds.
    pub base_ns: f64,
    /// How many reads went across.
    pub across: usize,
    /// How many went beside.
    pub beside: usize,
}

/// The step at a unit: the median over the groups of how much longer its reads take than those
/// across boundaries half as large, or nearly so.
pub fn step(crossings: &[BoundaryRead], unit: u64) -> BoundaryStep {
    let power = 1u64 << unit.trailing_zeros();
    // What smaller units cost is then on both sides.
    [unit / 2, power, power / 2, power / 8]
        .into_iter()
        .map(|finest| step_above(crossings, unit, finest.max(1)))
        .find(|step| step.across >= FEW && step.beside >= FEW)
        .unwrap_or_else(|| step_above(crossings, unit, 1))
}

fn step_above(crossings: &[BoundaryRead], unit: u64, finest: u64) -> BoundaryStep {
    let like: Vec<BoundaryRead> =
        crossings.iter().copied().filter(|crossing| crossing.centre % finest == 0).collect();
    let times = |members: &[usize], on_boundary: bool| -> Vec<f64> {
        let members = members.iter().map(|&at| like[at]);
        let wanted = members.filter(|read| (read.centre % unit == 0) == on_boundary);
        wanted.map(|read| as_float(read.elapsed_ns)).collect()
    };
    let pairs: Vec<(Vec<f64>, Vec<f64>)> = groups(&like)
        .values()
        .map(|members| (times(members, true), times(members, false)))
        .filter(|(on, off)| !on.is_empty() && !off.is_empty())
        .collect();
    // Each difference as often as there are reads to bear on it.
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
    /// Whether reads across surely take too little longer, most of them, for a look-up to be the
    /// cause: then only some boundaries have the step that the belief is in.
    pub fn is_surely_none(&self) -> bool {
        let reads = self.across.min(self.beside);
        let error = OF_MEDIANS * self.spread_ns / (reads.max(1) as f64).sqrt();
        reads >= FEW && self.ns + TWO_SIDED_95 * error < LEAST_LOOKUP_NS
    }

    fn is_at_least(&self, least_ns: f64) -> bool {
        self.ns >= least_ns.max(LEAST_SHARE * self.base_ns)
    }

    fn told(&self, unit: u64) -> String {
        format!(
            "{} reads across multiples of {} took {:.0} us longer than {} beside them, which took \
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
    /// The step at a unit, in the kind of parts in which it was looked at most.
    pub fn step(&self, unit: u64) -> (RegionKind, BoundaryStep) {
        let believed = self.believed();
        let of_kind = |kind: RegionKind| {
            let reads = believed.iter().filter(|(of, _)| *of == kind).map(|&(_, read)| read);
            (kind, step(&reads.collect::<Vec<_>>(), unit))
        };
        let steps = [RegionKind::Telling, RegionKind::Silent].map(of_kind);
        steps.into_iter().max_by_key(|(_, step)| step.across.min(step.beside)).expect("two kinds")
    }
}

/// How sure the answer would be, if there is one.
pub fn confidence(search: &Search) -> Option<f64> {
    let (unit, probability) = search.belief.answer()?;
    let confidence = probability * remains(search, unit);
    // Where units begin takes long to weigh.
    let is_open = confidence >= SURE;
    Some(if is_open { confidence * begins_here(search, unit) } else { confidence })
}

/// How likely the step of a unit is still there where the card was just read. Where there were too
/// few reads left to look at it, as likely as it usually is.
fn remains(search: &Search, unit: u64) -> f64 {
    search.looked_at(unit).unwrap_or(USUAL)
}

/// How likely all multiples of a unit have its step.
fn begins_here(search: &Search, unit: u64) -> f64 {
    begin_here(&search.believed(), &search.levels, unit)
}

/// What the reads come to.
pub fn conclude(search: Search, mut session: ReadSession<'_>) -> Probed {
    let erase_unit = erase_unit(&search);
    let found = match erase_unit.value {
        Some(QuantityValue::Bytes(bytes)) => Some(bytes),
        _ => None,
    };
    let mut findings = GeometryFindings {
        erase_unit,
        write_unit: write_unit(&search, found),
        page: page(&search),
        ..GeometryFindings::default()
    };
    let writing = "reads alone cannot show it; --write measures it";
    for finding in [
        &mut findings.capacity,
        &mut findings.erase_unit_offset,
        &mut findings.open_units_linear,
        &mut findings.open_units_random,
        &mut findings.small_write_log,
        &mut findings.special_zone,
        &mut findings.pslc_cache,
        &mut findings.unwritten_is_faster,
    ] {
        *finding = GeometryFinding::not_measured(writing);
    }
    let elapsed_ns = session.elapsed_ns();
    let mut probed = std::mem::take(&mut session.probed);
    probed.findings = findings;
    probed.elapsed_ns = elapsed_ns;
    probed.evidence.series = series(&search.crossings);
    probed.belief = Some(search.belief);
    for unit in &search.disproved {
        probed.notes.push(format!(
            "Reads across multiples of {} take longer only as long as the place is new to the \
             card, as at a piece of its map, or only at some: they are no erase unit's.",
            Bytes(*unit)
        ));
    }
    if !probed.errors.is_empty() {
        let failed = probed.errors.len();
        probed.notes.push(format!("{failed} reads failed; they are in no figure."));
    }
    probed
}

fn erase_unit(search: &Search) -> GeometryFinding {
    let candidates = search.belief.shown();
    let Some((unit, probability)) = search.belief.answer() else {
        return GeometryFinding::inconclusive(nothing_shows(search), candidates);
    };
    let (_, step) = search.step(unit);
    if !step.is_at_least(LEAST_LOOKUP_NS) {
        let reason = format!("{}, too little for flash to be the cause", step.told(unit));
        return GeometryFinding::inconclusive(reason, candidates);
    }
    let here = begins_here(search, unit);
    if here < SURE {
        let reason = format!("{}, but not all of them: units may begin elsewhere", step.told(unit));
        return GeometryFinding {
            confidence: Some(probability * here),
            ..GeometryFinding::inconclusive(reason, candidates)
        };
    }
    let confidence = probability * here * remains(search, unit);
    if confidence < SURE {
        let reason = format!(
            "{}, but whether that is so everywhere, and where the card was just read, is not clear",
            step.told(unit)
        );
        return GeometryFinding {
            confidence: Some(confidence),
            ..GeometryFinding::inconclusive(reason, candidates)
        };
    }
    let found = GeometryFinding::found(QuantityValue::Bytes(unit), confidence, step.told(unit));
    GeometryFinding { candidates, ..found }
}

/// Why there is no erase block: no step, or several sizes that could be it.
fn nothing_shows(search: &Search) -> String {
    let (likeliest, probability) = search.belief.likeliest();
    let coarse: Vec<BoundaryRead> =
        search.telling().into_iter().filter(|read| read.centre % COARSE == 0).collect();
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
    let least_us = 2.0 * TWO_SIDED_95 * spread(&rest) / (count / 4.0).sqrt() / 1000.0;
    match likeliest.bytes() {
        None if search.small.write_unit.first().is_some_and(|(size, _)| size.is_some()) => format!(
            "reads across large boundaries cost no more than those across boundaries of the write \
             unit (less than {least_us:.1} us)"
        ),
        None => format!(
            "reads across boundaries of any size cost no more than reads beside them (less than \
             {least_us:.1} us)"
        ),
        Some(unit) => format!(
            "the reads differ too much from each other: {} is likeliest, with {:.0} %",
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

fn write_unit(search: &Search, erase_unit: Option<u64>) -> GeometryFinding {
    let candidates = shown(&search.small.write_unit);
    let nothing = "reads across boundaries of pages cost no more than reads beside them";
    let Some(&(Some(unit), probability)) = search.small.write_unit.first() else {
        return GeometryFinding::inconclusive(nothing, candidates);
    };
    let step = step(&search.telling(), unit);
    let reason = if !step.is_at_least(LEAST_PAGE_NS) {
        format!("{}, too little for a page of flash", step.told(unit))
    } else if probability < SURE {
        format!("{}, and other sizes explain it as well", step.told(unit))
    } else if unit > LARGEST_PLAIN && erase_unit.is_none_or(|erase_unit| unit > erase_unit / 8) {
        format!("{}: a write unit's or an erase unit's", step.told(unit))
    } else {
        let found =
            GeometryFinding::found(QuantityValue::Bytes(unit), probability, step.told(unit));
        return GeometryFinding { candidates, ..found };
    };
    GeometryFinding::inconclusive(reason, candidates)
}

fn page(search: &Search) -> GeometryFinding {
    let candidates = shown(&search.small.page);
    if let Some(&(Some(page), probability)) = search.small.page.first() {
        let step = step(&search.telling(), page);
        if probability >= SURE && step.is_at_least(LEAST_PAGE_NS) {
            let found =
                GeometryFinding::found(QuantityValue::Bytes(page), probability, step.told(page));
            return GeometryFinding { candidates, ..found };
        }
    }
    GeometryFinding::inconclusive("no step smaller than the write unit's shows", candidates)
}

/// The median time by the size of the boundary, for powers of two and for three times them.
fn series(crossings: &[BoundaryRead]) -> Vec<PlotSeries> {
    let line = |name: &str, odd: u64| {
        let points = (0..40).filter_map(|exponent| {
            let unit = odd << exponent;
            let on = crossings.iter().filter(|read| {
                read.centre % unit == 0
                    && read.centre % (2 * unit) != 0
                    && (odd == 3 || read.centre % 3 != 0)
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

/// The median of sorted times with the interval that its rank has.
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
