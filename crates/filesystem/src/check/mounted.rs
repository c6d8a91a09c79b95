//! How a file system is mounted: options that risk data, and usual ones that are missing.
//!
//! What risks data is what the catalog says of its options.

use flashfit_host::program::quote;

use crate::catalog::FileSystemCatalog;
use crate::conditions::Conditions;
use crate::durability::Durability;
use crate::filesystem::FsOption;

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
        findings.extend(access_times(mount));
        findings.extend(twice(examined, mount));
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

fn access_times(mount: &MountedVolume) -> Option<CheckFinding> {
    if has(mount, "noatime") || has(mount, "ro") {
        return None;
    }
    let point = quote(&mount.point);
    let finding =
        CheckFinding::new("mount", &mount.point, Severity::Advice, "mounted without noatime")
            .costs("reading a file for the first time in a day writes to the device")
            .repair(format!("mount -o remount,noatime {point}  # and add it in /etc/fstab"));
    Some(finding)
}

fn twice(examined: &ExaminedDevice, mount: &MountedVolume) -> Option<CheckFinding> {
    if !has(mount, "discard") || examined.trim_timer != Some(true) {
        return None;
    }
    let text = "mounted with discard, and fstrim.timer is enabled";
    let finding = CheckFinding::new("trim", &mount.point, Severity::Advice, text)
        .costs("freed space is discarded twice, once while files are deleted")
        .repair(format!("mount -o remount,nodiscard {}", quote(&mount.point)));
    Some(finding)
}
