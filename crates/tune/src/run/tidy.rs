//! What is removed from a run directory when a run ends, or ends before it began.

use std::path::Path;
use std::time::Duration;

use super::scratch::{MOUNTED, ScratchFolder};

/// How often and after how long a busy mount point is tried again.
const TRIES: u32 = 400;
const INTERVAL: Duration = Duration::from_millis(50);

/// Leaves nothing of a run that ended before it began.
pub(super) fn forget_unbegun(dir: &Path, existed: bool) {
    if dir.join("run.json").exists() {
        return;
    }
    tidy(dir);
    if !existed {
        // If anything is in it after all, it stays.
        let _ = std::fs::remove_dir(dir);
    }
}

/// Removes the folders that are only needed while trials are made.
pub(super) fn tidy(dir: &Path) {
    ScratchFolder::tidy(dir);
    // A file system that was busy when it was unmounted leaves its place a moment later. If
    // something is still mounted there then, it stays.
    for _ in 0..TRIES {
        match std::fs::remove_dir(dir.join(MOUNTED)) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                std::thread::sleep(INTERVAL);
            }
            _ => return,
        }
    }
}
