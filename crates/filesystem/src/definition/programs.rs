//! Which programs a definition may name, and what their arguments may contain. A definition can be
//! somebody else's, its programs run as root, and their arguments could name any file.

use toml::Spanned;

use super::{At, FileSystemToml, OptionToml, at};

/// Programs that make a file system or pack one.
const MKFS: [&str; 25] = [
    "bcachefs",
    "mke2fs",
    "mkfs.bcachefs",
    "mkfs.bfs",
    "mkfs.btrfs",
    "mkfs.cramfs",
    "mkfs.erofs",
    "mkfs.exfat",
    "mkfs.ext2",
    "mkfs.ext3",
    "mkfs.ext4",
    "mkfs.f2fs",
    "mkfs.fat",
    "mkfs.jfs",
    "mkfs.minix",
    "mkfs.msdos",
    "mkfs.nilfs2",
    "mkfs.ntfs",
    "mkfs.reiserfs",
    "mkfs.udf",
    "mkfs.vfat",
    "mkfs.xfs",
    "mkntfs",
    "mksquashfs",
    "mkudffs",
];
/// Programs that change a file system that is not mounted.
const TUNE: [&str; 10] = [
    "btrfstune",
    "exfatlabel",
    "fatlabel",
    "jfs_tune",
    "nilfs-tune",
    "ntfslabel",
    "reiserfstune",
    "tune.exfat",
    "tune2fs",
    "xfs_admin",
];
/// Programs that check a file system.
const FSCK: [&str; 25] = [
    "bcachefs",
    "btrfs",
    "dosfsck",
    "e2fsck",
    "fsck.bcachefs",
    "fsck.btrfs",
    "fsck.cramfs",
    "fsck.erofs",
    "fsck.exfat",
    "fsck.ext2",
    "fsck.ext3",
    "fsck.ext4",
    "fsck.f2fs",
    "fsck.fat",
    "fsck.jfs",
    "fsck.minix",
    "fsck.msdos",
    "fsck.nilfs2",
    "fsck.reiserfs",
    "fsck.vfat",
    "fsck.xfs",
    "nilfs-tune",
    "ntfsfix",
    "unsquashfs",
    "xfs_repair",
];
/// Beginnings of mount options that name files or helper programs, or are the business of mount(8)
/// itself.
const MOUNT_REFUSED: [&str; 7] = ["helper", "uhelper", "loop", "offset", "x-", "X-", "comment="];
/// Mount options that mount(8) keeps to itself, or that do not mount the file system.
const MOUNT_ALONE: [&str; 15] = [
    "_netdev", "auto", "bind", "defaults", "group", "move", "noauto", "nofail", "nogroup",
    "noowner", "nouser", "owner", "rbind", "remount", "user",
];

/// Refuses what a definition may not name.
pub(super) fn check(raw: &FileSystemToml) -> Result<(), At> {
    known(&raw.mkfs.program, "mkfs", &MKFS)?;
    known(&raw.fsck.program, "fsck", &FSCK)?;
    if let Some(tune) = &raw.tune {
        known(&tune.program, "tune", &TUNE)?;
        no_paths("tune.args", &tune.args)?;
    }
    let kind = raw.kind.get_ref();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    // What is behind a dot of a kind such as `fuse.NAME` is a program that mount(8) starts.
    if kind.is_empty() || !kind.chars().all(plain) || kind.starts_with("fuse") {
        let reason = format!("kind: `{kind}` is not the name of a file system of the kernel");
        return Err(at(&raw.kind, reason));
    }
    no_paths("mkfs.version_args", &raw.mkfs.version_args)?;
    no_paths("mkfs.args", &raw.mkfs.args)?;
    no_paths("mkfs.whole_device_args", &raw.mkfs.whole_device_args)?;
    no_paths("fsck.args", &raw.fsck.args)?;
    no_paths("fsck.repair", raw.fsck.repair.as_deref().unwrap_or_default())?;
    for flags in [&raw.mkfs.flags, &raw.mkfs.no_discard, &raw.trial.flags, &raw.crash.flags] {
        no_paths_in_flags(
            "flags",
            flags.iter().map(|(flag, values)| (flag.as_str(), values)),
            &raw.name,
        )?;
    }
    mount_options(&raw.trial.mount)?;
    mount_options(&raw.crash.mount)
}

/// Refuses what an option may not set.
pub(super) fn check_option(option: &OptionToml) -> Result<(), At> {
    no_paths("tune", &option.tune)?;
    for flags in [&option.mkfs, &option.mkfs_if_known] {
        let named = flags.iter().map(|(flag, values)| (flag.get_ref().as_str(), values));
        no_paths_in_flags("mkfs", named, &option.name)?;
    }
    mount_options(&option.mount)
}

fn known(program: &Spanned<String>, section: &str, allowed: &[&str]) -> Result<(), At> {
    let name = program.get_ref();
    if allowed.contains(&name.as_str()) {
        return Ok(());
    }
    let reason = format!(
        "{section}.program: `{name}` is not a known program for this; known are {}",
        allowed.join(", ")
    );
    Err(at(program, reason))
}

fn no_paths(key: &str, texts: &[Spanned<String>]) -> Result<(), At> {
    match texts.iter().find(|text| text.get_ref().contains('/')) {
        None => Ok(()),
        Some(text) => Err(at(
            text,
            format!("{key}: `{}` could name a file; arguments must not", text.get_ref()),
        )),
    }
}

fn no_paths_in_flags<'a>(
    key: &str,
    flags: impl Iterator<Item = (&'a str, &'a Vec<Spanned<String>>)>,
    place: &Spanned<String>,
) -> Result<(), At> {
    for (flag, values) in flags {
        if flag.contains('/') {
            let reason = format!("{key}: the flag `{flag}` could name a file; arguments must not");
            return Err(at(place, reason));
        }
        no_paths(key, values)?;
    }
    Ok(())
}

fn mount_options(options: &[Spanned<String>]) -> Result<(), At> {
    no_paths("mount", options)?;
    for option in options {
        let text = option.get_ref();
        if !text.split(',').all(is_mount_option) {
            let reason = format!(
                "mount: `{text}` is not a mount option: write NAME or NAME=VALUE, without spaces"
            );
            return Err(at(option, reason));
        }
        let is_refused = |one: &str| {
            MOUNT_ALONE.contains(&one)
                || MOUNT_REFUSED.iter().any(|refused| one.starts_with(refused))
        };
        if text.split(',').any(is_refused) {
            let reason = format!("mount: `{text}` is for mount(8), not for the file system");
            return Err(at(option, reason));
        }
    }
    Ok(())
}

/// Whether it has the form that fstab(5) and mount(8) take.
fn is_mount_option(text: &str) -> bool {
    let (name, value) = text.split_once('=').unwrap_or((text, "1"));
    let is_named = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    let is_value = |c: char| c.is_ascii_graphic() && !"\"'\\#".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    starts && name.chars().all(is_named) && !value.is_empty() && value.chars().all(is_value)
}
