//! Options of mounted file systems, mounts that nobody else sees, and discards.
//!
//! mount(8) merges a remount with fstab(5) unless it is given both the source and the mount point,
//! and then it drops every option that is not named. So each remount names what the kernel shows.
//! Words of one mount are changed with `bind`, which leaves the file system as it is: without it, a
//! read-only bind mount makes the whole file system read-only, and some kernels reset options of
//! xfs and f2fs that are not named. Limit: options that the kernel does not show cannot be named.

use std::path::Path;

use flashfit_device::WriteConsent;
use flashfit_filesystem::improvement::{contradicts, inverse, is_of_file_system, merged};
use flashfit_host::mount::{Mounted, enter_private_namespace};
use flashfit_host::mountinfo::{self, MountEntry};
use flashfit_host::{Program, ProgramOutcome, Runner};

use crate::error::ApplyError;
use crate::steps::ApplyTools;
use crate::verify::options_of_ext4;

use super::{DeviceAccess, PinnedDevice, run_any, shown_words};

/// Shown with the options of a btrfs, but it is what a mount shows of it, and stays.
const PART_OF_BTRFS: [&str; 2] = ["subvol", "subvolid"];

/// Why options of the file system cannot be changed through a mount; `None` if they can. A remount
/// gives `ro` or `rw` to both at once.
pub(super) fn why_fixed(entry: &MountEntry) -> Option<String> {
    let point = entry.point.display();
    match (is_read_only(&entry.options), is_read_only(&entry.super_options)) {
        (true, false) => Some(format!(
            "{point} is a read-only mount, and with this change the kernel would make the whole \
             file system read-only"
        )),
        (false, true) => Some(format!(
            "the kernel has made it read-only, maybe after an error, although {point} is not a \
             read-only mount; check it first"
        )),
        _ => None,
    }
}

fn is_read_only(options: &str) -> bool {
    options.split(',').any(|word| word == "ro")
}

/// Changes options of a mount in use, and looks whether the kernel took them; a note if it dropped
/// others.
pub(super) fn remount(
    tools: &ApplyTools<'_>,
    access: &DeviceAccess,
    point: &Path,
    options: &[String],
) -> Result<Option<String>, ApplyError> {
    let DeviceAccess::InUse(pinned) = access else {
        let what = format!("{} is not mounted any more", point.display());
        return Err(ApplyError::NotAsPlanned { what: vec![what] });
    };
    let before = pinned.mount(point)?;
    let changes = remount_options(&before, options)
        .map_err(|why| ApplyError::NotAsPlanned { what: vec![why] })?;
    let now = run_remount(tools, pinned, &before, &changes)?;
    check_shown(&shown_words(&now), options)?;
    let mut lost = lost_words(&before.options, &now.options, options);
    lost.extend(lost_words(&before.super_options, &now.super_options, options));
    Ok((!lost.is_empty()).then(|| {
        let lost = lost.join(",");
        format!("{}: the kernel dropped {lost}; mount it again to get it back", point.display())
    }))
}

/// Takes options of a mount in use back, as far as the kernel does that; a note of what stays.
pub(super) fn take_back(
    tools: &ApplyTools<'_>,
    access: &DeviceAccess,
    point: &Path,
    options: &[String],
    before: &[String],
) -> Result<Option<String>, ApplyError> {
    let DeviceAccess::InUse(pinned) = access else {
        // Unmounted since, so nothing of it is in effect.
        return Ok(None);
    };
    let entry = pinned.mount(point)?;
    let is_fixed = why_fixed(&entry).is_some();
    let (mut back, mut stays) = (Vec::new(), Vec::new());
    for option in options {
        match inverse(option, before) {
            Some(word) if !(is_fixed && is_of_file_system(&word)) => back.push(word),
            _ => stays.push(option.as_str()),
        }
    }
    let changes = remount_options(&entry, &back)
        .map_err(|why| ApplyError::NotAsPlanned { what: vec![why] })?;
    let now = shown_words(&run_remount(tools, pinned, &entry, &changes)?);
    check_shown(&now, &back)?;
    let mut notes = Vec::new();
    if !stays.is_empty() {
        notes.push(format!("{}: {} ends at the next mount", point.display(), stays.join(",")));
    }
    let missing: Vec<&str> =
        before.iter().filter(|word| !now.contains(word)).map(String::as_str).collect();
    if !missing.is_empty() {
        let missing = missing.join(",");
        notes.push(format!("{}: {missing} was in effect before, and is not now", point.display()));
    }
    Ok((!notes.is_empty()).then(|| notes.join("; ")))
}

/// What is mounted there after the remount.
fn run_remount(
    tools: &ApplyTools<'_>,
    pinned: &PinnedDevice,
    entry: &MountEntry,
    options: &str,
) -> Result<MountEntry, ApplyError> {
    let mount = Program::new("mount")
        .args(["-o", &format!("remount,{options}")])
        .arg(&entry.source)
        .arg(&entry.point);
    tools.runner.run_checked(&mount)?;
    pinned.mount(&entry.point)
}

/// Every option that a remount must name, with the new ones in place of those that they contradict;
/// why the kernel must not be asked for it.
fn remount_options(entry: &MountEntry, options: &[String]) -> Result<String, String> {
    let access = |options: &str| if is_read_only(options) { "ro" } else { "rw" };
    let own = |word: &&str| !["ro", "rw"].contains(word) && !is_of_file_system(word);
    let mut words: Vec<&str> = entry.options.split(',').filter(own).collect();
    if !words.iter().any(|word| ["noatime", "relatime"].contains(word)) {
        // Not shown, and not what mount(2) takes if nothing is named.
        words.push("strictatime");
    }
    if !options.iter().any(|option| is_of_file_system(option)) {
        words.insert(0, access(&entry.options));
        return Ok(format!("bind,{}", merged(&words.join(","), options)));
    }
    if let Some(why) = why_fixed(entry) {
        return Err(why);
    }
    words.insert(0, access(&entry.super_options));
    let of_all = |word: &&str| {
        let name = word.split('=').next().unwrap_or(word);
        !["ro", "rw"].contains(word) && !PART_OF_BTRFS.contains(&name)
    };
    words.extend(entry.super_options.split(',').filter(of_all));
    Ok(merged(&words.join(","), options))
}

/// The words that are no longer shown, without those that an option takes the place of.
fn lost_words(before: &str, now: &str, options: &[String]) -> Vec<String> {
    let subject = |word: &str| {
        let name = word.split('=').next().unwrap_or(word);
        name.strip_prefix("no").unwrap_or(name).to_owned()
    };
    let is_replaced = |word: &str| {
        options.iter().any(|new| contradicts(new, word) || subject(new) == subject(word))
    };
    let is_lost = |word: &&str| {
        !word.is_empty() && !now.split(',').any(|shown| shown == *word) && !is_replaced(word)
    };
    before.split(',').filter(is_lost).map(str::to_owned).collect()
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
#[path = "mounts_tests.rs"]
mod tests;
