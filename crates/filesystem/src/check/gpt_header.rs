//! Finds a header of a GPT on a device where sfdisk(8) finds no table: it asks for the protective
//! MBR in the first sector before it looks further.
//!
//! Source: UEFI specification, section 5.3: the header is in the second sector, and its copy in the
//! last one. Limits: of the header only signature, revision and its own position are read.

use std::os::unix::fs::FileExt;

use flashfit_device::Device;
use flashfit_device::units::SECTOR_BYTES;

const SIGNATURE: &[u8; 8] = b"EFI PART";
/// Version 1.0, which all have.
const REVISION: u32 = 0x0001_0000;
const SECTOR_SIZES: [u64; 2] = [SECTOR_BYTES, 4096];

/// Where a header is, in bytes from the start of the device; the first one counts.
pub(super) fn find(device: &Device) -> Option<u64> {
    let file = std::fs::File::open(&device.path).ok()?;
    let places = |sector: &u64| {
        let last = (device.capacity.0 / sector).checked_sub(1)?;
        Some([(1, *sector), (last, *sector)])
    };
    let places: Vec<[(u64, u64); 2]> = SECTOR_SIZES.iter().filter_map(places).collect();
    let mut in_order = [0, 1].into_iter().flat_map(|which| places.iter().map(move |p| p[which]));
    let (sector, bytes) = in_order.find(|(sector, bytes)| {
        let mut header = [0; 32];
        let is_read = file.read_exact_at(&mut header, sector * bytes).is_ok();
        is_read && is_header(&header, *sector)
    })?;
    Some(sector * bytes)
}

fn is_header(header: &[u8; 32], sector: u64) -> bool {
    header.starts_with(SIGNATURE)
        && header[8..12] == REVISION.to_le_bytes()
        && header[24..32] == sector.to_le_bytes()
}
