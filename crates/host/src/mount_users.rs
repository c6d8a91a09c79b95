//! Which processes keep a mounted file system busy: by their working or root directory, their
//! program, open files and mapped files (`/proc/PID`, proc_pid(5)).
//!
//! Files belong to a mount by its ID (`STATX_MNT_ID`, statx(2), Linux 5.8), so a mount of the same
//! file system elsewhere does not count. Only files whose names are below the mount point are asked
//! for it, and no file system looks up their attributes again: one of a network server that does
//! not answer would wait without limit. Limits: only processes that this one may look into; none
//! that opens and closes files all the time.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// What a process uses of a mount is named so often.
const MOST_USES: usize = 3;

/// A process that uses a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountUser {
    pub id: u32,
    /// The name of its program, as ps(1) shows it.
    pub name: String,
    /// In words; files below the mount point.
    pub uses: BTreeSet<String>,
}

impl fmt::Display for MountUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uses: Vec<&str> = self.uses.iter().take(MOST_USES).map(String::as_str).collect();
        write!(f, "{} (process {}: {})", self.name, self.id, uses.join(", "))
    }
}

/// The processes that use what is mounted at `point`, this one too.
pub fn users(point: &Path) -> Vec<MountUser> {
    // Links of `/proc` have the name without symbolic links.
    let point = &fs::canonicalize(point).unwrap_or_else(|_| point.to_owned());
    let Some(mount) = mount_id(point) else { return Vec::new() };
    let numbers = entries(Path::new("/proc")).into_iter().filter_map(|folder| {
        let id = folder.file_name()?.to_str()?.parse::<u32>().ok()?;
        Some((id, folder))
    });
    let user = |(id, folder): (u32, PathBuf)| {
        // A thread may have its own files and its own directory.
        let threads = entries(&folder.join("task"));
        let uses: BTreeSet<String> =
            threads.iter().flat_map(|thread| uses(thread, mount, point)).collect();
        let name = fs::read_to_string(folder.join("comm")).unwrap_or_default().trim().to_owned();
        (!uses.is_empty()).then_some(MountUser { id, name, uses })
    };
    numbers.filter_map(user).collect()
}

fn uses(thread: &Path, mount: u64, point: &Path) -> Vec<String> {
    let is_below = |link: &Path| fs::read_link(link).is_ok_and(|file| file.starts_with(point));
    let is_in = |link: &Path| is_below(link) && mount_id(link) == Some(mount);
    let single = [("cwd", "working directory"), ("root", "root directory"), ("exe", "program")];
    let mut found: Vec<String> = single
        .into_iter()
        .filter(|(link, _)| is_in(&thread.join(link)))
        .map(|(_, word)| word.to_owned())
        .collect();
    // Those of a thread lead nowhere.
    let mapped = thread.ancestors().nth(2).unwrap_or(thread).join("map_files");
    let files = entries(&thread.join("fd")).into_iter().map(|link| (link, "open"));
    let files = files.chain(entries(&mapped).into_iter().map(|link| (link, "mapped")));
    for (link, how) in files.filter(|(link, _)| is_in(link)) {
        let file = fs::read_link(&link).unwrap_or_default();
        let below = file.strip_prefix(point).unwrap_or(&file);
        let name = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        found.push(format!("{how} {}", name.display()));
    }
    found
}

fn mount_id(path: &Path) -> Option<u64> {
    let flags = AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let found = statx(CWD, path, flags, StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Program, Runner, SystemRunner};

    #[test]
    fn a_process_is_named_with_what_it_uses() {
        flashfit_test_support::isolated_if_root(|| {
            let place = tempfile::tempdir().unwrap();
            let point = place.path();
            let mount = Program::new("mount").args(["-t", "tmpfs", "none"]).arg(point);
            if SystemRunner::default().run_checked(&mount).is_err() {
                return;
            }
            assert_eq!(users(point), []);
            let open = fs::File::create(point.join("log")).unwrap();
            let mut sleeper =
                std::process::Command::new("sleep").arg("1000").current_dir(point).spawn().unwrap();
            let found = users(point);
            sleeper.kill().unwrap();
            sleeper.wait().unwrap();
            let words: Vec<String> = found.iter().map(ToString::to_string).collect();
            let other = format!("sleep (process {}: working directory)", sleeper.id());
            assert!(words.contains(&other), "{words:?}");
            let own = found.iter().find(|user| user.id == std::process::id()).unwrap();
            assert!(own.uses.contains("open log"), "{own:?}");
            assert_eq!(found.len(), 2, "{words:?}");
            // A symbolic link leads to the same mount, and a file without a name is used, too.
            let link = place.path().with_extension("link");
            std::os::unix::fs::symlink(point, &link).unwrap();
            fs::remove_file(point.join("log")).unwrap();
            let found = users(&link);
            fs::remove_file(link).unwrap();
            assert!(found[0].uses.contains("open log (deleted)"), "{found:?}");
            drop(open);
            assert_eq!(users(point), []);
        });
    }
}
