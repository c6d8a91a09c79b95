//! The names in `/dev`: which is meant by a mistyped one, and what lies among them without being a
//! device. A program that writes to a mistyped name there makes a regular file in memory.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Where device nodes are.
pub const DEV: &str = "/dev";
/// Below this likeness (Jaro-Winkler) another name is not meant.
const LEAST_LIKENESS: f64 = 0.8;
const MOST_NAMES: usize = 3;

/// The block devices whose names are nearest to `path`, separated by commas.
pub fn nearest(path: &Path) -> Option<String> {
    let entries = std::fs::read_dir(DEV).ok()?.flatten();
    let blocks = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_block_device()));
    let names = blocks.map(|entry| entry.path().display().to_string());
    nearest_of(&path.display().to_string(), names)
}

fn nearest_of(mistyped: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let tail = |name: &str| name.trim_start_matches("/dev/").to_owned();
    let mut near: Vec<(f64, String)> = names
        .map(|name| (strsim::jaro_winkler(&tail(mistyped), &tail(&name)), name))
        .filter(|(likeness, _)| *likeness >= LEAST_LIKENESS)
        .collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    near.truncate(MOST_NAMES);
    let names: Vec<String> = near.into_iter().map(|(_, name)| name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Whether a file lies in the file system of the device nodes. Others that are mounted below it,
/// such as `/dev/shm`, are for files.
pub fn is_among(path: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    path.starts_with(DEV)
        && !path.starts_with("/dev/shm")
        && device(path).is_none_or(|found| Some(found) == device(Path::new(DEV)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_offered_first() {
        let names = ["/dev/mmcblk0", "/dev/mmcblk0p1", "/dev/vda", "/dev/sda"];
        let near = |name: &str| nearest_of(name, names.into_iter().map(str::to_owned));
        assert_eq!(near("/dev/mmcblk9").as_deref(), Some("/dev/mmcblk0, /dev/mmcblk0p1"));
        assert_eq!(near("/dev/mcblk0").as_deref(), Some("/dev/mmcblk0, /dev/mmcblk0p1"));
        assert_eq!(near("/dev/zzz"), None);
    }

    #[test]
    fn shared_memory_is_not_among_the_devices() {
        assert!(!is_among(Path::new("/dev/shm/image")));
        assert!(!is_among(Path::new("/tmp/image")));
        assert!(is_among(Path::new("/dev/null")));
    }
}
