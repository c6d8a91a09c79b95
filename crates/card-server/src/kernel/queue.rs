//! The attributes of the loop device's queue, set to what the model has.
//!
//! Source: `Documentation/ABI/stable/sysfs-block` of Linux. They outlive the attachment; see
//! [`flashfit_host::loop_renewal`].

use std::io;
use std::path::Path;

use flashfit_device::BlockDevInfo;

const DISCARD_MAXIMUM: &str = "discard_max_bytes";

/// Lets the kernel see the cache and the discards as the card has them. Returns in which respects
/// this kernel shows them otherwise.
///
/// # Errors
/// When an attribute that decides which requests arrive cannot be written.
pub fn set(queue: &Path, description: &BlockDevInfo, depth: u32) -> io::Result<Vec<String>> {
    set_cache(queue, description.volatile_cache)?;
    let mut notes = set_depth(queue, depth);
    let wanted = description.discard_granularity_bytes;
    if wanted == 0 {
        std::fs::write(queue.join(DISCARD_MAXIMUM), "0")?;
        return Ok(notes);
    }
    let granularity = std::fs::read_to_string(queue.join("discard_granularity"))?;
    if !passes_discards(queue) {
        notes.push("the kernel passes no discards to this loop device".to_owned());
    } else if granularity.trim() != wanted.to_string() {
        let shown = granularity.trim();
        notes
            .push(format!("the kernel shows a discard granularity of {shown} bytes, not {wanted}"));
    }
    Ok(notes)
}

/// Lets the kernel have no more requests under way than the card's queue has room for. It takes no
/// fewer than 4 (`BLKDEV_MIN_RQ`), and a card without a queue is served one by one by the file
/// system anyway; what waits is then merged and sorted, as before a real card of that kind.
fn set_depth(queue: &Path, depth: u32) -> Vec<String> {
    const LEAST: u32 = 4;
    if depth == 1 {
        return Vec::new();
    }
    match std::fs::write(queue.join("nr_requests"), depth.max(LEAST).to_string()) {
        Ok(()) => Vec::new(),
        Err(error) => {
            vec![format!("the kernel's queue is not {depth} requests deep, as the card's: {error}")]
        }
    }
}

fn passes_discards(queue: &Path) -> bool {
    std::fs::read_to_string(queue.join(DISCARD_MAXIMUM)).is_ok_and(|text| text.trim() != "0")
}

/// Whether the kernel is to send flushes.
///
/// # Errors
/// When the attribute cannot be written.
pub fn set_cache(queue: &Path, volatile: bool) -> io::Result<()> {
    let mode = if volatile { "write back" } else { "write through" };
    std::fs::write(queue.join("write_cache"), mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(granularity: &str, maximum: &str) -> tempfile::TempDir {
        let queue = tempfile::tempdir().unwrap();
        std::fs::write(queue.path().join("discard_granularity"), granularity).unwrap();
        std::fs::write(queue.path().join("discard_max_bytes"), maximum).unwrap();
        queue
    }

    fn notes(queue: &Path, granularity: u64, volatile_cache: bool) -> Vec<String> {
        let description = BlockDevInfo {
            capacity_bytes: 1 << 20,
            sector_bytes: 512,
            discard_granularity_bytes: granularity,
            volatile_cache,
        };
        set(queue, &description, 32).unwrap()
    }

    #[test]
    fn a_card_without_cache_and_discard() {
        let queue = queue("512\n", "4294966784\n");
        assert_eq!(notes(queue.path(), 0, false), [""; 0]);
        let read = |name| std::fs::read_to_string(queue.path().join(name)).unwrap();
        assert_eq!(read("write_cache"), "write through");
        assert_eq!(read("discard_max_bytes"), "0");
        assert_eq!(read("nr_requests"), "32");
    }

    #[test]
    fn a_kernel_that_shows_discards_otherwise_is_noted() {
        assert_eq!(notes(queue("4096\n", "4294966784\n").path(), 4096, true), [""; 0]);
        let other = notes(queue("4096\n", "4294966784\n").path(), 3 << 20, true);
        assert!(other[0].contains("4096 bytes, not 3145728"), "{other:?}");
        let none = notes(queue("0\n", "0\n").path(), 4096, true);
        assert!(none[0].contains("no discards"), "{none:?}");
    }
}
