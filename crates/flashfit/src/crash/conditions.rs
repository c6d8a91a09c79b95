//! The conditions that a device sets for setups: those of a simulated card, or of any flash device.

use std::path::Path;

use flashfit_card::CardModel;
use flashfit_crash::campaign::CampaignPlan;
use flashfit_device::Bytes;
use flashfit_filesystem::Conditions;
use flashfit_geometry::{Geometry, QuantitySource, Sourced};

use crate::command_error::CommandError;

/// Without a card: what any flash device writes at once.
const WRITE_UNIT: Bytes = Bytes::kib(4);
/// For options that need an erase block, where no card has one.
const ERASE_BLOCK: Bytes = Bytes::mib(4);

/// The conditions for options, and the write unit.
pub fn device(
    card: Option<&str>,
    catalog: Option<&Path>,
) -> Result<(Conditions, Bytes), CommandError> {
    Ok(match card {
        None => (of_units(WRITE_UNIT, ERASE_BLOCK), WRITE_UNIT),
        Some(name) => {
            let model = model(name, catalog)?;
            (of_card(&model), Bytes(model.write_unit_bytes()))
        }
    })
}

/// The simulated card of this name, with or without `sim:`.
pub fn model(name: &str, catalog: Option<&Path>) -> Result<CardModel, CommandError> {
    let name = name.strip_prefix(flashfit_target::SIMULATED).unwrap_or(name);
    Ok(flashfit_card::catalog::load(name, catalog)?)
}

/// The conditions that a card sets for options.
pub fn of_card(model: &CardModel) -> Conditions {
    of_units(Bytes(model.write_unit_bytes()), Bytes(model.erase_block_bytes()))
}

/// The conditions that a campaign began with, where it recorded them.
pub fn of_plan(plan: &CampaignPlan) -> Conditions {
    if let Some(card) = &plan.card {
        return of_card(&card.model);
    }
    let erase_block = plan.start.erase_block_bytes.map_or(ERASE_BLOCK, Bytes);
    of_units(Bytes(u64::from(plan.unit_sectors) * 512), erase_block)
}

fn of_units(write_unit: Bytes, erase_block: Bytes) -> Conditions {
    let known = |bytes| Some(Sourced::new(bytes, QuantitySource::Given));
    let geometry = Geometry::of_sizes(known(erase_block), known(write_unit));
    Conditions { geometry, discard: true, volatile_cache: true, ..Conditions::default() }
}
