//! F2FS: sections of whole erase blocks, and what they cost.
//!
//! F2FS writes a section from its start to its end and cleans it as a whole, so a section should be
//! one erase block. It keeps whole sections in reserve for cleaning: the larger the section, the
//! more of a small device is lost. What mkfs.f2fs reserves is computed here as it computes it.
//!
//! Sources: mkfs.f2fs(8) (segments of 2 MiB, `-s` segments a section); measured with f2fs-tools
//! 1.15, which counts a section as one segment larger where segments are left over that make no
//! section. Limits: other versions reserve other amounts, newer ones less.

use flashfit_device::Bytes;

use super::super::arithmetic::lcm;
use super::super::document::{NumberUnit, PlannedPlacement};
use super::{PlacementContext, PlacementNumbers, multiple};

pub(super) const SEGMENT_BYTES: u64 = 2 << 20;
const SEGMENT_BLOCKS: u64 = 512;
const BLOCK_BYTES: u64 = 4096;
/// A section may cost this part of the space at most, in addition to what the smallest section
/// costs.
const MAX_COST_PERCENT: u64 = 10;
/// No erase block is as large as this many segments.
const MAX_SECTION_SEGMENTS: u64 = 4096;
const CHECKPOINT_SEGMENTS: u64 = 2;
const SIT_ENTRIES: u64 = 55;
const NAT_ENTRIES: u64 = 455;
/// The checkpoint has room for the bitmaps of this many segments of SIT and NAT.
const MAX_BITMAP_SEGMENTS: u64 = 60;
const LOGS: u64 = 6;

/// What mkfs.f2fs makes of a volume, in segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Volume {
    main_start: u64,
    main: u64,
    /// What the user cannot fill.
    kept: u64,
}

pub(super) fn fit(site: &PlacementContext) -> PlacementNumbers {
    let mut fitted = PlacementNumbers::default();
    let Some(erase_block) = site.erase_block_bytes else { return fitted };
    let size = site.place.size_bytes;
    let usable =
        |section: u64| volume(size, section, 1).map_or(0, |v| v.main.saturating_sub(v.kept));
    let least = usable(1);
    let cost = |section: u64| least.saturating_sub(usable(section));
    let wanted = lcm(erase_block, SEGMENT_BYTES).map_or(1, |bytes| bytes / SEGMENT_BYTES);
    let affordable = |section: &u64| cost(*section) * 100 <= least * MAX_COST_PERCENT;
    let section = (1..=wanted.min(MAX_SECTION_SEGMENTS))
        .rev()
        .filter(|section| wanted % section == 0)
        .find(affordable)
        .unwrap_or(1);
    let bytes = section * SEGMENT_BYTES;
    fitted.set("section_segments", section);
    fitted.add("section_bytes", bytes, NumberUnit::Bytes, why(erase_block, section, wanted));
    let reason = "a zone of one section: the logs need not lie apart where nothing is known of \
                  the units that the device keeps open";
    fitted.add("zone_sections", 1, NumberUnit::Sections, reason);
    if section != wanted {
        fitted.warn(format!(
            "a section of {} would fit the erase block and cost {} more: {} is used",
            Bytes(wanted * SEGMENT_BYTES),
            Bytes(cost(wanted) * SEGMENT_BYTES),
            Bytes(bytes)
        ));
    }
    add_main_start(&mut fitted, site.place, section, 1);
    fitted.lost_bytes = cost(section) * SEGMENT_BYTES;
    fitted.lost_reason = "kept for cleaning, more than with the least section".to_owned();
    fitted
}

/// The numbers of a file system in zones of several sections, which the user asked for.
pub(super) fn in_zones(
    mut fitted: PlacementNumbers,
    place: PlannedPlacement,
    zone_sections: u64,
) -> PlacementNumbers {
    let Some(section) = fitted.planned.get("section_segments").copied() else { return fitted };
    fitted.numbers.retain(|number| number.name != "main_start_bytes");
    for number in fitted.numbers.iter_mut().filter(|number| number.name == "zone_sections") {
        number.value = zone_sections;
        "asked for; each log begins in its own zone".clone_into(&mut number.reason);
    }
    add_main_start(&mut fitted, place, section, zone_sections);
    let main = |zone: u64| volume(place.size_bytes, section, zone).map_or(0, |found| found.main);
    fitted.lost_bytes += main(1).saturating_sub(main(zone_sections)) * SEGMENT_BYTES;
    fitted
}

/// Where the main area starts. Whether mkfs.f2fs learns where a partition starts depends on the
/// driver; on a multiple of the zone it comes to the same.
fn add_main_start(
    fitted: &mut PlacementNumbers,
    place: PlannedPlacement,
    section: u64,
    zone_sections: u64,
) {
    let bytes = section * SEGMENT_BYTES;
    let Some(volume) = volume(place.size_bytes, section, zone_sections)
        .filter(|_| place.start_bytes % (bytes * zone_sections) == 0)
    else {
        return;
    };
    let start = volume.main_start * SEGMENT_BYTES;
    let reason = format!("behind the tables of F2FS, {}", multiple("section", start, bytes));
    fitted.add("main_start_bytes", start, NumberUnit::Bytes, reason);
}

fn why(erase_block: u64, section: u64, wanted: u64) -> String {
    let bytes = section * SEGMENT_BYTES;
    if section < wanted {
        format!(
            "the largest part of the erase block of {} that does not cost too much",
            Bytes(erase_block)
        )
    } else if bytes == erase_block {
        format!("a section is one erase block of {}, written and cleaned as a whole", Bytes(bytes))
    } else {
        format!("{}, in segments of 2 MiB", multiple("erase block", bytes, erase_block))
    }
}

/// `None` where the volume is too small for anything.
fn volume(size_bytes: u64, section: u64, zone_sections: u64) -> Option<Volume> {
    let zone = section.checked_mul(zone_sections).filter(|zone| *zone > 0)?;
    let zone_bytes = zone.checked_mul(SEGMENT_BYTES)?;
    let first = (2 * BLOCK_BYTES).next_multiple_of(zone_bytes);
    let all = size_bytes.checked_sub(first)? / SEGMENT_BYTES;
    let segments = all / zone * zone;
    let in_segments = |blocks: u64| blocks.div_ceil(SEGMENT_BLOCKS);
    let half_sit = in_segments(segments.div_ceil(SIT_ENTRIES));
    let sit = 2 * half_sit;
    let rest = segments.checked_sub(CHECKPOINT_SEGMENTS + sit)? * SEGMENT_BLOCKS;
    let most_nat = MAX_BITMAP_SEGMENTS.saturating_sub(half_sit).max(1);
    let nat = 2 * in_segments(rest.div_ceil(NAT_ENTRIES)).min(most_nat);
    let rest = segments.checked_sub(CHECKPOINT_SEGMENTS + sit + nat)?;
    let ssa = in_segments(rest + 1);
    let tables = (CHECKPOINT_SEGMENTS + sit + nat + ssa).next_multiple_of(zone);
    let main = segments.checked_sub(tables)? / zone * zone;
    let weight = if all % section == 0 { section } else { section + 1 };
    let kept = kept(main, weight)?;
    Some(Volume { main_start: first / SEGMENT_BYTES + tables, main, kept })
}

/// What is reserved and over-provisioned at the ratio that leaves most, where a section weighs that
/// many segments.
fn kept(main: u64, weight: u64) -> Option<u64> {
    let ratios: Vec<u64> =
        if main < 256 { (2..=19).map(|n| n * 500).collect() } else { (1..=1000).collect() };
    let mut best: Option<(u64, u64)> = None;
    for ratio in ratios {
        // (2 * (100 / ratio + 1) + logs) sections, in thousandths of a segment.
        let sections = 2 * (10_000 * 1000 / ratio + 1000) + LOGS * 1000;
        let reserved = sections.checked_mul(weight);
        let left = reserved.and_then(|reserved| main.checked_mul(1000)?.checked_sub(reserved));
        let Some(left) = left else { continue };
        let provision = left * ratio / 10_000;
        let space = left - provision;
        if best.is_none_or(|(most, _)| space > most) {
            best = Some((space, ratio));
        }
    }
    let (_, ratio) = best?;
    let reserved = (2 * (10_000 * 1000 / ratio + 1000) + LOGS * 1000) * weight / 1000;
    Some((main - reserved) * ratio / 10_000 + reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Volumes as f2fs-tools 1.15 made them: size, segments a section, segment where the main area
    /// starts, its segments, those over-provisioned.
    const MEASURED: [(u64, u64, u64, u64, u64); 9] = [
        (1 << 30, 1, 10, 502, 68),
        (1 << 30, 3, 12, 498, 150),
        (1 << 30, 4, 16, 496, 150),
        (1 << 30, 6, 18, 492, 225),
        (1 << 30, 12, 24, 480, 376),
        (31_914_983_424, 1, 103, 15_115, 352),
        (31_914_983_424, 4, 108, 15_108, 805),
        (64 << 30, 4, 192, 32_576, 1043),
        (128 << 30, 1, 251, 65_285, 728),
    ];

    #[test]
    fn volumes_are_as_mkfs_makes_them() {
        for (size, section, start, main, kept) in MEASURED {
            let volume = volume(size, section, 1).unwrap();
            assert_eq!((volume.main_start, volume.main), (start, main), "{size} {section}");
            assert!(volume.kept.abs_diff(kept) <= 2, "{size} {section}: {} {kept}", volume.kept);
        }
    }

    /// The same in zones: size, segments a section, sections a zone, start and segments of the main
    /// area.
    const IN_ZONES: [(u64, u64, u64, u64, u64); 8] = [
        (1 << 30, 2, 2, 16, 496),
        (1 << 30, 2, 3, 18, 492),
        (1 << 30, 4, 2, 24, 488),
        (31_914_983_424, 2, 3, 108, 15_108),
        (31_914_983_424, 4, 3, 120, 15_096),
        (4_286_578_688, 2, 2, 24, 2020),
        (4_286_578_688, 2, 3, 24, 2016),
        (4_286_578_688, 4, 3, 36, 2004),
    ];

    #[test]
    fn zones_are_as_mkfs_makes_them() {
        for (size, section, zone, start, main) in IN_ZONES {
            let volume = volume(size, section, zone).unwrap();
            assert_eq!((volume.main_start, volume.main), (start, main), "{size} {section} {zone}");
        }
    }
}
