//! The findings of a reading-only probe, and what a plot shows of it.

use flashfit_medium::Bytes;

use super::confirm::spread;
use super::question::{COARSE, Shares};
use super::scores::{Crossing, aligned, as_float};
use super::session::Session;
use super::{LARGEST_WRITE_UNIT, Search};
use crate::belief::median;
use crate::findings::{Candidate, Finding, Findings, SURE, Value};
use crate::probed::{Point, Probed, Series};

/// A look-up in the fastest map, over the slowest way to it: what is shorter is the host's or the
/// bus's.
const LEAST_LOOKUP_NS: f64 = 5000.0;
/// Reading a page of SLC takes 25 us; of what is shorter no flash is the cause.
const LEAST_PAGE_NS: f64 = 10_000.0;
/// The same in parts of a read.
const LEAST_SHARE: f64 = 0.01;
/// Half of the reads' 95 % interval of a median, in standard deviations of its rank.
const TWO_SIDED_95: f64 = 1.96;

/// A step at the boundaries of a unit.
#[derive(Debug, Clone, Copy)]
pub struct Step {
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

/// The step at a unit, of medians.
pub fn step(crossings: &[Crossing], unit: u64) -> Step {
    // Of smaller boundaries only those that are nearly as large, so that what write units cost is
    // on both sides.
    let power = 1u64 << unit.trailing_zeros();
    let finest = (power / 8).clamp(COARSE.min(power / 2), LARGEST_WRITE_UNIT);
    let like: Vec<Crossing> =
        crossings.iter().copied().filter(|crossing| crossing.centre % finest == 0).collect();
    let rest = aligned(&like);
    let of = |across: bool| -> Vec<f64> {
        let pairs = like.iter().zip(&rest);
        let wanted = pairs.filter(|(crossing, _)| (crossing.centre % unit == 0) == across);
        wanted.map(|(_, rest)| *rest).collect()
    };
    let (across, beside) = (of(true), of(false));
    let times = like.iter().filter(|crossing| crossing.centre % unit != 0);
    let times: Vec<f64> = times.map(|crossing| as_float(crossing.elapsed_ns)).collect();
    Step {
        ns: median(&across) - median(&beside),
        spread_ns: spread(&beside),
        base_ns: median(&times),
        across: across.len(),
        beside: beside.len(),
    }
}

impl Step {
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

/// What the reads come to.
pub fn conclude(search: Search, mut session: Session<'_>) -> Probed {
    let mut findings = Findings {
        erase_unit: erase_unit(&search),
        write_unit: write_unit(&search),
        page: page(&search),
        ..Findings::default()
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
        *finding = Finding::not_measured(writing);
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
             card: a piece of its map, not an erase unit.",
            Bytes(*unit)
        ));
    }
    if !probed.errors.is_empty() {
        let failed = probed.errors.len();
        probed.notes.push(format!("{failed} reads failed; they are in no figure."));
    }
    probed
}

fn erase_unit(search: &Search) -> Finding {
    let candidates = search.belief.shown();
    let Some((unit, probability)) = search.belief.answer() else {
        return Finding::inconclusive(nothing_shows(search), candidates);
    };
    let step = step(&search.crossings, unit);
    if !step.is_at_least(LEAST_LOOKUP_NS) {
        let reason = format!("{}, too little for flash to be the cause", step.told(unit));
        return Finding::inconclusive(reason, candidates);
    }
    let confidence = probability * search.remains;
    if confidence < SURE {
        let reason = format!(
            "{}, but whether that is so where the card was just read is not clear",
            step.told(unit)
        );
        return Finding {
            confidence: Some(confidence),
            ..Finding::inconclusive(reason, candidates)
        };
    }
    let found = Finding::found(Value::Bytes(unit), confidence, step.told(unit));
    Finding { candidates, ..found }
}

/// Why there is no erase unit: no step, or several sizes that could be it.
fn nothing_shows(search: &Search) -> String {
    let (likeliest, probability) = search.belief.likeliest();
    let coarse: Vec<Crossing> =
        search.crossings.iter().copied().filter(|read| read.centre % COARSE == 0).collect();
    if coarse.is_empty() {
        return "no read across a boundary succeeded".to_owned();
    }
    let rest = aligned(&coarse);
    let count = rest.len() as f64;
    let least_us = 2.0 * TWO_SIDED_95 * spread(&rest) / (count / 4.0).sqrt() / 1000.0;
    match likeliest.bytes() {
        None if search.write_unit.first().is_some_and(|(size, _)| size.is_some()) => format!(
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

fn shown(shares: &Shares) -> Vec<Candidate> {
    let sizes = shares.iter().filter_map(|&(size, probability)| {
        Some(Candidate { value: Value::Bytes(size?), probability })
    });
    sizes.filter(|candidate| candidate.probability >= 0.001).take(5).collect()
}

fn write_unit(search: &Search) -> Finding {
    let candidates = shown(&search.write_unit);
    let nothing = "reads across boundaries of pages cost no more than reads beside them";
    let Some(&(Some(unit), probability)) = search.write_unit.first() else {
        return Finding::inconclusive(nothing, candidates);
    };
    let step = step(&search.crossings, unit);
    let reason = if !step.is_at_least(LEAST_PAGE_NS) {
        format!("{}, too little for a page of flash", step.told(unit))
    } else if probability < SURE {
        format!("{}, and other sizes explain it as well", step.told(unit))
    } else if unit > LARGEST_WRITE_UNIT / 2 {
        format!("{}: a write unit's or an erase unit's", step.told(unit))
    } else {
        let found = Finding::found(Value::Bytes(unit), probability, step.told(unit));
        return Finding { candidates, ..found };
    };
    Finding::inconclusive(reason, candidates)
}

fn page(search: &Search) -> Finding {
    let candidates = shown(&search.page);
    if let Some(&(Some(page), probability)) = search.page.first() {
        let step = step(&search.crossings, page);
        if probability >= SURE && step.is_at_least(LEAST_PAGE_NS) {
            let found = Finding::found(Value::Bytes(page), probability, step.told(page));
            return Finding { candidates, ..found };
        }
    }
    Finding::inconclusive("no step smaller than the write unit's shows", candidates)
}

/// The median time by the size of the boundary, for powers of two and for three times them.
fn series(crossings: &[Crossing]) -> Vec<Series> {
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
        Series {
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
fn point(unit: u64, sorted: &[f64]) -> Option<Point> {
    if sorted.is_empty() {
        return None;
    }
    let (count, last) = (sorted.len() as f64, sorted.len() - 1);
    let half = TWO_SIDED_95 * count.sqrt() / 2.0;
    let at = |rank: f64| sorted[(rank.max(0.0) as usize).min(last)];
    Some(Point {
        x: as_float(unit),
        y: median(sorted),
        low: at((count / 2.0 - half).floor()),
        high: at((count / 2.0 + half).ceil()),
    })
}
