//! Why a plan was not made true, or not taken back, and what can be done.

use std::path::{Path, PathBuf};

use flashfit_device::{ConsentedRunError, DeviceError, DeviceLockError, Refusal};
use flashfit_filesystem::FactsError;
use flashfit_host::ProgramError;
use flashfit_host::dir::DirError;
use flashfit_host::mount::MountError;
use flashfit_host::program::quote_path;
use flashfit_user_error::{ExitClass, Hint, Task, UserError, UserSetting};

/// Why a device was not changed, or not as it should have been.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Locked(#[from] DeviceLockError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The file system's tools cannot be asked.
    #[error(transparent)]
    Facts(#[from] FactsError),
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The backup, the journal or the records are not a folder of ours.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// What is on the device cannot be read or written.
    #[error("{}: {length_bytes} bytes at {offset_bytes}: {source}", path.display())]
    Access { path: PathBuf, offset_bytes: u64, length_bytes: u64, source: std::io::Error },
    /// A file of ours, or of the system, cannot be read or written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// The directory that the user named contains no backup, or only a part of one.
    #[error("there is no backup: {} is missing", path.display())]
    NoBackup { path: PathBuf },
    /// The folder for the backup contains something else.
    #[error("{} is not empty, and a backup would overwrite what is in it", path.display())]
    Occupied { path: PathBuf },
    /// A mounted file system of the device cannot be reached by its mount point.
    #[error(
        "{}: another file system is mounted there now, or hides that of this device",
        point.display()
    )]
    HiddenMount { point: PathBuf },
    /// The backup would be on the device that is about to be erased.
    #[error("{} is on {}, which would be erased", folder.display(), device.display())]
    BackupOnDevice { folder: PathBuf, device: PathBuf },
    /// The backup is not what was read from the device.
    #[error("{}: {reason}", path.display())]
    Damaged {
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The backup or the unfinished work is another device's.
    #[error("{} was made of another device: {what}", folder.display())]
    OtherDevice { folder: PathBuf, what: String },
    /// The device was left unfinished, and the backup of what it was before is not here.
    #[error(
        "the device was left unfinished, and its backup {} is not here",
        folder.display()
    )]
    BackupElsewhere { folder: PathBuf },
    /// The device is not as planned although every step succeeded.
    #[error("the device is not as planned: {}", what.join("; "))]
    NotAsPlanned { what: Vec<String> },
    /// The work was left unfinished with another folder.
    #[error("an interrupted apply has its backup in {}", backup.display())]
    UnfinishedThere {
        backup: PathBuf,
        /// The command that goes on.
        resume_command: String,
    },
    /// What was left unfinished is tied with another device in the same place.
    #[error(
        "this device lacks the marker of the device that was left unfinished, whose backup is {}: \
         it may be another device, which was not backed up",
        backup.display()
    )]
    PerhapsAnother {
        backup: PathBuf,
        /// The command that takes the unfinished one back.
        restore_command: String,
    },
    /// The queue cannot be given the planned scheduler.
    #[error("the I/O scheduler cannot be {wanted}: {reason}")]
    Scheduler { wanted: String, reason: String },
    /// A file system must be whole before its superblock is changed.
    #[error("the file system on {} has errors, or was not unmounted", place.shown().display())]
    HasErrors { place: FaultyPlace },
    /// The user interrupted between two steps.
    #[error("interrupted")]
    Interrupted,
    /// A file of the system is not such that a part of it can be replaced.
    #[error("{}: {reason}", path.display())]
    SystemFile { path: PathBuf, reason: String },
    /// A file of the system cannot be replaced.
    #[error("{} cannot be changed: {source}", path.display())]
    UnwritableFile {
        path: PathBuf,
        /// Where what it lies on is mounted.
        mount_point: PathBuf,
        source: std::io::Error,
    },
}

/// Where a file system with errors is, as the user can name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultyPlace {
    /// On a device node that stays.
    Node(PathBuf),
    /// In an image; `partition` is its number there, if it is in one. The loop device over it is
    /// detached when the work ends.
    Image { image: PathBuf, partition: Option<String> },
}

impl FaultyPlace {
    fn shown(&self) -> &Path {
        match self {
            Self::Node(path) | Self::Image { image: path, .. } => path,
        }
    }

    /// The command that repairs it.
    fn repair_command(&self) -> String {
        match self {
            Self::Node(path) | Self::Image { image: path, partition: None } => {
                format!("e2fsck -f {}", quote_path(path))
            }
            Self::Image { image, partition: Some(number) } => format!(
                "node=$(losetup -fP --show {}) && e2fsck -f ${{node}}p{number}; losetup -d $node",
                quote_path(image)
            ),
        }
    }
}

impl From<ConsentedRunError> for ApplyError {
    fn from(error: ConsentedRunError) -> Self {
        match error {
            ConsentedRunError::Refused(refusal) => refusal.into(),
            ConsentedRunError::Program(error) => error.into(),
        }
    }
}

impl ApplyError {
    /// An error of a file, with its name.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<'_> {
        move |source| Self::File { path: path.to_owned(), source }
    }
}

/// Whether the kernel refuses this user; the device then is not to blame.
fn is_forbidden(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::PermissionDenied
}

fn file_hint(kind: std::io::ErrorKind) -> Option<Hint> {
    let hint = match kind {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Hint::from("make room, or name another directory: ")
                .and(UserSetting::Backup)
                .and(" DIR, FLASHFIT_STATE_DIR")
        }
        std::io::ErrorKind::PermissionDenied => "run it as root".into(),
        std::io::ErrorKind::ReadOnlyFilesystem => {
            Hint::from("name a directory that can be written: ")
                .and(UserSetting::Backup)
                .and(" DIR, FLASHFIT_STATE_DIR")
        }
        _ => return None,
    };
    Some(hint)
}

fn unwritable_hint(path: &Path, mount_point: &Path, kind: std::io::ErrorKind) -> Hint {
    match kind {
        std::io::ErrorKind::ReadOnlyFilesystem => {
            let point = quote_path(mount_point);
            format!("make it writable: mount -o remount,rw {point}").into()
        }
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            format!("make room on {}", quote_path(mount_point)).into()
        }
        std::io::ErrorKind::PermissionDenied if rustix::process::geteuid().is_root() => {
            format!("look at its attributes: lsattr {}", quote_path(path)).into()
        }
        std::io::ErrorKind::PermissionDenied => "run it as root".into(),
        _ => format!("look at it: ls -l {}", quote_path(path)).into(),
    }
}

impl UserError for ApplyError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Refused(error) => error.class(),
            Self::Device(error) => error.class(),
            Self::Locked(error) => error.class(),
            Self::Program(error) => error.class(),
            Self::Facts(error) => error.class(),
            Self::Mount(error) => error.class(),
            Self::Dir(error) => error.class(),
            Self::Access { source, .. } if is_forbidden(source) => ExitClass::Environment,
            Self::Access { .. } => ExitClass::Io,
            Self::NotAsPlanned { .. } | Self::HasErrors { .. } => ExitClass::BadVerdict,
            Self::File { .. } | Self::UnwritableFile { .. } | Self::Scheduler { .. } => {
                ExitClass::Environment
            }
            Self::Occupied { .. }
            | Self::NoBackup { .. }
            | Self::Damaged { .. }
            | Self::SystemFile { .. } => ExitClass::Usage,
            Self::BackupOnDevice { .. }
            | Self::HiddenMount { .. }
            | Self::OtherDevice { .. }
            | Self::UnfinishedThere { .. }
            | Self::PerhapsAnother { .. }
            | Self::BackupElsewhere { .. } => ExitClass::Refused,
            Self::Interrupted => ExitClass::Interrupted,
        }
    }

    fn hint(&self) -> Option<Hint> {
        let shown = |path: &Path| quote_path(path);
        match self {
            Self::HiddenMount { point } => {
                Some(format!("look at what is there: findmnt {}", shown(point)).into())
            }
            Self::Refused(error) => error.hint(),
            Self::Device(error) => error.hint(),
            Self::Locked(error) => error.hint(),
            Self::Program(error) => error.hint(),
            Self::Facts(error) => error.hint(),
            Self::Mount(error) => error.hint(),
            Self::Access { source, .. } if is_forbidden(source) => Some("run it as root".into()),
            Self::Access { .. } => Some("look at dmesg and at the contacts".into()),
            Self::Dir(DirError::Full { .. }) => file_hint(std::io::ErrorKind::StorageFull),
            Self::Dir(DirError::System { source, .. }) | Self::File { source, .. } => {
                file_hint(source.kind())
            }
            Self::Dir(error) => error.hint(),
            Self::Occupied { .. } => {
                Some(Hint::from("name a new directory with ").and(UserSetting::Backup))
            }
            Self::BackupOnDevice { .. } => {
                Some(Hint::from("name a directory elsewhere with ").and(UserSetting::Backup))
            }
            Self::NoBackup { .. } => {
                Some("name the directory that the output of the apply names".into())
            }
            Self::Damaged { .. } => Some("restore the directory from a copy".into()),
            Self::OtherDevice { .. } => {
                Some(Hint::from("run ").and(Task::ListDevices).and(" to see the devices"))
            }
            Self::BackupElsewhere { folder } => Some(
                Hint::from("bring that directory here and name it with ")
                    .and(UserSetting::Backup)
                    .and(", or name a new one to give up the old contents; it was made as ")
                    .and(shown(folder)),
            ),
            Self::SystemFile { path, .. } => {
                Some(format!("look at it: ${{EDITOR:-vi}} {}", shown(path)).into())
            }
            Self::UnwritableFile { path, mount_point, source } => {
                Some(unwritable_hint(path, mount_point, source.kind()))
            }
            Self::PerhapsAnother { restore_command, .. } => Some(
                Hint::from("name a new directory with ")
                    .and(UserSetting::Backup)
                    .and(" to back up this device; or, if it is the unfinished one: ")
                    .and(restore_command.as_str()),
            ),
            Self::UnfinishedThere { resume_command, .. } => {
                Some(format!("continue with: {resume_command}").into())
            }
            Self::Scheduler { .. } => {
                Some(Hint::from("make a plan with another one: ").and(UserSetting::Scheduler))
            }
            Self::HasErrors { place } => {
                Some(format!("repair it first: {}", place.repair_command()).into())
            }
            Self::NotAsPlanned { .. } | Self::Interrupted => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_to_repair_names_what_stays_after_the_work() {
        let hint = |partition: Option<&str>| {
            let partition = partition.map(str::to_owned);
            let place = FaultyPlace::Image { image: "a card.img".into(), partition };
            ApplyError::HasErrors { place }.hint()
        };
        assert_eq!(hint(None), Some("repair it first: e2fsck -f 'a card.img'".into()));
        let attached = "repair it first: node=$(losetup -fP --show 'a card.img') && e2fsck -f \
                        ${node}p2; losetup -d $node";
        assert_eq!(hint(Some("2")), Some(attached.into()));
    }

    #[test]
    fn who_may_not_read_a_device_is_not_told_that_it_is_broken() {
        let access = |kind: std::io::ErrorKind| ApplyError::Access {
            path: PathBuf::from("/dev/mmcblk0"),
            offset_bytes: 0,
            length_bytes: 4096,
            source: kind.into(),
        };
        let forbidden = access(std::io::ErrorKind::PermissionDenied);
        assert_eq!(forbidden.class(), ExitClass::Environment);
        assert_eq!(forbidden.hint(), Some("run it as root".into()));
        assert_eq!(access(std::io::ErrorKind::Other).class(), ExitClass::Io);
    }
}
