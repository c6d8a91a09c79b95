//! FAT12, FAT16 and FAT32, from the boot sector.
//!
//! Source: Microsoft's FAT specification (fatgen103), "Boot Sector and BPB": the data area follows
//! the reserved sectors, the tables, and, except in FAT32, the folder at the root.

use super::Read;
use super::bytes::{le16, le32};

const ROOT_ENTRY_BYTES: u64 = 32;

pub(super) fn parse(bytes: &[u8]) -> Option<Read> {
    let sector_bytes = le16(bytes, 11)?;
    let cluster_sectors = u64::from(*bytes.get(13)?);
    let tables = u64::from(*bytes.get(16)?);
    let sound = sector_bytes.is_power_of_two() && sector_bytes >= 128;
    if !sound || !cluster_sectors.is_power_of_two() || tables == 0 {
        return None;
    }
    let (reserved, root_entries, short_table) =
        (le16(bytes, 14)?, le16(bytes, 17)?, le16(bytes, 22)?);
    let table_sectors = if short_table == 0 { le32(bytes, 36)? } else { short_table };
    let root_sectors = (root_entries * ROOT_ENTRY_BYTES).div_ceil(sector_bytes);
    let data_start_bytes = (reserved + tables * table_sectors + root_sectors) * sector_bytes;
    let cluster_bytes = cluster_sectors * sector_bytes;
    let mut read = Read {
        block_bytes: cluster_bytes,
        data_start_bytes: Some(data_start_bytes),
        ..Read::default()
    };
    read.number("sector_bytes", sector_bytes, "boot sector: BPB_BytsPerSec");
    read.number("cluster_bytes", cluster_bytes, "boot sector: BPB_SecPerClus");
    read.number("reserved_sectors", reserved, "boot sector: BPB_RsvdSecCnt");
    read.number("tables", tables, "boot sector: BPB_NumFATs");
    read.number("table_sectors", table_sectors, "boot sector: BPB_FATSz32");
    read.number("data_start_bytes", data_start_bytes, "boot sector: all of these");
    let is_fat32 = short_table == 0;
    read.word("variant", if is_fat32 { "FAT32" } else { "FAT12 or FAT16" }, "boot sector");
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_sector_of_nonsense_is_none() {
        assert_eq!(parse(&[0; 512]), None);
        assert_eq!(parse(&[0xff; 512]), None);
        assert_eq!(parse(&[1, 2, 3]), None);
    }
}
