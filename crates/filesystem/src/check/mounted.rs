//! How a file system is mounted: options that risk data, and usual ones that are missing.
//!
//! What risks data is what the catalog says of its options.

use crate::catalog::FileSystemCatalog;
use crate::conditions::Conditions;
use crate::durability::Durability;
use crate::filesystem::FsOption;
use crate::improvement::{ImprovedVolume, Improvement};

use super::{CheckFinding, ExaminedDevice, MountedVolume, Severity, Volume};

pub(super) fn check(
    examined: &ExaminedDevice,
    volume: &Volume,
    catalog: &FileSystemCatalog,
) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    for mount in &volume.mounts {
        let before = findings.len();
        findings.extend(risky(mount, catalog));
        findings.extend(access_times(volume, mount));
        findings.extend(twice(examined, volume, mount));
        findings.extend(never_discarded(examined, volume, mount));
        if findings.len() == before {
            let text = format!("mounted with {}", mount.options.join(","));
            findings.push(CheckFinding::new("mount", &mount.point, Severity::Fine, text));
        }
    }
    findings
}

fn has(mount: &MountedVolume, option: &str) -> bool {
    mount.options.iter().any(|set| set == option)
}

fn risky(mount: &MountedVolume, catalog: &FileSystemCatalog) -> Vec<CheckFinding> {
    let of_kind = catalog.filesystems().iter().filter(|known| known.kind == mount.kind);
    let options = of_kind.flat_map(|filesystem| &filesystem.options);
    let mut findings: Vec<CheckFinding> = Vec::new();
    for option in options.filter(|option| option.durability != Durability::Safe) {
        let Some(set) = is_set(option, mount) else { continue };
        let text = format!("mounted with {set}: {}", option.durability);
        let severity = match option.durability {
            Durability::Safe | Durability::LosesRecent => Severity::Advice,
            Durability::BreaksPromise | Durability::MayCorrupt => Severity::Bad,
        };
        let finding = CheckFinding::new("mount", &mount.point, severity, text)
            .costs(option.risk.clone())
            .repair(format!("${{EDITOR:-vi}} /etc/fstab  # remove {set}, then mount it again"));
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    findings
}

/// The mount options of a catalog's option, where all of them are set.
fn is_set(option: &FsOption, mount: &MountedVolume) -> Option<String> {
    if option.mount.is_empty() || !option.mkfs.is_empty() {
        return None;
    }
    let fill = |text: &crate::template::Template| text.fill(0, &Conditions::default()).ok();
    let words: Vec<String> = option.mount.iter().map(fill).collect::<Option<_>>()?;
    words.iter().all(|word| has(mount, word)).then(|| words.join(","))
}

const READS_WRITE: &str = "reading a file for the first time in a day writes to the device";
const DISCARDED_TWICE: &str = "freed space is discarded twice, once while files are deleted";
const NEVER_DISCARDED: &str =
    "the device copies deleted data while it collects garbage, because nobody discards it";

fn access_times(volume: &Volume, mount: &MountedVolume) -> Option<CheckFinding> {
    if has(mount, "noatime") || has(mount, "ro") {
        return None;
    }
    let finding =
        CheckFinding::new("mount", &mount.point, Severity::Advice, "mounted without noatime")
            .costs(READS_WRITE);
    with_options(finding, volume, "noatime", READS_WRITE)
}

fn twice(
    examined: &ExaminedDevice,
    volume: &Volume,
    mount: &MountedVolume,
) -> Option<CheckFinding> {
    if !has(mount, "discard") || examined.trim_timer != Some(true) {
        return None;
    }
    let text = "mounted with discard, and fstrim.timer is enabled";
    let finding =
        CheckFinding::new("trim", &mount.point, Severity::Advice, text).costs(DISCARDED_TWICE);
    with_options(finding, volume, "nodiscard", DISCARDED_TWICE)
}

fn with_options(
    finding: CheckFinding,
    volume: &Volume,
    option: &str,
    why: &str,
) -> Option<CheckFinding> {
    Some(finding.repair(Improvement::MountOptions {
        volume: ImprovedVolume::of(volume)?,
        options: vec![option.to_owned()],
        why: why.to_owned(),
        risk: String::new(),
    }))
}

/// Nobody tells the device which blocks are free. Only said where systemd says that its timer is
/// off: elsewhere, something else may do it.
fn never_discarded(
    examined: &ExaminedDevice,
    volume: &Volume,
    mount: &MountedVolume,
) -> Option<CheckFinding> {
    let discards = examined.queue.as_ref().is_some_and(|queue| queue.discards);
    let by_itself = ["btrfs", "f2fs"].contains(&mount.kind.as_str()) && !has(mount, "nodiscard");
    let by_mount = mount.options.iter().any(|word| word.split('=').next() == Some("discard"));
    let is_read_only = has(mount, "ro");
    if !discards || by_itself || by_mount || is_read_only || examined.trim_timer != Some(false) {
        return None;
    }
    let text = "mounted without discard, and fstrim.timer is not enabled";
    let volume = ImprovedVolume::of(volume)?;
    let why = "freed blocks are discarded once; systemctl enable --now fstrim.timer does it weekly";
    let finding = CheckFinding::new("trim", &mount.point, Severity::Advice, text)
        .costs(NEVER_DISCARDED)
        .repair(Improvement::Trim { volume, why: why.to_owned() });
    Some(finding)
}
