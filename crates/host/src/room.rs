//! Whether a file can still grow: room on the file system that holds it.

use std::path::Path;

/// A file system with less than this is full for whoever writes blocks and their tables.
const LEAST_ROOM_BYTES: u64 = 256 << 10;

/// Whether the file system that holds `path` has no room left for this user; `false` where that
/// cannot be told. What is kept back for root counts as room for root alone.
pub fn is_full(path: &Path) -> bool {
    let Ok(found) = rustix::fs::statvfs(path) else { return false };
    let is_root = rustix::process::geteuid().is_root();
    let blocks = if is_root { found.f_bfree } else { found.f_bavail };
    // One that counts no blocks at all (overlays, some network file systems) says nothing.
    found.f_blocks > 0 && blocks.saturating_mul(found.f_frsize) < LEAST_ROOM_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_where_tests_run_and_none_is_told_of_nothing() {
        assert!(!is_full(&std::env::temp_dir()));
        assert!(!is_full(Path::new("/proc")));
        assert!(!is_full(Path::new("/nowhere/at/all")));
    }
}
