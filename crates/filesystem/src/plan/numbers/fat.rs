//! FAT32: clusters, and reserved sectors that bring the start of the data on an erase block.
//!
//! The data of FAT32 start behind the reserved sectors and two allocation tables, whose length
//! depends on how many clusters are left for the data. mkfs.fat(8) gets the reserved sectors;
//! so the length that it will choose is computed as it computes it, and the reserved sectors are
//! moved until both agree.
//!
//! Sources: Microsoft, FAT: General Overview of On-Disk Format 1.03 (fatgen103): 65525 clusters at
//! least, reserved sectors in 16 bits, clusters of at most 32 KiB; mkfs.fat of dosfstools 4.2 with
//! `-a`, without which it rounds tables up to clusters and the size down to tracks that the device
//! claims; SD Specifications, Part 2: cards of more than 2 GB have clusters of 32 KiB, and their
//! data start on a border of 4 MiB.

use flashfit_device::Bytes;

use super::super::arithmetic::power_in;
use super::super::document::NumberUnit;
use super::{PlacementContext, PlacementNumbers};

const MIN_RESERVED: u64 = 32;
const MAX_RESERVED: u64 = u16::MAX as u64;
const MIN_CLUSTERS: u64 = 65_525;
const MAX_CLUSTERS: u64 = 0x0FFF_FFF4;
const MAX_CLUSTER_BYTES: u64 = 32 << 10;
const TABLES: u64 = 2;
/// The border on which vendors start the data, and their cluster.
const VENDOR_BORDER_BYTES: u64 = 4 << 20;
const VENDOR_CLUSTER_SECTORS: u64 = 64;
const ROUNDS: usize = 16;

/// A layout, in sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    cluster: u64,
    reserved: u64,
    table: u64,
}

impl Found {
    fn data_start(&self) -> u64 {
        self.reserved + TABLES * self.table
    }
}

pub(super) fn fit(site: &PlacementContext) -> Result<PlacementNumbers, String> {
    let sector = site.sector_bytes;
    let sectors = site.place.size_bytes / sector;
    if sectors > u64::from(u32::MAX) {
        return Err(format!("it reaches {} at most", Bytes(u64::from(u32::MAX) * sector)));
    }
    let mut fitted = PlacementNumbers::default();
    let vendor = solve(site, VENDOR_BORDER_BYTES / sector, VENDOR_CLUSTER_SECTORS);
    if let Some(found) = vendor {
        fitted.set("vendor_reserved_sectors", found.reserved);
    }
    let Some(erase_block) = site.erase_block_bytes else { return Ok(fitted) };
    let unit = erase_block / sector;
    let clusters = std::iter::successors(Some(MAX_CLUSTER_BYTES / sector), |n| Some(n / 2))
        .take_while(|cluster| *cluster > 0)
        .filter(|cluster| *cluster <= power_in(unit));
    let mut any = false;
    let mut found = None;
    for cluster in clusters.filter(|cluster| has_clusters(sectors, *cluster)) {
        any = true;
        found = solve(site, unit, cluster);
        if found.is_some() {
            break;
        }
    }
    let Some(found) = found else {
        return Err(why_none(site, erase_block, any));
    };
    add_numbers(&mut fitted, site, erase_block, found);
    Ok(fitted)
}

fn why_none(site: &PlacementContext, erase_block: u64, any: bool) -> String {
    if any {
        format!(
            "FAT32 has at most {MAX_RESERVED} reserved sectors, too few to align the data to an \
             erase block of {}",
            Bytes(erase_block)
        )
    } else {
        format!(
            "{} are too few for the {MIN_CLUSTERS} clusters of FAT32, or too many",
            Bytes(site.place.size_bytes)
        )
    }
}

fn add_numbers(
    fitted: &mut PlacementNumbers,
    site: &PlacementContext,
    erase_block: u64,
    found: Found,
) {
    let sector = site.sector_bytes;
    let cluster_bytes = found.cluster * sector;
    let why = if cluster_bytes == MAX_CLUSTER_BYTES {
        "the largest that FAT allows, which the SD Association has on cards of more than 2 GB"
            .to_owned()
    } else {
        format!(
            "the largest that leaves the {MIN_CLUSTERS} clusters of FAT32 and divides the \
             erase block"
        )
    };
    fitted.set("cluster_bytes", cluster_bytes);
    fitted.set("cluster_sectors", found.cluster);
    fitted.set("reserved_sectors", found.reserved);
    fitted.add("cluster_bytes", cluster_bytes, NumberUnit::Bytes, why);
    fitted.add(
        "reserved_sectors",
        found.reserved,
        NumberUnit::Sectors,
        format!("the rest of an erase block after two tables of {} sectors", found.table),
    );
    fitted.add(
        "data_start_bytes",
        found.data_start() * sector,
        NumberUnit::Bytes,
        format!("on an erase block of {} of the device", Bytes(erase_block)),
    );
    fitted.lost_bytes = (found.reserved - MIN_RESERVED) * sector;
    fitted.lost_reason =
        "reserved before the tables, so that the data start on an erase block".into();
}

/// Whether FAT32 has a number of clusters that it can count, whatever is reserved.
fn has_clusters(sectors: u64, cluster: u64) -> bool {
    (MIN_CLUSTERS..=MAX_CLUSTERS).contains(&(sectors / cluster))
}

/// The length of a table as mkfs.fat computes it.
fn table_length(sectors: u64, cluster: u64, reserved: u64, sector: u64) -> Option<u64> {
    let rest = sectors.checked_sub(reserved)?;
    let clusters = (rest * sector + TABLES * 8) / (cluster * sector + TABLES * 4);
    Some(((clusters + 2) * 4).div_ceil(sector))
}

fn solve(site: &PlacementContext, unit: u64, cluster: u64) -> Option<Found> {
    let sector = site.sector_bytes;
    let (start, sectors) = (site.place.start_bytes / sector, site.place.size_bytes / sector);
    let mut reserved = MIN_RESERVED;
    for _ in 0..ROUNDS {
        let table = table_length(sectors, cluster, reserved, sector)?;
        let off = (start + reserved + TABLES * table) % unit;
        if off == 0 {
            let data = sectors.checked_sub(reserved + TABLES * table)?;
            let found = Found { cluster, reserved, table };
            return (data / cluster >= MIN_CLUSTERS).then_some(found);
        }
        reserved += unit - off;
        if reserved > MAX_RESERVED {
            return None;
        }
    }
    None
}
