//! Infers the geometry of a device, with confidence, from flashbench's tables.
//!
//! Alignment tables show the erase block, the write unit and the page ([`align_step`]). Open-unit
//! tables show the open erase blocks, beyond a steep cliff also the erase block ([`cliff`]), and
//! the log for small writes (`small_log`). Find-FAT tables show the zone at the start (`zone`). All
//! evidence about the erase block is combined in one [`GeometryBelief`] (`erase_block`).
//! [`heuristic`] computes the guess of the CELF methodology for comparison.

pub mod align_step;
pub mod cliff;
mod erase_block;
pub mod heuristic;
mod segments;
mod small_log;
mod zone;

use std::collections::BTreeSet;

use flashfit_device::Bytes;

use super::{AccessOrder, Imported, OpenBlockTable};
use crate::belief::{ANSWERS, GeometryBelief};
use crate::findings::{CandidateValue, GeometryFinding, GeometryFindings, QuantityValue, SURE};
use crate::probed::{PlotPoint, PlotSeries, ProbeEvidence, Probed};
use align_step::{PooledRow, SoughtStep, StepEvidence};
use cliff::{Cliff, CopyLikelihood};
use erase_block::{SizeEvidence, rows_lack};

/// Assumed capacity without an alignment table: the smallest devices sold.
const SUPPOSED_CAPACITY_BYTES: u64 = 1 << 30;
/// An alignment table starts at the first power of two that is at least a seventh of the device.
const PLACES: u64 = 7;
/// Write size of the series of rates by units.
const SHOWN_WRITE: Bytes = Bytes::kib(64);
/// The reason for a table without a visible step.
const WITHOUT_STEP: &str = "no persistent step between alignments exceeds the noise";

/// Infers findings from the tables of one device.
pub fn infer(imported: &Imported) -> Probed {
    let rows = align_step::pool(&imported.align);
    let largest = rows.last().map(|row| row.align.0);
    let capacity =
        largest.map_or(SUPPOSED_CAPACITY_BYTES, |align| align.saturating_mul(PLACES) / 2);
    let mut sizes = SizeEvidence::new(capacity, StepEvidence::of(&rows, SoughtStep::Erase));
    let cliffs = [AccessOrder::Linear, AccessOrder::Random]
        .map(|access| (access, Cliff::of(&imported.open_erase_blocks, access)));
    for (access, cliff) in &cliffs {
        let cliff = cliff.as_ref();
        if let Some(likelihood) =
            cliff.and_then(|cliff| CopyLikelihood::of(&imported.open_erase_blocks, *access, cliff))
        {
            sizes.add_rates(&likelihood);
        }
    }
    let [(_, linear), (_, random)] = &cliffs;
    let erase_block = sizes.finding();
    let assumed = assumed_erase_block(imported, &erase_block);
    let belief = sizes.belief;
    let findings = GeometryFindings {
        erase_block,
        write_unit: pages(&rows, SoughtStep::Write, &belief),
        page: pages(&rows, SoughtStep::Page, &belief),
        open_erase_blocks_linear: open_erase_blocks(linear.as_ref()),
        open_erase_blocks_random: open_erase_blocks_random(
            imported,
            linear.as_ref(),
            random.as_ref(),
        ),
        small_write_log: match imported.open_erase_blocks[..] {
            [] => GeometryFinding::not_measured("requires an open-unit table"),
            _ => small_log::finding(&imported.open_erase_blocks),
        },
        special_zone: zone::finding(&imported.fat),
        ..not_in_tables()
    };
    Probed {
        findings,
        evidence: ProbeEvidence { samples: Vec::new(), series: series(&rows, imported) },
        notes: notes(imported).into_iter().chain(assumed).collect(),
        belief: Some(belief),
        ..Probed::default()
    }
}

fn not_in_tables() -> GeometryFindings {
    let none = || GeometryFinding::not_measured("flashbench's tables do not contain it");
    GeometryFindings {
        capacity: none(),
        erase_block_offset: none(),
        pslc_cache: none(),
        unwritten_is_faster: none(),
        ..GeometryFindings::default()
    }
}

/// A note if open-unit tables were measured with other erase blocks than those found.
fn assumed_erase_block(imported: &Imported, erase_block: &GeometryFinding) -> Option<String> {
    let Some(QuantityValue::Bytes(found)) = erase_block.value else { return None };
    let cells = imported.open_erase_blocks.iter().flat_map(|table| &table.cells);
    let assumed = cells.map(|cell| cell.write).max().filter(|assumed| assumed.0 != found)?;
    Some(format!(
        "the open-unit tables assume erase blocks of {assumed}, their largest write, but erase \
         blocks of {} were found: numbers of open erase blocks, and a twin of the tables, are \
         for those of {assumed}",
        Bytes(found)
    ))
}

fn notes(imported: &Imported) -> Vec<String> {
    let mut notes: Vec<String> = imported
        .warnings
        .iter()
        .map(|warning| format!("line {}: {}; skipped", warning.line, warning.reason))
        .collect();
    if imported.more_warnings > 0 {
        notes.push(format!("{} more lines were skipped", imported.more_warnings));
    }
    match imported.repeated {
        0 => {}
        1 => notes.push("one table is there more than once; it counts once".to_owned()),
        several => notes.push(format!("{several} tables repeat others; each counts once")),
    }
    notes
}

/// The write unit or the page, from the rows below the erase block.
fn pages(rows: &[PooledRow], sought: SoughtStep, belief: &GeometryBelief) -> GeometryFinding {
    let below = belief.answer().map_or(512 << 10, |(bytes, _)| bytes);
    let rows: Vec<PooledRow> = rows.iter().filter(|row| row.align.0 < below).copied().collect();
    let Some(steps) = StepEvidence::of(&rows, sought) else {
        return GeometryFinding::not_measured(
            "requires an alignment table with rows from 2 KiB on",
        );
    };
    let candidates: Vec<CandidateValue> = steps.posterior(rows.len());
    let of = |bytes| {
        let is_it = |of: &&CandidateValue| of.value == QuantityValue::Bytes(bytes);
        candidates.iter().find(is_it).map_or(0.0, |of| of.probability)
    };
    let gap = steps.gap(of).map(rows_lack);
    match candidates.first() {
        Some(&CandidateValue { value: QuantityValue::Bytes(bytes), probability })
            if probability >= SURE =>
        {
            let reason = format!("reads across boundaries take longer from {} on", Bytes(bytes));
            if bytes >= *ANSWERS.start() && belief.answer().is_none() {
                let reason = format!("{reason}: a write unit or an erase block");
                return GeometryFinding::inconclusive(reason, candidates);
            }
            GeometryFinding {
                candidates,
                ..GeometryFinding::found(QuantityValue::Bytes(bytes), probability, reason)
            }
        }
        _ => {
            let lacking = match sought {
                SoughtStep::Page => "no step below that of the write unit exceeds the noise",
                SoughtStep::Erase | SoughtStep::Write => WITHOUT_STEP,
            };
            GeometryFinding::inconclusive(gap.unwrap_or_else(|| lacking.to_owned()), candidates)
        }
    }
}

fn open_erase_blocks(cliff: Option<&Cliff>) -> GeometryFinding {
    cliff.map_or_else(
        || GeometryFinding::not_measured("requires an open-unit table for 1, 2 and more units"),
        Cliff::finding,
    )
}

fn open_erase_blocks_random(
    imported: &Imported,
    linear: Option<&Cliff>,
    random: Option<&Cliff>,
) -> GeometryFinding {
    let found = open_erase_blocks(random);
    let none =
        linear.and_then(|linear| cliff::none_in_a_mixed_order(&imported.open_erase_blocks, linear));
    if found.value.is_none() && none == Some(true) {
        let reason = "random writes to one unit take as long as linear writes beyond the cliff";
        return GeometryFinding::found(QuantityValue::Count(0), SURE, reason);
    }
    found
}

fn series(rows: &[PooledRow], imported: &Imported) -> Vec<PlotSeries> {
    let noise = align_step::noise_ns(rows);
    let mut all = vec![PlotSeries {
        name: "extra time of a read across a boundary".to_owned(),
        x_unit: "bytes".to_owned(),
        y_unit: "ns".to_owned(),
        points: rows
            .iter()
            .map(|row| PlotPoint {
                x: row.align.0 as f64,
                y: row.extra_ns,
                low: row.extra_ns - 1.96 * noise,
                high: row.extra_ns + 1.96 * noise,
            })
            .collect(),
    }];
    all.extend([AccessOrder::Linear, AccessOrder::Random].map(|access| PlotSeries {
        name: format!("{access} writes of {SHOWN_WRITE}, by units in turn"),
        x_unit: "count".to_owned(),
        y_unit: "bytes/s".to_owned(),
        points: points_by_units(&imported.open_erase_blocks, access),
    }));
    all.retain(|series| !series.points.is_empty());
    all
}

/// Median, minimum and maximum rates over all tables.
fn points_by_units(tables: &[OpenBlockTable], access: AccessOrder) -> Vec<PlotPoint> {
    let cells = tables.iter().flat_map(|table| &table.cells);
    let numbers: BTreeSet<u32> = cells.map(|cell| cell.units).collect();
    numbers
        .into_iter()
        .filter_map(|units| {
            let rates: Vec<f64> = tables
                .iter()
                .filter_map(|table| table.rate(units, access, SHOWN_WRITE))
                .map(|rate| rate as f64)
                .collect();
            let (low, high) =
                (rates.iter().copied().reduce(f64::min)?, rates.iter().copied().reduce(f64::max)?);
            Some(PlotPoint { x: f64::from(units), y: crate::belief::median(&rates), low, high })
        })
        .collect()
}
