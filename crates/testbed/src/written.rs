//! Reads the bytes written to a block device from `/sys/block/DISK/stat`
//! (Documentation/block/stat.rst): the seventh field counts sectors of 512 bytes, regardless of the
//! device's own sector size.

use std::path::Path;

const SECTORS_WRITTEN: usize = 6;
const SECTOR_BYTES: u64 = 512;

/// Bytes written to the disk with this sysfs directory; `None` if the kernel does not count them.
pub fn bytes(disk: &Path) -> Option<u64> {
    from(&std::fs::read_to_string(disk.join("stat")).ok()?)
}

fn from(text: &str) -> Option<u64> {
    let sectors: u64 = text.split_whitespace().nth(SECTORS_WRITTEN)?.parse().ok()?;
    sectors.checked_mul(SECTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seventh_field_counts_sectors() {
        let text = "    1234 5 90000 300 77 8 2048 900 0 1 2 3 4 5 6 7 8\n";
        assert_eq!(from(text), Some(1 << 20));
        assert_eq!(from("1 2 3\n"), None);
        assert_eq!(bytes(Path::new("/no/such/disk")), None);
    }
}
