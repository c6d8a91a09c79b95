//! exFAT, from the main boot sector.
//!
//! Source: Microsoft's exFAT file system specification, section 3.1. The border that mkfs.exfat
//! aligned to is not kept there; where table and heap begin is.

use super::Read;
use super::bytes::{array, le32, power};

pub(super) fn parse(bytes: &[u8]) -> Option<Read> {
    if array(bytes, 3)? != *b"EXFAT   " {
        return None;
    }
    let sector_bytes = power(u64::from(*bytes.get(108)?))?;
    let cluster_bytes = sector_bytes.checked_mul(power(u64::from(*bytes.get(109)?))?)?;
    let table_start_bytes = le32(bytes, 80)?.checked_mul(sector_bytes)?;
    let data_start_bytes = le32(bytes, 88)?.checked_mul(sector_bytes)?;
    let mut read = Read {
        block_bytes: cluster_bytes,
        data_start_bytes: Some(data_start_bytes),
        ..Read::default()
    };
    read.number("sector_bytes", sector_bytes, "boot sector: BytesPerSectorShift");
    read.number("cluster_bytes", cluster_bytes, "boot sector: SectorsPerClusterShift");
    read.number("table_start_bytes", table_start_bytes, "boot sector: FatOffset");
    read.number("data_start_bytes", data_start_bytes, "boot sector: ClusterHeapOffset");
    Some(read)
}
