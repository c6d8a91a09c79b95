//! The reasons why the guard refuses to write to a device.

use std::path::{Path, PathBuf};

use flashfit_host::path_text::to_text;
use flashfit_host::program::quote_path;
use flashfit_user_error::{ExitClass, Hint, UserError, UserSetting};

use crate::describe::{DeviceError, inspect_again};
use crate::in_use::DeviceUse;
use crate::units::Bytes;

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{} is in use: {}", to_text(path), join(uses))]
    InUse { path: PathBuf, uses: Vec<DeviceUse> },
    /// The kernel reports that the device is busy, but not why.
    #[error("{} is busy: the kernel refuses exclusive access", to_text(path))]
    Busy { path: PathBuf },
    /// The disk of a partition, or the disk itself, by another process.
    #[error("another process has locked {}{}", to_text(disk), disk_of(disk, path))]
    DiskLocked { path: PathBuf, disk: PathBuf },
    /// Not the device that the user confirmed.
    #[error("{} has changed since it was displayed: {what}", to_text(path))]
    Changed { path: PathBuf, what: String },
    /// The size changed during the job. The process that changed it may still be running.
    #[error("{} changed its size during the job: it was {before} and is now {now}", to_text(path))]
    Resized { path: PathBuf, before: Bytes, now: Bytes },
    /// Some processes or files could not be checked.
    #[error("cannot check whether {} is in use: cannot read {what}", to_text(path))]
    UsersUnknown {
        path: PathBuf,
        /// What could not be read.
        what: String,
    },
    /// Its partition table could not be read.
    #[error("cannot check whether {} has partitions: {reason}", to_text(path))]
    PartitionsUnknown { path: PathBuf, reason: String },
    #[error("all data on {} would be lost: confirmation is missing", to_text(path))]
    NotConfirmed {
        path: PathBuf,
        /// The name that confirms it.
        name: String,
    },
    #[error("settings of {} would be changed: confirmation is missing", to_text(path))]
    ChangeNotConfirmed {
        path: PathBuf,
        /// The name that confirms it.
        name: String,
    },
    #[error("files would be written to {}: confirmation is missing", to_text(path))]
    WriteNotConfirmed {
        path: PathBuf,
        /// The name that confirms it.
        name: String,
    },
    #[error("`{given}` is not the name of the device: it is `{name}`")]
    WrongName {
        given: String,
        /// The correct name.
        name: String,
    },
    /// The user interrupted the question.
    #[error("interrupted before {} was changed", to_text(path))]
    Interrupted { path: PathBuf },
    /// The device is write-protected.
    #[error("{} is write-protected", to_text(path))]
    ReadOnly { path: PathBuf },
    /// A loop device that is not backed by a simulated card.
    #[error("{} is not a simulated card", to_text(path))]
    NotSimulated { path: PathBuf },
    /// There is not exactly one disk with this serial number and the expected size.
    #[error("the disk with serial number {serial} was not found")]
    NotAttached { serial: String },
    /// It cannot be described.
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("cannot open {} for writing: {source}", to_text(path))]
    Open { path: PathBuf, source: std::io::Error },
}

fn join(uses: &[DeviceUse]) -> String {
    uses.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// What ends the uses. A flashfit that works on the device ends the others itself: without its loop
/// device or its mount, its job would fail.
fn hint_of(uses: &[DeviceUse]) -> Option<Hint> {
    uses.iter().find(|found| found.is_by_flashfit()).or(uses.first()).map(DeviceUse::hint)
}

fn disk_of(disk: &Path, path: &Path) -> String {
    if disk == path { String::new() } else { format!(", the disk of {}", to_text(path)) }
}

impl Refusal {
    pub(crate) fn changed(path: &Path, what: &str) -> Self {
        Self::Changed { path: path.to_owned(), what: what.to_owned() }
    }

    /// Whether the refusal may resolve itself within moments.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::InUse { uses, .. } => {
                let is_open = |found: &DeviceUse| {
                    matches!(found, DeviceUse::Open { .. } | DeviceUse::OpenUnlisted { .. })
                };
                uses.iter().all(is_open)
            }
            Self::Busy { .. } | Self::DiskLocked { .. } => true,
            _ => false,
        }
    }
}

impl UserError for Refusal {
    fn class(&self) -> ExitClass {
        match self {
            Self::Device(error) => error.class(),
            Self::Resized { .. } => ExitClass::Io,
            Self::Interrupted { .. } => ExitClass::Interrupted,
            Self::Open { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied => ExitClass::Environment,
                _ => ExitClass::Io,
            },
            _ => ExitClass::Refused,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::InUse { uses, .. } => hint_of(uses),
            Self::Busy { .. } => Some(
                "find its user with lsof or lsblk; it may be in another mount namespace".into(),
            ),
            Self::DiskLocked { disk, .. } => Some(
                format!(
                    "wait until it ends, or find it with lslocks: settings such as the I/O \
                     scheduler are those of all of {}",
                    to_text(disk)
                )
                .into(),
            ),
            Self::Changed { path, .. } => Some(inspect_again(path)),
            Self::Resized { .. } => {
                Some("find out what resizes it; flashfit does not restore its size".into())
            }
            Self::UsersUnknown { .. } => Some("run it as root, with sudo".into()),
            Self::PartitionsUnknown { path, .. } => {
                Some(format!("look at it with sfdisk --list {}", quote_path(path)).into())
            }
            Self::NotConfirmed { name, .. }
            | Self::ChangeNotConfirmed { name, .. }
            | Self::WriteNotConfirmed { name, .. }
            | Self::WrongName { name, .. } => Some(
                Hint::from("add ")
                    .and(UserSetting::Confirm)
                    .and(format!(" {}", flashfit_host::program::quote(name))),
            ),
            Self::ReadOnly { .. } => {
                Some("unlock the card's switch, or run blockdev --setrw".into())
            }
            Self::Device(error) => error.hint(),
            Self::Open { .. } => Some("run it as root".into()),
            Self::NotSimulated { .. } | Self::NotAttached { .. } | Self::Interrupted { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_advised_to_detach_or_unmount_what_another_flashfit_uses() {
        let node = || "card.img".to_owned();
        let held = DeviceUse::Held { node: node(), holder: "loop0".to_owned() };
        let mounted = DeviceUse::Mounted { node: node(), point: "/run/mnt".into() };
        let open = |name: &str| DeviceUse::Open { node: node(), pid: 7, name: name.to_owned() };
        let hint = |uses: &[DeviceUse]| {
            let refusal = Refusal::InUse { path: "card.img".into(), uses: uses.to_vec() };
            refusal.hint().and_then(|hint| hint.text().map(str::to_owned)).unwrap()
        };
        assert_eq!(hint(&[held.clone(), open("qemu")]), "losetup -d /dev/loop0");
        assert_eq!(hint(&[mounted.clone(), held.clone()]), "umount /run/mnt");
        for uses in [[held, open("flashfit")], [mounted, open("flashfit")]] {
            assert!(hint(&uses).starts_with("wait until process 7 ends, or run kill 7"));
        }
    }
}
