//! Checks for free space in the file system of a file.

use std::path::Path;

/// A file system with less free space counts as full, because writers also need space for metadata.
const MIN_FREE_BYTES: u64 = 256 << 10;

/// Whether the file system of `path` is full for this user; `false` if that is unknown. Space
/// reserved for root only counts for root.
pub fn is_full(path: &Path) -> bool {
    let Ok(found) = rustix::fs::statvfs(path) else { return false };
    let is_root = rustix::process::geteuid().is_root();
    let blocks = if is_root { found.f_bfree } else { found.f_bavail };
    // Some file systems (overlays, network file systems) report no blocks at all.
    found.f_blocks > 0 && blocks.saturating_mul(found.f_frsize) < MIN_FREE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_full_file_system_is_full() {
        assert!(!is_full(&std::env::temp_dir()));
        assert!(!is_full(Path::new("/proc")));
        assert!(!is_full(Path::new("/nowhere/at/all")));
    }
}
