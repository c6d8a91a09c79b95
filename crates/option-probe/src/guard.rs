//! Which options are not even tried: those that would reach beyond the scratch image.
//!
//! A catalog may be the user's own and is run without being asked for. mount(8) takes parameters
//! that name another device or folder (`device=`, `logdev=`, `X-mount.*`), change an existing mount
//! (`remount`, `bind`) or set up its own device (`loop`); mkfs programs take a journal device
//! or a folder to copy. Sources: mount(8), ext4(5), xfs(5), btrfs(5), f2fs.rst.

/// Parameters of mount(8) that do something else than to mount this device here.
const OTHER_MOUNTS: [&str; 17] = [
    "remount",
    "bind",
    "rbind",
    "move",
    "loop",
    "offset",
    "sizelimit",
    "encryption",
    "helper",
    "uhelper",
    "shared",
    "rshared",
    "slave",
    "rslave",
    "private",
    "rprivate",
    "unbindable",
];

/// Parameters whose value is another device, also where it is given by number.
const OTHER_DEVICES: [&str; 7] =
    ["device", "journal_dev", "journal_path", "logdev", "rtdev", "logfile", "usrjquota"];

/// Parameters that mount(8) and fstab(5) keep to themselves: the file system never gets them.
const KEPT_BY_MOUNT: [&str; 12] = [
    "auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail", "_netdev", "comment",
    "defaults", "silent",
];

/// Whether mount(8) keeps a parameter to itself.
pub(super) fn is_kept_by_mount(word: &str) -> bool {
    KEPT_BY_MOUNT.contains(&word.split('=').next().unwrap_or_default())
}

/// Why an option with these mount parameters is not tried; `None` where it is.
pub(super) fn forbidden_mount(parameters: &[String]) -> Option<String> {
    parameters.iter().flat_map(|parameter| parameter.split(',')).find_map(|parameter| {
        let key = parameter.split('=').next().unwrap_or_default().trim();
        let lower = key.to_ascii_lowercase();
        if OTHER_MOUNTS.contains(&lower.as_str()) || lower.starts_with("x-") {
            return Some(format!("`{key}` does something else than to mount the file system"));
        }
        names_another_place(parameter, &lower)
    })
}

/// Why an option with these arguments of mkfs or the tuning program is not tried.
pub(super) fn forbidden_argument(arguments: &[String]) -> Option<String> {
    arguments.iter().flat_map(|argument| argument.split([',', ' '])).find_map(|argument| {
        let key = argument.split('=').next().unwrap_or_default().to_ascii_lowercase();
        names_another_place(argument, &key)
    })
}

fn names_another_place(text: &str, key: &str) -> Option<String> {
    (OTHER_DEVICES.contains(&key) || text.contains('/') || text.contains(".."))
        .then(|| format!("`{text}` names another device or file than the one that is tried on"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn what_reaches_beyond_the_image_is_not_mounted() {
        for bad in [
            "remount",
            "noatime,remount",
            "REMOUNT",
            "bind",
            "loop=/dev/loop7",
            "device=/dev/sda",
            "journal_dev=0x801",
            "logdev=sdb",
            "X-mount.mkdir",
            "x-systemd.automount",
            "subvol=../other",
            "noatime data=/etc",
        ] {
            assert!(forbidden_mount(&words(bad)).is_some(), "{bad}");
        }
        for good in ["noatime", "data=writeback", "compress=zstd:-3", "commit=30", "loop_fine"] {
            assert_eq!(forbidden_mount(&words(good)), None, "{good}");
        }
    }

    #[test]
    fn a_program_is_given_no_other_device_or_folder() {
        for bad in ["-J device=/dev/sda", "/etc", "stride=2,journal_dev=8:1", "../x"] {
            assert!(forbidden_argument(&words(bad)).is_some(), "{bad}");
        }
        for good in ["-O ^has_journal", "stride=2,stripe_width=1024", "-n 65536"] {
            assert_eq!(forbidden_argument(&words(good)), None, "{good}");
        }
    }
}
