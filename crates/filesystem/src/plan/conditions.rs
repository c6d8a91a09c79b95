//! The conditions for a file system at a position: those of the device with the numbers of a plan.
//!
//! Plans, trials and scratch images all use these numbers, so trials measure what is planned.

use crate::conditions::Conditions;
use crate::filesystem::FileSystem;

use super::document::{PlannedPlacement, StripeWidth};
use super::numbers::{self, PlacementContext, PlacementNumbers};

/// `device` with the numbers that fit `filesystem` to `place`, where the sector has
/// `sector_bytes`.
pub fn fitted_conditions(
    filesystem: &FileSystem,
    device: &Conditions,
    place: PlannedPlacement,
    sector_bytes: u64,
) -> Conditions {
    let site = site(filesystem, device, place, sector_bytes, StripeWidth::default());
    with_numbers(filesystem, device, &numbers::fit(&filesystem.kind, &site))
}

/// A file system's place on a device.
pub(super) fn site(
    filesystem: &FileSystem,
    device: &Conditions,
    place: PlannedPlacement,
    sector_bytes: u64,
    stripe_width: StripeWidth,
) -> PlacementContext {
    let geometry = &device.geometry;
    let whole_sectors = |bytes: &u64| *bytes > 0 && bytes % sector_bytes == 0;
    PlacementContext {
        place,
        sector_bytes,
        erase_block_bytes: geometry
            .erase_block
            .as_ref()
            .map(|known| known.bytes.0)
            .filter(whole_sectors),
        erase_block_offset: geometry.erase_block_offset.0,
        write_unit_bytes: geometry
            .write_unit
            .as_ref()
            .map(|known| known.bytes.0)
            .filter(|bytes| *bytes > 0),
        block_bytes: filesystem.block_bytes,
        stripe_width,
    }
}

/// `device` with what was fitted; what the planner has no number for is then not used at all.
pub(super) fn with_numbers(
    filesystem: &FileSystem,
    device: &Conditions,
    fitted: &Result<PlacementNumbers, String>,
) -> Conditions {
    let (planned, unplanned) = match fitted {
        Err(reason) => (Default::default(), Some(reason.clone())),
        Ok(_) if !numbers::is_planned(&filesystem.kind) => (Default::default(), None),
        Ok(fitted) => {
            let reason = fitted.absent.as_ref().or(fitted.warnings.first()).cloned();
            let reason = reason.unwrap_or_else(|| "no number of it fits here".to_owned());
            (fitted.planned.clone(), Some(reason))
        }
    };
    Conditions { planned, unplanned, ..device.clone() }
}
