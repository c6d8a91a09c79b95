//! Removes unfinished files and directories of killed processes from the cache directory.
//!
//! Files are written under a random name with a prefix and renamed when complete. Abandoned ones
//! are recognized by prefix and age; process ids would be ambiguous between containers that share
//! the directory.

use std::path::Path;
use std::time::Duration;

/// Prefix of unfinished files and directories.
pub(crate) const PREFIX: &str = ".new-";
/// Longer than a download with unpacking takes.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

pub(crate) fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

/// Removes files that killed processes left in `folder`.
pub(crate) fn remove_abandoned(folder: &Path) {
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
    {
        if !is_unfinished(&path) {
            continue;
        }
        let age = path.symlink_metadata().and_then(|facts| facts.modified());
        let age = age.ok().and_then(|changed| changed.elapsed().ok());
        if age.is_some_and(|age| age > ABANDONED_AFTER) {
            // One of the two applies; errors are ignored.
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_old_unfinished_files_and_folders_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - ABANDONED_AFTER - Duration::from_secs(60);
        for (name, is_old) in [(".new-1", true), (".new-2", false), ("whole", true)] {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            if is_old {
                file.set_modified(old).unwrap();
            }
        }
        let unpacking = folder.path().join(".new-folder");
        std::fs::create_dir(&unpacking).unwrap();
        std::fs::write(unpacking.join("file"), "").unwrap();
        std::fs::File::open(&unpacking).unwrap().set_modified(old).unwrap();
        remove_abandoned(folder.path());
        let left =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, [".new-2", "whole"]);
    }
}
