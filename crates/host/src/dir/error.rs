//! Why a folder of data, or a file in it, is not used.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::program::quote;
use flashfit_user_error::{ExitClass, UserError};

/// What is wrong with a folder or file, where the system would have let it pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirObstacle {
    /// A link, or no folder.
    NotAFolder,
    /// A link, a folder, a pipe, a device or a socket in place of a regular file.
    NotAFile,
    /// The folder belongs to this user.
    Owner(u32),
    /// The file is larger than this, in bytes.
    Larger(u64),
    /// The file has other names (hard links), whose contents would change with it.
    SeveralNames,
    /// The name could lead out of the folder.
    NotAName,
}

/// Why a folder of data, or a file in it, is not used.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// It is not what it should be.
    #[error("{}: {}", path.display(), reason(obstacle))]
    Not {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong with it.
        obstacle: DirObstacle,
    },
    /// The disk is full.
    #[error("no space left for {}", path.display())]
    Full {
        /// The file that could not be written.
        path: PathBuf,
    },
    /// The system returned an error.
    #[error("{}: {source}", path.display())]
    System {
        /// The folder or file.
        path: PathBuf,
        source: io::Error,
    },
}

fn reason(obstacle: &DirObstacle) -> String {
    match obstacle {
        DirObstacle::NotAFolder => "not a directory (links are not followed)".to_owned(),
        DirObstacle::NotAFile => "not a regular file (links are not followed)".to_owned(),
        DirObstacle::Owner(user) => {
            format!(
                "it belongs to the user with the number {user}, who could change it at any time"
            )
        }
        DirObstacle::Larger(bytes) => format!("larger than {bytes} bytes"),
        DirObstacle::SeveralNames => {
            "it has more than one name (a hard link), and all of them would change".to_owned()
        }
        DirObstacle::NotAName => "not the name of a file in this directory".to_owned(),
    }
}

impl DirError {
    pub(super) fn not(path: &Path, obstacle: DirObstacle) -> Self {
        Self::Not { path: path.to_owned(), obstacle }
    }

    pub(super) fn system(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.raw_os_error() {
            Some(code) if code == Errno::NOSPC.raw_os_error() => Self::Full { path },
            _ => Self::System { path, source },
        }
    }

    /// Whether there is nothing of that name.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::System { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl UserError for DirError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Not {
                obstacle: DirObstacle::NotAFolder | DirObstacle::Larger(_) | DirObstacle::NotAName,
                ..
            } => ExitClass::Usage,
            Self::Not { .. } => ExitClass::Refused,
            Self::Full { .. } | Self::System { .. } => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        let Self::Not { path, obstacle } = self else { return None };
        let path = quote(&path.display().to_string());
        match obstacle {
            DirObstacle::Owner(_) => Some(format!("use a copy of your own: cp -r {path} my-copy")),
            DirObstacle::NotAFolder => Some(format!("name the directory itself: realpath {path}")),
            DirObstacle::NotAFile => Some(format!("look at it: ls -l {path}")),
            DirObstacle::SeveralNames => {
                Some(format!("make it a file of its own: cp {path} copy && mv copy {path}"))
            }
            DirObstacle::Larger(_) | DirObstacle::NotAName => None,
        }
    }
}
