//! FAT32: clusters, and reserved sectors that bring the start of the data on an erase block.
//!
//! The data of FAT32 start behind the reserved sectors and two allocation tables, whose length
//! depends on how many clusters are left for the data. mkfs.fat(8) gets the reserved sectors;
//! so the length that it will choose is computed as it computes it, and the reserved sectors are
//! moved until both agree.
//!
//! The cluster is as large as the size of the file system allows. Reserved sectors are counted in
//! 16 bits: where they do not reach an erase block, the data start on the largest part of one that
//! they reach, because smaller clusters with longer tables would cost more in every file.
//!
//! Sources: Microsoft, FAT: General Overview of On-Disk Format 1.03 (fatgen103): 65525 clusters at
//! least, reserved sectors in 16 bits, clusters of at most 32 KiB; mkfs.fat of dosfstools 4.2 with
//! `-a`, without which it rounds tables up to clusters and the size down to tracks that the device
//! claims; SD Specifications, Part 2: cards of 2 to 32 GB have clusters of 32 KiB, and their data
//! start on a border of 4 MiB.

use flashfit_device::Bytes;
use flashfit_geometry::EraseBlockGrid;

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
/// The smallest part of an erase block that the data are started on.
const MOST_PARTS: u64 = 64;

/// A layout, in sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    cluster: u64,
    reserved: u64,
    table: u64,
    /// What the data start on a multiple of.
    boundary: u64,
}

impl Found {
    fn data_start(&self) -> u64 {
        self.reserved + TABLES * self.table
    }
}

/// Why a cluster and a boundary have no layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoLayout {
    /// Fewer clusters are left than FAT32 must have.
    TooFewClusters,
    /// More sectors would be reserved than FAT32 counts.
    OutOfReach,
}

pub(super) fn fit(site: &PlacementContext) -> Result<PlacementNumbers, String> {
    let sector = site.sector_bytes;
    let sectors = site.place.size_bytes / sector;
    if sectors > u64::from(u32::MAX) {
        return Err(format!("it reaches {} at most", Bytes(u64::from(u32::MAX) * sector)));
    }
    let mut fitted = PlacementNumbers::default();
    match vendor_layout(site) {
        Ok(found) => fitted.set("vendor_reserved_sectors", found.reserved),
        Err(_) => fitted.absent = Some(too_few(site, VENDOR_CLUSTER_SECTORS)),
    }
    let Some(erase_block) = site.erase_block_bytes else { return Ok(fitted) };
    let found = find(site, erase_block / sector)?;
    add_numbers(&mut fitted, site, erase_block, found);
    Ok(fitted)
}

/// The layout with the largest cluster, on the largest part of an erase block.
fn find(site: &PlacementContext, unit: u64) -> Result<Found, String> {
    let sectors = site.place.size_bytes / site.sector_bytes;
    let first = site.erase_block_offset / site.sector_bytes;
    let clusters =
        std::iter::successors(Some(MAX_CLUSTER_BYTES / site.sector_bytes), |n| Some(n / 2))
            .take_while(|cluster| *cluster > 0)
            .filter(|cluster| *cluster <= power_in(unit));
    if clusters.clone().all(|cluster| sectors / cluster > MAX_CLUSTERS) {
        return Err(format!(
            "{} have more clusters than FAT32 counts, because a cluster must divide the erase \
             block of {}",
            Bytes(site.place.size_bytes),
            Bytes(unit * site.sector_bytes)
        ));
    }
    let mut out_of_reach = false;
    for cluster in clusters.filter(|cluster| sectors / cluster <= MAX_CLUSTERS) {
        let parts = (1..=MOST_PARTS).filter(|parts| unit % (parts * cluster) == 0);
        for parts in parts {
            match solve(site, (unit / parts, first), cluster) {
                Ok(found) => return Ok(found),
                Err(NoLayout::OutOfReach) => out_of_reach = true,
                Err(NoLayout::TooFewClusters) => {
                    out_of_reach = false;
                    break;
                }
            }
        }
    }
    Err(match out_of_reach {
        true => format!(
            "FAT32 has at most {MAX_RESERVED} reserved sectors, too few to align the data to an \
             erase block of {}",
            Bytes(unit * site.sector_bytes)
        ),
        false => too_few(site, 1),
    })
}

fn too_few(site: &PlacementContext, cluster: u64) -> String {
    format!(
        "{} are too few for the {MIN_CLUSTERS} clusters of at least {} that FAT32 must have behind \
         its reserved sectors",
        Bytes(site.place.size_bytes),
        Bytes(cluster * site.sector_bytes)
    )
}

fn vendor_layout(site: &PlacementContext) -> Result<Found, NoLayout> {
    solve(site, (VENDOR_BORDER_BYTES / site.sector_bytes, 0), VENDOR_CLUSTER_SECTORS)
}

/// The numbers of the vendors' format.
pub(super) fn vendor(site: &PlacementContext) -> Option<PlacementNumbers> {
    let found = vendor_layout(site).ok()?;
    let sector = site.sector_bytes;
    let mut numbers = PlacementNumbers::default();
    let boundary = found.boundary * sector;
    let why = "what the SD Association has on cards of 2 to 32 GB";
    numbers.add("cluster_bytes", found.cluster * sector, NumberUnit::Bytes, why);
    add_start(&mut numbers, found, sector, format!("on a boundary of {}", Bytes(boundary)));
    Some(numbers)
}

fn add_numbers(
    fitted: &mut PlacementNumbers,
    site: &PlacementContext,
    erase_block: u64,
    found: Found,
) {
    let sector = site.sector_bytes;
    let cluster_bytes = found.cluster * sector;
    let boundary = found.boundary * sector;
    let why = if cluster_bytes == MAX_CLUSTER_BYTES {
        "the largest that FAT allows, which the SD Association has on cards of 2 to 32 GB"
            .to_owned()
    } else if boundary % (2 * cluster_bytes) != 0 {
        format!("the largest that divides the erase block of {}", Bytes(erase_block))
    } else {
        format!("the largest that leaves the {MIN_CLUSTERS} clusters that FAT32 must have")
    };
    fitted.set("cluster_bytes", cluster_bytes);
    fitted.set("cluster_sectors", found.cluster);
    fitted.set("reserved_sectors", found.reserved);
    fitted.add("cluster_bytes", cluster_bytes, NumberUnit::Bytes, why);
    if boundary == erase_block {
        let on = format!("on an erase block of {} of the device", Bytes(erase_block));
        add_start(fitted, found, sector, on);
        return;
    }
    let parts = erase_block / boundary;
    let on = format!("on a multiple of {}, 1/{parts} of an erase block", Bytes(boundary));
    add_start(fitted, found, sector, on);
    fitted.warn(format!(
        "the data of FAT32 start on a multiple of {}, not on an erase block of {}: FAT32 has at \
         most {MAX_RESERVED} reserved sectors",
        Bytes(boundary),
        Bytes(erase_block)
    ));
}

/// Where the data start, and why there.
fn add_start(numbers: &mut PlacementNumbers, found: Found, sector: u64, on: String) {
    let why = format!(
        "with two tables of {} sectors, they bring the data on a boundary of {}",
        found.table,
        Bytes(found.boundary * sector)
    );
    numbers.add("reserved_sectors", found.reserved, NumberUnit::Sectors, why);
    numbers.add("data_start_bytes", found.data_start() * sector, NumberUnit::Bytes, on);
    numbers.lost_bytes = (found.reserved - MIN_RESERVED) * sector;
    numbers.lost_reason = "reserved before the tables, so that the data start on a boundary".into();
}

/// The length of a table as mkfs.fat computes it.
fn table_length(sectors: u64, cluster: u64, reserved: u64, sector: u64) -> Option<u64> {
    let rest = sectors.checked_sub(reserved)?;
    let clusters = (rest * sector + TABLES * 8) / (cluster * sector + TABLES * 4);
    Some(((clusters + 2) * 4).div_ceil(sector))
}

/// The layout whose data start on a multiple of `unit`, counted from `first`, in sectors.
fn solve(
    site: &PlacementContext,
    (unit, first): (u64, u64),
    cluster: u64,
) -> Result<Found, NoLayout> {
    let sector = site.sector_bytes;
    let (start, sectors) = (site.place.start_bytes / sector, site.place.size_bytes / sector);
    let grid = EraseBlockGrid::new(unit, first).ok_or(NoLayout::OutOfReach)?;
    let mut reserved = MIN_RESERVED;
    for _ in 0..ROUNDS {
        let table = table_length(sectors, cluster, reserved, sector);
        let table = table.ok_or(NoLayout::TooFewClusters)?;
        let off = grid.bytes_past(start + reserved + TABLES * table);
        if off == 0 {
            let data = sectors.checked_sub(reserved + TABLES * table);
            let data = data.ok_or(NoLayout::TooFewClusters)?;
            return match data / cluster >= MIN_CLUSTERS {
                true => Ok(Found { cluster, reserved, table, boundary: unit }),
                false => Err(NoLayout::TooFewClusters),
            };
        }
        reserved += unit - off;
        if reserved > MAX_RESERVED {
            return Err(NoLayout::OutOfReach);
        }
    }
    Err(NoLayout::OutOfReach)
}

#[cfg(test)]
mod tests {
    use super::super::super::document::{PlannedPlacement, StripeWidth};
    use super::*;

    const MIB: u64 = 1 << 20;

    fn site(start_bytes: u64, size_bytes: u64, erase_block_bytes: u64) -> PlacementContext {
        PlacementContext {
            place: PlannedPlacement { start_bytes, size_bytes },
            sector_bytes: 512,
            erase_block_bytes: Some(erase_block_bytes),
            erase_block_offset: 0,
            write_unit_bytes: None,
            block_bytes: 512,
            stripe_width: StripeWidth::Blocks,
        }
    }

    fn reason<'a>(fitted: &'a PlacementNumbers, name: &str) -> &'a str {
        &fitted.numbers.iter().find(|number| number.name == name).unwrap().reason
    }

    #[test]
    fn an_erase_block_out_of_reach_leaves_the_cluster_as_it_is() {
        for (unit, boundary) in [(48, 24), (64, 32), (96, 32), (128, 32), (4, 4), (24, 24)] {
            let fitted = fit(&site(unit * MIB, 30_000 * MIB, unit * MIB)).unwrap();
            assert_eq!(fitted.number("cluster_bytes"), Some(32 << 10), "{unit} MiB");
            let start = fitted.number("data_start_bytes").unwrap();
            assert_eq!(start % (boundary * MIB), 0, "{unit} MiB: {start}");
            assert!(fitted.number("reserved_sectors").unwrap() <= MAX_RESERVED);
            assert_eq!(fitted.warnings.is_empty(), boundary == unit, "{:?}", fitted.warnings);
            assert!(reason(&fitted, "cluster_bytes").contains("the largest that FAT allows"));
            let where_it_starts = reason(&fitted, "data_start_bytes");
            let is_part = where_it_starts.contains("of an erase block");
            assert_eq!(is_part, boundary != unit, "{where_it_starts}");
        }
    }

    #[test]
    fn a_smaller_cluster_has_the_reason_that_holds() {
        let of = |size: u64, unit: u64| fit(&site(unit, size, unit)).unwrap();
        let small = of(1024 * MIB, 4 * MIB);
        assert_eq!(small.number("cluster_bytes"), Some(8 << 10));
        assert!(reason(&small, "cluster_bytes").contains("65525 clusters"));
        let odd = of(30_000 * MIB, 24 << 10);
        assert_eq!(odd.number("cluster_bytes"), Some(8 << 10));
        assert!(reason(&odd, "cluster_bytes").contains("divides the erase block of 24 KiB"));
    }

    #[test]
    fn what_cannot_be_fitted_says_what_is_in_its_way() {
        let small = fit(&site(64 * MIB, 36 * MIB, 64 * MIB)).unwrap_err();
        assert!(small.contains("36 MiB are too few for the 65525 clusters"), "{small}");
        let reach = fit(&site(0, 30_000 * MIB, 2_000_003 * 512)).unwrap_err();
        assert!(reach.contains("at most 65535 reserved sectors"), "{reach}");
        let many = fit(&site(0, 200_000 * MIB, 512)).unwrap_err();
        assert!(many.contains("more clusters than FAT32 counts"), "{many}");
        let no_vendor = fit(&site(4 * MIB, 1024 * MIB, 4 * MIB)).unwrap().absent.unwrap();
        assert!(no_vendor.contains("clusters of at least 32 KiB"), "{no_vendor}");
    }
}
