//! Why free space cannot be tested.

use std::io;
use std::path::PathBuf;

use flashfit_host::program::quote_path;
use flashfit_user_error::{ExitClass, Hint, UserError};

use super::folder::TEST_FOLDER;

#[derive(Debug, thiserror::Error)]
pub enum FreeSpaceError {
    #[error("no file system of {} is mounted, so it has no free space to test", device.display())]
    NotMounted { device: PathBuf },
    #[error("{} is mounted read-only", point.display())]
    ReadOnly { point: PathBuf },
    #[error("{}: too little free space to test: the test leaves a margin", point.display())]
    NoSpace { point: PathBuf },
    #[error("{}: another file system is mounted there now, or hides that of this device", point.display())]
    Hidden { point: PathBuf },
    #[error("{}/{TEST_FOLDER}: another test is under way", point.display())]
    UnderWay { point: PathBuf },
    #[error("{}/{TEST_FOLDER}: flashfit did not make it", point.display())]
    Foreign { point: PathBuf },
    #[error("{}: {source}", point.display())]
    Open { point: PathBuf, source: io::Error },
    /// While files were written or read.
    #[error("{}: {what}: {source}", point.display())]
    Failed { point: PathBuf, what: &'static str, source: io::Error },
    #[error("the test was interrupted")]
    Interrupted,
}

impl FreeSpaceError {
    /// Whether nothing was written.
    pub(super) fn is_refusal(&self) -> bool {
        !matches!(self, Self::Failed { .. } | Self::Interrupted)
    }
}

impl UserError for FreeSpaceError {
    fn class(&self) -> ExitClass {
        match self {
            Self::NotMounted { .. } | Self::NoSpace { .. } => ExitClass::Usage,
            Self::ReadOnly { .. }
            | Self::Hidden { .. }
            | Self::UnderWay { .. }
            | Self::Foreign { .. } => ExitClass::Refused,
            Self::Open { .. } => ExitClass::Environment,
            Self::Failed { .. } => ExitClass::Io,
            Self::Interrupted => ExitClass::Interrupted,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotMounted { .. } => {
                Some("mount it, such as: mount /dev/sdX1 /mnt; then test it again".into())
            }
            Self::ReadOnly { point } => {
                Some(format!("mount -o remount,rw {}", quote_path(point)).into())
            }
            Self::NoSpace { .. } => Some("remove files, then test it again".into()),
            Self::Foreign { point } => {
                let folder = quote_path(&point.join(TEST_FOLDER));
                Some(format!("look at it, and rename it: mv {folder} NAME").into())
            }
            Self::Open { .. } => Some("run it as root, with sudo".into()),
            Self::Hidden { point } => {
                Some(format!("look at what is there: findmnt {}", quote_path(point)).into())
            }
            Self::UnderWay { .. } | Self::Failed { .. } | Self::Interrupted => None,
        }
    }
}
