//! Options of mounted file systems, mounts that nobody else sees, and discards.
//!
//! mount(8) merges a remount with fstab(5) unless it is given both the source and the mount point,
//! and then it drops every option that is not named. So each remount names all options.

use std::path::Path;

use flashfit_device::WriteConsent;
use flashfit_filesystem::improvement::{contradicts, merged};
use flashfit_host::mount::{Mounted, enter_private_namespace};
use flashfit_host::mountinfo::{self, MountEntry};
use flashfit_host::{Program, ProgramOutcome, Runner};

use crate::error::ApplyError;
use crate::steps::ApplyTools;
use crate::verify::options_of_ext4;

use super::{DeviceAccess, run_any, shown_words};

/// Options of the superblock that belong to every file system, and that a remount without them
/// drops.
const OF_ALL_FILE_SYSTEMS: [&str; 4] = ["sync", "dirsync", "lazytime", "mand"];

/// Changes options of a mount in use, and looks whether the kernel took them.
pub(super) fn remount(
    tools: &ApplyTools<'_>,
    access: &DeviceAccess,
    point: &Path,
    options: &[String],
) -> Result<(), ApplyError> {
    let DeviceAccess::InUse(pinned) = access else {
        let what = format!("{} is not mounted any more", point.display());
        return Err(ApplyError::NotAsPlanned { what: vec![what] });
    };
    let entry = pinned.mount(point)?;
    let mount = Program::new("mount")
        .args(["-o", &format!("remount,{}", all_options(&entry, options))])
        .arg(&entry.source)
        .arg(point);
    tools.runner.run_checked(&mount)?;
    let now = pinned.mount(point)?;
    check_shown(&shown_words(&now), options)
}

/// Every option that a remount must name, with the new ones in place of those that they contradict.
fn all_options(entry: &MountEntry, options: &[String]) -> String {
    let of_all = |word: &&str| OF_ALL_FILE_SYSTEMS.contains(word);
    let words = entry.options.split(',').chain(entry.super_options.split(',').filter(of_all));
    let words: Vec<&str> = words.collect();
    merged(&words.join(","), options)
}

/// Whether the kernel shows the contrary of an option. It does not show each option that it took.
fn check_shown(shown: &[String], options: &[String]) -> Result<(), ApplyError> {
    let wrong = |option: &String| {
        let other = shown.iter().find(|word| contradicts(option, word))?;
        (!shown.contains(option)).then(|| format!("{option} is in effect as {other}"))
    };
    let what: Vec<String> = options.iter().filter_map(wrong).collect();
    if what.is_empty() { Ok(()) } else { Err(ApplyError::NotAsPlanned { what }) }
}

/// Mounts a file system where nobody else sees it, to learn whether the kernel takes the options
/// that fstab is going to have.
pub(super) fn try_options(
    tools: &ApplyTools<'_>,
    place: &WriteConsent,
    kind: &str,
    options: &[String],
) -> Result<(), ApplyError> {
    privately(tools, place, kind, options, |point| {
        let entry = mountinfo::at(point).map_err(ApplyError::file(point))?;
        let mut shown = entry.as_ref().map(shown_words).unwrap_or_default();
        shown.extend(options_of_ext4(place.path()));
        check_shown(&shown, options)
    })
}

/// Discards free blocks; what fstrim(8) says of it.
pub(super) fn trim(
    tools: &ApplyTools<'_>,
    access: &DeviceAccess,
    volume: &flashfit_filesystem::improvement::ImprovedVolume,
) -> Result<String, ApplyError> {
    let runner = tools.runner;
    match access {
        DeviceAccess::InUse(pinned) => {
            let Some(point) = volume.mount_points.first().map(Path::new) else {
                let what = format!("{} is not mounted", volume.name);
                return Err(ApplyError::NotAsPlanned { what: vec![what] });
            };
            pinned.mount(point)?;
            fstrim(runner, point)
        }
        DeviceAccess::Exclusive(_) => {
            let place = access.place(tools, volume)?;
            privately(tools, &place, &volume.kind, &[], |point| fstrim(runner, point))
        }
    }
}

fn fstrim(runner: &dyn Runner, point: &Path) -> Result<String, ApplyError> {
    let program = Program::new("fstrim").arg("--verbose").arg(point);
    let outcome: ProgramOutcome = run_any(runner, &program)?;
    if outcome.success() {
        let said = outcome.stdout.trim();
        // Its first word is the mount point.
        return Ok(said.split_once(": ").map_or(said, |(_, rest)| rest).to_owned());
    }
    if outcome.stderr.contains("not supported") {
        return Ok("nothing was discarded: the file system does not support it".to_owned());
    }
    Err(flashfit_host::program::failed(&outcome).into())
}

/// Does something with a mounted file system in a mount namespace of its own thread: if this
/// process is killed, nothing stays mounted.
fn privately<T: Send>(
    tools: &ApplyTools<'_>,
    place: &WriteConsent,
    kind: &str,
    options: &[String],
    work: impl FnOnce(&Path) -> Result<T, ApplyError> + Send,
) -> Result<T, ApplyError> {
    let folder = tempfile::tempdir().map_err(ApplyError::file(&std::env::temp_dir()))?;
    let runner = tools.runner;
    place.check(runner)?;
    std::thread::scope(|scope| {
        let mounting = scope.spawn(|| {
            enter_private_namespace()?;
            place.surrounded(|| {
                let mounted = Mounted::new(runner, place.path(), kind, folder.path(), options)?;
                let done = work(mounted.point())?;
                mounted.unmount()?;
                Ok(done)
            })
        });
        mounting.join().expect("looking at a mount does not panic")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remount_names_the_options_that_it_would_drop() {
        let entry = MountEntry {
            device: (7, 0),
            point: "/mnt".into(),
            options: "rw,nosuid,nodev,relatime".to_owned(),
            kind: "ext4".to_owned(),
            source: "/dev/loop0".into(),
            super_options: "rw,sync,stripe=4".to_owned(),
        };
        let options = all_options(&entry, &["noatime".to_owned()]);
        assert_eq!(options, "rw,nosuid,nodev,sync,noatime");
    }

    #[test]
    fn an_option_that_the_kernel_shows_otherwise_is_not_in_effect() {
        let words = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        assert!(check_shown(&words("rw,noatime"), &words("noatime")).is_ok());
        assert!(check_shown(&words("rw,relatime"), &words("noatime")).is_err());
        assert!(check_shown(&words("rw,commit=30"), &words("commit=60")).is_err());
        assert!(check_shown(&words("rw"), &words("commit=60")).is_ok(), "it may not be shown");
    }
}
