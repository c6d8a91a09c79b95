//! A card of another capacity with the same proportions, and with the endurance of a device.
//!
//! Spare blocks, bad blocks, pSLC area and map cache keep their share of the capacity, because
//! amplification depends on these shares. Open erase blocks, logs for small writes and the write
//! cache keep their size: they are limited by a controller's memory. Limit: a card with few spare
//! blocks keeps at least as many as its translation layer needs.

use flashfit_card::{CardModel, ModelError};
use flashfit_catalog::Origin;
use flashfit_device::Bytes;

use crate::UsageModel;

/// The model with another capacity, rounded down to whole erase blocks. Erase blocks stay as they
/// are.
///
/// # Errors
/// When no card of that size is possible.
pub fn scaled(model: &CardModel, capacity: Bytes) -> Result<CardModel, ModelError> {
    let unit = model.erase_block_bytes();
    let (from, to) = (model.capacity.0 / unit, capacity.0 / unit);
    let share = |count: u32| -> u32 {
        let scaled = (u128::from(count) * u128::from(to) + u128::from(from) / 2) / u128::from(from);
        u32::try_from(scaled).unwrap_or(u32::MAX)
    };
    let mut scaled = model.clone();
    scaled.capacity = Bytes(to * unit);
    scaled.nand.spare_units = share(model.nand.spare_units).max(1);
    scaled.nand.factory_bad_units = share(model.nand.factory_bad_units);
    if let Some(pslc) = &mut scaled.nand.pslc {
        pslc.units = share(pslc.units).max(1);
    }
    if let Some(cache) = &mut scaled.layer.map_cache {
        let bytes = u128::from(cache.0) * u128::from(to) / u128::from(from);
        let piece = u128::from(model.write_unit_bytes());
        *cache = Bytes(u64::try_from((bytes / piece).max(1) * piece).unwrap_or(u64::MAX));
    }
    let text = toml::to_string(&scaled).expect("a card model can be written as TOML");
    match CardModel::parse(&text, &origin(model)) {
        Err(ModelError::Invalid { key: "nand.spare_units", .. }) if to < from => {
            scaled.nand.spare_units = model.nand.spare_units;
            let text = toml::to_string(&scaled).expect("a card model can be written as TOML");
            CardModel::parse(&text, &origin(model))
        }
        parsed => parsed,
    }
}

/// The model with this capacity, or that of the usage model, and with its unwritten share as spare
/// blocks; and that capacity. `endurance` are its rated cycles, if not those of the model.
///
/// # Errors
/// When no card of that size is possible.
pub fn resized(
    model: &CardModel,
    capacity: Option<Bytes>,
    usage: &UsageModel,
    endurance: Option<u64>,
) -> Result<(CardModel, Bytes), ModelError> {
    let of_usage = Bytes((usage.capacity_gib.value * (1_u64 << 30) as f64) as u64);
    let spare = (usage.spare_percent.value * 100.0) as u64;
    let mut scaled = scaled(model, capacity.unwrap_or(of_usage))?;
    let size = scaled.capacity;
    if spare > 0 {
        // What is never written serves as spare blocks.
        let units = u64::from(scaled.capacity_blocks()) * spare / 10_000;
        scaled.capacity.0 -= units * scaled.erase_block_bytes();
        scaled.nand.spare_units += u32::try_from(units).unwrap_or(0);
    }
    if let Some(cycles) = endurance {
        if let Some(pslc) = &mut scaled.nand.pslc {
            // The same cells with one bit each: as many times as many cycles as before.
            let by = u128::from(pslc.endurance_cycles) * u128::from(cycles);
            let pslc_cycles = by / u128::from(model.nand.endurance_cycles.max(1));
            pslc.endurance_cycles = u64::try_from(pslc_cycles).unwrap_or(u64::MAX).max(1);
        }
        scaled.nand.endurance_cycles = cycles;
    }
    Ok((scaled, size))
}

fn origin(model: &CardModel) -> Origin {
    Origin::BuiltIn(format!("{} at another capacity", model.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_written_serves_as_spare_blocks() {
        let model = flashfit_card::catalog::load("usd-a1-pagemap", None).unwrap();
        let mut usage = crate::usage::load("phone", None).unwrap();
        usage.spare_percent.value = 25.0;
        let (scaled, size) = resized(&model, Some(model.capacity), &usage, Some(7)).unwrap();
        assert_eq!((size, scaled.nand.endurance_cycles), (model.capacity, 7));
        let moved = (size.0 - scaled.capacity.0) / scaled.erase_block_bytes();
        assert_eq!(moved, size.0 / model.erase_block_bytes() / 4);
        let before = u64::from(model.nand.spare_units);
        assert_eq!(u64::from(scaled.nand.spare_units), before + moved);
    }

    #[test]
    fn every_card_of_the_catalog_can_be_scaled_and_keeps_its_spare_share() {
        for model in flashfit_card::catalog::all(None).unwrap() {
            let large = scaled(&model, Bytes(model.capacity.0 * 8)).unwrap();
            assert_eq!(large.capacity.0, model.capacity.0 * 8, "{}", model.name);
            assert_eq!(large.nand.spare_units, model.nand.spare_units * 8, "{}", model.name);
            assert!(scaled(&model, Bytes::mib(32 << 10)).is_ok(), "{}", model.name);
        }
    }
}
