//! Files and folders of the cache folder that are still being made.
//!
//! Each is made under a random name and renamed when it is whole. A process that is killed leaves
//! its own behind; they are recognized by their name and their age. A process id in the name would
//! not do: containers that share the folder have process ids in common.

use std::path::Path;
use std::time::Duration;

/// How the names of unfinished files and folders begin.
pub(crate) const PREFIX: &str = ".new-";
/// Longer than a download and unpacking may take.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// Whether this is the name of something unfinished.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

/// Removes what killed processes have left in `folder`.
pub(crate) fn remove_abandoned(folder: &Path) {
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
    {
        if !is_unfinished(&path) {
            continue;
        }
        let age = path.symlink_metadata().and_then(|facts| facts.modified());
        let age = age.ok().and_then(|changed| changed.elapsed().ok());
        if age.is_some_and(|age| age > ABANDONED_AFTER) {
            // One of the two does it; what cannot be removed stays.
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
