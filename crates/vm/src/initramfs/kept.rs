//! Caches initramfs archives.
//!
//! An archive is reused for the same request if none of the host's files in it changed. The most
//! recently used ones are kept, and those that another process may be about to read. Archives are
//! written under a temporary name and renamed.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flashfit_host::durable;
use serde::{Deserialize, Serialize};
use tempfile::Builder;

use super::Initramfs;
use super::contents::GuestFiles;
use crate::VmError;
use crate::tree::{Tree, TreeInput};
use crate::unfinished;

const MAX_KEPT: usize = 4;
/// QEMU has certainly read an archive this long after it was found or built.
const STARTING: Duration = Duration::from_secs(600);
const ARCHIVE: &str = "cpio";
const RECORD: &str = "json";

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    request: String,
    inputs: Vec<TreeInput>,
    lacking_programs: Vec<String>,
    lacking_modules: Vec<String>,
}

/// The cached archive for `request`, if it is up to date.
pub(super) fn find(folder: &Path, request: &str) -> Option<Initramfs> {
    let base = base(folder, request);
    let text = std::fs::read_to_string(base.with_extension(RECORD)).ok()?;
    let record: Record = serde_json::from_slice(text.as_bytes()).ok()?;
    let file = base.with_extension(ARCHIVE);
    let bytes = file.metadata().ok()?.len();
    if record.request != request || !record.inputs.iter().all(TreeInput::is_unchanged) {
        return None;
    }
    // Marks it as used; another process may just have removed it.
    let opened = File::options().append(true).open(&file).ok()?;
    opened.set_modified(SystemTime::now()).ok()?;
    if !file.exists() {
        return None;
    }
    Some(Initramfs {
        file,
        bytes,
        lacking_programs: record.lacking_programs,
        lacking_modules: record.lacking_modules,
    })
}

/// Writes the archive with `write` and adds it to the cache.
pub(super) fn keep(
    folder: &Path,
    request: &str,
    contents: &GuestFiles,
    write: impl FnOnce(&Tree, &File) -> io::Result<()>,
) -> Result<Initramfs, VmError> {
    let base = base(folder, request);
    let (file, note) = (base.with_extension(ARCHIVE), base.with_extension(RECORD));
    let error = VmError::file("write", file.clone());
    // Removed on drop unless renamed.
    let new = Builder::new().prefix(unfinished::PREFIX).tempfile_in(folder).map_err(&error)?;
    write(&contents.tree, new.as_file()).map_err(&error)?;
    let bytes = new.as_file().metadata().map_err(&error)?.len();
    let record = Record {
        request: request.to_owned(),
        inputs: contents.tree.inputs().cloned().collect(),
        lacking_programs: contents.lacking_programs.clone(),
        lacking_modules: contents.lacking_modules.clone(),
    };
    let text = serde_json::to_string(&record).expect("texts and numbers");
    // The old record is removed first: without a record, the archive is rebuilt.
    let _ = std::fs::remove_file(&note);
    new.persist(&file).map_err(|failed| error(failed.error))?;
    durable::write(&note, text.as_bytes()).map_err(&error)?;
    tidy(folder, &file);
    Ok(Initramfs {
        file,
        bytes,
        lacking_programs: record.lacking_programs,
        lacking_modules: record.lacking_modules,
    })
}

/// Removes all but the most recently used archives, and leftovers of killed processes.
fn tidy(folder: &Path, current: &Path) {
    unfinished::remove_abandoned(folder);
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut archives = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if ending == ARCHIVE && path != current {
            let used = path.metadata().and_then(|facts| facts.modified());
            archives.push((used.unwrap_or(SystemTime::UNIX_EPOCH), path));
        }
    }
    archives.sort_by(|one, other| other.cmp(one));
    let starting = SystemTime::now().checked_sub(STARTING).unwrap_or(SystemTime::UNIX_EPOCH);
    for (_, path) in archives.into_iter().skip(MAX_KEPT - 1).filter(|(used, _)| *used < starting) {
        let _ = std::fs::remove_file(path.with_extension(RECORD));
        let _ = std::fs::remove_file(path);
    }
}

fn base(folder: &Path, request: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    request.hash(&mut hasher);
    folder.join(format!("{:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(file: &Path) -> GuestFiles {
        let mut tree = Tree::default();
        tree.host_file(file, "/file").unwrap();
        GuestFiles { tree, lacking_programs: vec!["fio".to_owned()], lacking_modules: Vec::new() }
    }

    fn archive(tree: &Tree, file: &File) -> io::Result<()> {
        tree.archive(file).map(|_| ())
    }

    #[test]
    fn an_archive_is_reused_until_a_file_in_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let input = tempfile::tempdir().unwrap();
        let file = input.path().join("file");
        std::fs::write(&file, "one").unwrap();
        assert!(find(folder.path(), "a").is_none());
        let made = keep(folder.path(), "a", &contents(&file), archive).unwrap();
        let found = find(folder.path(), "a").unwrap();
        assert_eq!((found.file, found.bytes), (made.file, made.bytes));
        assert_eq!(found.lacking_programs, ["fio"]);
        assert!(find(folder.path(), "b").is_none());
        std::fs::write(&file, "another").unwrap();
        assert!(find(folder.path(), "a").is_none());
    }

    #[test]
    fn only_the_most_recently_used_archives_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "one").unwrap();
        let make = |request: &str, used: SystemTime| {
            let made = keep(folder.path(), request, &contents(&file), archive).unwrap();
            assert!(find(folder.path(), request).is_some());
            File::options().append(true).open(made.file).unwrap().set_modified(used).unwrap();
        };
        // Two files each, and the one that went in.
        let count = || (std::fs::read_dir(folder.path()).unwrap().count() - 1) / 2;
        let now = SystemTime::now();
        for number in 0..6 {
            make(&number.to_string(), now);
        }
        assert_eq!(count(), 6, "machines may be starting with any of them");
        for number in 0..6 {
            make(&number.to_string(), now - 2 * STARTING + Duration::from_secs(number));
        }
        assert_eq!(count(), MAX_KEPT);
        assert!(find(folder.path(), "0").is_none());
        assert!(find(folder.path(), "5").is_some());
    }
}
