//! Ages a simulated card for years, until its spare blocks are used up or the years are over.
//!
//! The recorded traces of the setup are replayed on the whole card, and the card keeps its wear,
//! its mapping and its failed blocks afterwards. Limits: see [`crate::replay`]; the time between
//! requests is not simulated, so background work of the card happens only while it is asked for
//! writes; the card contains zeros.

use std::ops::ControlFlow;

use flashfit_card::model::WearOutModel;
use flashfit_card::{Card, CardModel, CardRequest, ModelError, SpareBlocks};
use flashfit_catalog::Origin;
use flashfit_device::BlockDevError;
use schemars::JsonSchema;
use serde::Serialize;

use crate::aging::{filled, serve};
use crate::estimate::EstimateError;
use crate::extrapolation::{Uncertainty, YEAR_DAYS};
use crate::mix::{ModeledUsage, SetupTraces};
use crate::replay::{Replay, ReplayOptions};
use crate::usage::{TrimInterval, UsageModel};

const GIB: f64 = (1_u64 << 30) as f64;
const DAY_NS: f64 = 24.0 * HOUR_NS;
const HOUR_NS: f64 = 3.6e12;
const MB: f64 = 1e6;
/// The caller is asked whether to continue after so many bytes.
const BYTES_PER_REPORT: u64 = 1 << 30;

#[derive(Debug, Clone, Copy)]
pub struct AgeRequest<'a> {
    /// The card, with its true capacity.
    pub model: &'a CardModel,
    pub usage: &'a UsageModel,
    pub setup: &'a SetupTraces,
    pub years: f64,
    /// How often its state is recorded, at equal distances.
    pub points: u32,
    pub seed: u64,
}

/// The state of the card at one age, and what happened since the point before.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct AgePoint {
    pub years: f64,
    /// Bytes that the card programmed per byte that it was sent.
    pub write_amplification: f64,
    /// Speed of the card's writes in the recorded mix, in MB/s: what it was sent by the time that
    /// it was busy.
    pub written_mb_per_s: f64,
    /// Erase counts of good blocks since the card was new.
    pub erases_most: u32,
    pub erases_mean: f64,
    /// Blocks past the rated cycles.
    pub blocks_past_rating: u64,
    pub spare_blocks: SpareBlocks,
}

/// Why the card did not get older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgeEnd {
    YearsOver,
    /// The card accepts no more writes.
    ReadOnly,
    Interrupted,
}

#[derive(Debug)]
pub struct AgedCard {
    pub card: Card,
    pub points: Vec<AgePoint>,
    pub years: f64,
    pub end: AgeEnd,
    pub modeled: ModeledUsage,
}

/// The model with blocks that fail: as its file says, or with the spread of
/// [`Uncertainty::default`].
///
/// # Errors
/// When the card has too few spare blocks to replace any.
fn with_wear_out(model: &CardModel, seed: u64) -> Result<CardModel, ModelError> {
    let mut model = model.clone();
    let usual = Uncertainty::default();
    model.nand.wear_out.get_or_insert(WearOutModel {
        spread_thousandths: (usual.block_spread * 1000.0) as u32,
        // Half of the largest share, which is the median of an estimate.
        early_thousandths: (usual.early_failures * 500.0) as u32,
        seed,
    });
    let text = toml::to_string(&model).expect("a card model can be written as TOML");
    CardModel::parse(&text, &Origin::BuiltIn(format!("{} with blocks that fail", model.name)))
}

/// Ages a new card. `report` is called with the age in years as it grows.
///
/// # Errors
/// [`EstimateError`].
pub fn age(
    request: &AgeRequest<'_>,
    mut report: impl FnMut(f64) -> ControlFlow<()>,
) -> Result<AgedCard, EstimateError> {
    let AgeRequest { usage, setup, .. } = *request;
    let model = with_wear_out(request.model, request.seed)?;
    if model.nand.endurance_cycles == 0 {
        return Err(EstimateError::NoEndurance { model: model.name });
    }
    let tile = setup.fitting_tile(model.capacity)?;
    let tiles = (model.capacity.0 / tile) as u32;
    let workloads = setup.traces.len() as u32;
    let per_workload = (f64::from(tiles) / setup.tiles_per_pass(usage)) as u32;
    let per_workload = per_workload.clamp(1, tiles / workloads);
    let shares = setup.shares(usage, per_workload);
    let options = ReplayOptions {
        tiles,
        fill_percent: usage.fill_percent.value as u32,
        trim: usage.trim.value != TrimInterval::Never,
        seed: request.seed,
    };
    let mut replay = Replay::new(&shares, options);
    let modeled = ModeledUsage {
        changed_percent: setup.changed_percent(per_workload, tiles),
        filled_percent: replay.filled_percent(),
    };
    let card = filled(&model, &mut replay)?;
    let bytes_a_year = usage.gib_a_day() * YEAR_DAYS * GIB * setup.filesystem_amplification(usage);
    let bytes_per_point = (bytes_a_year * request.years / f64::from(request.points)) as u64;
    let mut aged =
        AgedCard { card, points: Vec::new(), years: 0.0, end: AgeEnd::YearsOver, modeled };
    for _ in 0..request.points {
        aged.card.reset_counters();
        let mut written = 0;
        let mut reported = 0;
        while written < bytes_per_point && aged.end == AgeEnd::YearsOver {
            match replay.window(|request| serve(&mut aged.card, request)) {
                Ok((_, bytes)) => written += bytes,
                Err(BlockDevError::WornOut) => aged.end = AgeEnd::ReadOnly,
                Err(error) => return Err(error.into()),
            }
            if written - reported >= BYTES_PER_REPORT {
                reported = written;
                if report(aged.years + written as f64 / bytes_a_year).is_break() {
                    aged.end = AgeEnd::Interrupted;
                }
            }
        }
        if aged.end == AgeEnd::ReadOnly {
            // With what it still accepted of the last window.
            written = aged.card.counters().host_written_bytes;
        }
        let days = written as f64 / bytes_a_year * YEAR_DAYS;
        aged.years += days / YEAR_DAYS;
        let point = point(&aged.card, aged.years);
        // Until another end, the card may have written nothing since the point before.
        if aged.end == AgeEnd::YearsOver {
            check_volume(request, aged.card.counters().busy_ns as f64 / DAY_NS / days)?;
        }
        aged.points.push(point);
        if aged.end != AgeEnd::YearsOver {
            break;
        }
    }
    // A worn-out card cannot be flushed, and does not have to be.
    match aged.card.serve(CardRequest::Flush) {
        Ok(_) | Err(BlockDevError::WornOut) => Ok(aged),
        Err(error) => Err(error.into()),
    }
}

fn point(card: &Card, years: f64) -> AgePoint {
    let counters = card.counters();
    let seconds = counters.busy_ns as f64 / 1e9;
    AgePoint {
        years,
        write_amplification: counters.write_amplification_thousandths.unwrap_or(0) as f64 / 1000.0,
        written_mb_per_s: counters.host_written_bytes as f64 / MB / seconds.max(f64::MIN_POSITIVE),
        erases_most: counters.erases_per_unit.most as u32,
        erases_mean: counters.erases_per_unit.mean_thousandths as f64 / 1000.0,
        blocks_past_rating: counters.units_beyond_rating,
        spare_blocks: card.spare_blocks().expect("the model has the section"),
    }
}

/// Rejects a usage model for which the card is busy longer than the active hours; `busy_share` is
/// of a day.
fn check_volume(request: &AgeRequest<'_>, busy_share: f64) -> Result<(), EstimateError> {
    let needed_hours = busy_share * 24.0;
    let active_hours = request.usage.active_hours_a_day.value;
    if needed_hours <= active_hours {
        return Ok(());
    }
    let gib_a_day = request.usage.gib_a_day();
    Err(EstimateError::TooMuch {
        setup: request.setup.name.clone(),
        usage: request.usage.name.clone(),
        gib_a_day,
        needed_hours,
        active_hours,
        most_gib_a_day: gib_a_day * active_hours / needed_hours,
    })
}

#[cfg(test)]
pub mod tests;
