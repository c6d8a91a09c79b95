//! A card model with the capacity and the endurance of a device.

use flashfit_card::{CardModel, ModelError};
use flashfit_device::Bytes;
use flashfit_wear::{UsageModel, replica};

/// The model with this capacity, or that of the usage model, and with its unwritten share as spare
/// blocks; and that capacity.
pub fn resized(
    model: &CardModel,
    capacity: Option<Bytes>,
    usage: &UsageModel,
    endurance: Option<u64>,
) -> Result<(CardModel, Bytes), ModelError> {
    let of_usage = Bytes((usage.capacity_gib.value * (1_u64 << 30) as f64) as u64);
    let spare = (usage.spare_percent.value * 100.0) as u64;
    let mut scaled = replica::scaled(model, capacity.unwrap_or(of_usage))?;
    let size = scaled.capacity;
    if spare > 0 {
        // What is never written serves as spare blocks.
        let units = u64::from(scaled.capacity_units()) * spare / 10_000;
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
