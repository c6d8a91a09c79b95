//! exFAT: cluster and boundary.
//!
//! Sources: the exFAT specification of Microsoft, section 3 (boot region of 24 sectors, one FAT of
//! 4 bytes a cluster and two more, cluster heap); mkfs.exfat(8) of exfatprogs, which puts FAT and
//! heap on multiples of a boundary that is a power of two.

use flashfit_device::Bytes;

use super::super::arithmetic::power_in;
use super::super::document::NumberUnit;
use super::{PlacementContext, PlacementNumbers};

const BOOT_SECTORS: u64 = 24;
const MIN_CLUSTER_BYTES: u64 = 4 << 10;
const MAX_CLUSTER_BYTES: u64 = 32 << 20;
/// The boundary and the cluster of the option `vendor` in the catalog.
const VENDOR_BOUNDARY_BYTES: u64 = 16 << 20;
const VENDOR_CLUSTER_BYTES: u64 = 128 << 10;

pub(super) fn fit(site: &PlacementContext) -> Result<PlacementNumbers, String> {
    let mut fitted = PlacementNumbers::default();
    let Some(erase_block) = site.erase_block_bytes else { return Ok(fitted) };
    let boundary = power_in(erase_block);
    let usual = cluster(site).min(boundary.max(MIN_CLUSTER_BYTES));
    let on_grid = |(_, start): &(u64, u64)| {
        site.place.start_bytes.checked_add(*start).is_some_and(|at| site.is_boundary(at))
    };
    let smaller = std::iter::successors(Some(usual), |cluster| Some(cluster / 2))
        .take_while(|cluster| *cluster >= MIN_CLUSTER_BYTES.min(usual));
    let found: Vec<(u64, u64)> = smaller
        .filter_map(|cluster| Some((cluster, data_start(site, cluster, boundary)?)))
        .filter(|(_, start)| site.place.size_bytes >= start + 64 * MIN_CLUSTER_BYTES)
        .collect();
    let Some(&(cluster, start)) = found.iter().find(|one| on_grid(one)).or(found.first()) else {
        return Err(format!("nothing is left behind a boundary of {}", Bytes(boundary)));
    };
    if !on_grid(&(cluster, start)) {
        fitted.warn(format!(
            "mkfs.exfat takes a boundary that is a power of two, and no cluster size puts the \
             data on an erase block of {}; it starts on a multiple of {}",
            Bytes(erase_block),
            Bytes(boundary)
        ));
    }
    let why = "what mkfs.exfat takes for this size, at least the write unit, or less where that \
               puts the data on an erase block";
    fitted.set("cluster_bytes", cluster);
    fitted.set("boundary_bytes", boundary);
    fitted.add("cluster_bytes", cluster, NumberUnit::Bytes, why);
    let why = if boundary == erase_block {
        format!("the erase block of {}", Bytes(erase_block))
    } else {
        format!("the largest power of two that divides the erase block of {}", Bytes(erase_block))
    };
    fitted.add("boundary_bytes", boundary, NumberUnit::Bytes, why);
    let why = "the first boundary behind the allocation table";
    fitted.add("data_start_bytes", start, NumberUnit::Bytes, why);
    fitted.lost_bytes = start - table_bytes(site, cluster) - BOOT_SECTORS * site.sector_bytes;
    fitted.lost_reason = "before the table and the data, so that both start on a boundary".into();
    Ok(fitted)
}

/// The numbers of the vendors' format.
pub(super) fn vendor(site: &PlacementContext) -> Option<PlacementNumbers> {
    let start = data_start(site, VENDOR_CLUSTER_BYTES, VENDOR_BOUNDARY_BYTES)?;
    let mut numbers = PlacementNumbers::default();
    let why = "what the SD Association has on cards of 32 to 128 GB";
    numbers.add("cluster_bytes", VENDOR_CLUSTER_BYTES, NumberUnit::Bytes, why);
    let why = format!("on a boundary of {}", Bytes(VENDOR_BOUNDARY_BYTES));
    numbers.add("data_start_bytes", start, NumberUnit::Bytes, why);
    numbers.lost_bytes =
        start - table_bytes(site, VENDOR_CLUSTER_BYTES) - BOOT_SECTORS * site.sector_bytes;
    numbers.lost_reason = "before the table and the data, so that both start on a boundary".into();
    Some(numbers)
}

/// What mkfs.exfat takes by itself, and at least the write unit's power of two.
fn cluster(site: &PlacementContext) -> u64 {
    let usual = match site.place.size_bytes {
        0..=0x1000_0000 => 4 << 10,
        0x1000_0001..=0x8_0000_0000 => 32 << 10,
        _ => 128 << 10,
    };
    let write_unit = site.write_unit_bytes.map_or(0, power_in);
    usual.max(write_unit).max(site.sector_bytes).min(MAX_CLUSTER_BYTES)
}

fn table_bytes(site: &PlacementContext, cluster: u64) -> u64 {
    (site.place.size_bytes / cluster * 4).next_multiple_of(cluster)
}

/// Where the cluster heap starts; `None` where a few clusters more or less would move it.
fn data_start(site: &PlacementContext, cluster: u64, boundary: u64) -> Option<u64> {
    let base = site.place.start_bytes;
    let up = |bytes: u64| {
        let to = base.checked_add(bytes)?.checked_next_multiple_of(boundary)?;
        Some(to - base)
    };
    let table = up(BOOT_SECTORS * site.sector_bytes)?;
    let behind = |bytes: u64| up(table.checked_add(bytes)?);
    let start = behind(table_bytes(site, cluster))?;
    let more = behind(table_bytes(site, cluster) + 8)?;
    (start == more || table_bytes(site, cluster) % boundary == 0).then_some(start)
}
