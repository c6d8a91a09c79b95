//! Suggests device nodes for mistyped names, and finds regular files in `/dev`, which a program
//! that writes to a mistyped device name leaves behind.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

pub const DEV: &str = "/dev";
/// Least Jaro-Winkler similarity of a name that is suggested.
const MIN_SIMILARITY: f64 = 0.8;
const MAX_NAMES: usize = 3;

/// The block devices whose names are most similar to `path`, separated by commas.
pub fn most_similar(path: &Path) -> Option<String> {
    let entries = std::fs::read_dir(DEV).ok()?.flatten();
    let blocks = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_block_device()));
    let names = blocks.map(|entry| entry.path().display().to_string());
    most_similar_of(&path.display().to_string(), names)
}

fn most_similar_of(mistyped: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let tail = |name: &str| name.trim_start_matches("/dev/").to_owned();
    let mut similar: Vec<(f64, String)> = names
        .map(|name| (strsim::jaro_winkler(&tail(mistyped), &tail(&name)), name))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .collect();
    similar.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    similar.truncate(MAX_NAMES);
    let names: Vec<String> = similar.into_iter().map(|(_, name)| name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Whether a file lies in the file system of the device nodes. File systems mounted below it, such
/// as `/dev/shm`, are for regular files.
pub fn is_in_dev(path: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    path.starts_with(DEV)
        && !path.starts_with("/dev/shm")
        && device(path).is_none_or(|found| Some(found) == device(Path::new(DEV)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_names_are_suggested_first() {
        let names = ["/dev/mmcblk0", "/dev/mmcblk0p1", "/dev/vda", "/dev/sda"];
        let similar = |name: &str| most_similar_of(name, names.into_iter().map(str::to_owned));
        assert_eq!(similar("/dev/mmcblk9").as_deref(), Some("/dev/mmcblk0, /dev/mmcblk0p1"));
        assert_eq!(similar("/dev/mcblk0").as_deref(), Some("/dev/mmcblk0, /dev/mmcblk0p1"));
        assert_eq!(similar("/dev/zzz"), None);
    }

    #[test]
    fn shared_memory_is_not_in_the_device_folder() {
        assert!(!is_in_dev(Path::new("/dev/shm/image")));
        assert!(!is_in_dev(Path::new("/tmp/image")));
        assert!(is_in_dev(Path::new("/dev/null")));
    }
}
