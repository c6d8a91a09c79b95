//! Btrfs: the node.
//!
//! Source: mkfs.btrfs(8): a power of two from 4 to 64 KiB. Limits: btrfs places its chunks itself,
//! on multiples of 1 MiB, so no number of mkfs puts them on larger erase blocks.

use flashfit_device::Bytes;

use super::super::arithmetic::power_in;
use super::super::document::NumberUnit;
use super::{PlacementContext, PlacementNumbers};

const MIN_BYTES: u64 = 4 << 10;
const MAX_BYTES: u64 = 64 << 10;
const DEFAULT_BYTES: u64 = 16 << 10;

pub(super) fn fit(site: &PlacementContext) -> PlacementNumbers {
    let mut fitted = PlacementNumbers::default();
    let Some(write_unit) = site.write_unit_bytes else {
        let reason = "the write unit is not known; this is the default of mkfs.btrfs";
        fitted.add("node_bytes", DEFAULT_BYTES, NumberUnit::Bytes, reason);
        return fitted;
    };
    let node = power_in(write_unit).clamp(MIN_BYTES, MAX_BYTES);
    let reason = if node == write_unit {
        format!("the write unit of {}, so that a node is one write", Bytes(node))
    } else {
        format!(
            "the largest power of two from 4 to 64 KiB that divides the write unit of {}, or the \
             nearest to it",
            Bytes(write_unit)
        )
    };
    fitted.set("node_size_bytes", node);
    fitted.add("node_bytes", node, NumberUnit::Bytes, reason);
    fitted
}
