//! Checks for free space in the file system of a file.

use std::path::Path;

/// A file system with less free space counts as full, because writers also need space for metadata.
const MIN_FREE_BYTES: u64 = 256 << 10;

/// Whether the file system of `path` is full for this user; `false` if that is unknown. Space
/// reserved for root only counts for root.
pub fn is_full(path: &Path) -> bool {
    free_bytes(path).is_some_and(|free| free < MIN_FREE_BYTES)
}

/// How many bytes this user can still write to the file system of `path`; `None` if that is
/// unknown.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    let is_root = rustix::process::geteuid().is_root();
    let blocks = if is_root { found.f_bfree } else { found.f_bavail };
    // Some file systems (overlays, network file systems) report no blocks at all.
    (found.f_blocks > 0).then(|| blocks.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_full_file_system_is_full() {
        assert!(!is_full(&std::env::temp_dir()));
        assert!(!is_full(Path::new("/proc")));
        assert!(!is_full(Path::new("/nowhere/at/all")));
        assert_eq!(free_bytes(Path::new("/nowhere/at/all")), None);
    }
}
