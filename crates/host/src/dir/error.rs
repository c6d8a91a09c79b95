//! Errors of data folders and their files.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::program::quote_path;
use flashfit_user_error::{ExitClass, Hint, UserError};

/// What is wrong with a folder or file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirObstacle {
    /// A link, or not a folder.
    NotAFolder,
    /// A link, a folder, a FIFO, a device or a socket.
    NotAFile,
    /// Owned by this user ID.
    Owner(u32),
    /// Writable by every user.
    OthersMayWrite,
    /// Larger than this many bytes.
    Larger(u64),
    /// The file has several hard links, which would all change.
    SeveralNames,
    /// The name could lead out of the folder.
    NotAName,
}

#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// It was found but is not acceptable.
    #[error("{}: {}", path.display(), reason(obstacle))]
    Invalid { path: PathBuf, obstacle: DirObstacle },
    #[error("no space left for {}", path.display())]
    Full { path: PathBuf },
    #[error("{}: {source}", path.display())]
    System { path: PathBuf, source: io::Error },
}

fn reason(obstacle: &DirObstacle) -> String {
    match obstacle {
        DirObstacle::NotAFolder => "not a directory (links are not followed)".to_owned(),
        DirObstacle::NotAFile => "not a regular file (links are not followed)".to_owned(),
        DirObstacle::Owner(user) => {
            format!("it belongs to the user with ID {user}, who could change it at any time")
        }
        DirObstacle::OthersMayWrite => {
            "every user can write to it and could change it at any time".to_owned()
        }
        DirObstacle::Larger(bytes) => format!("larger than {bytes} bytes"),
        DirObstacle::SeveralNames => {
            "it has several hard links, and all of them would change".to_owned()
        }
        DirObstacle::NotAName => "not the name of a file in this directory".to_owned(),
    }
}

impl DirError {
    pub(super) fn invalid(path: &Path, obstacle: DirObstacle) -> Self {
        Self::Invalid { path: path.to_owned(), obstacle }
    }

    pub(super) fn system(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.raw_os_error() {
            Some(code) if code == Errno::NOSPC.raw_os_error() => Self::Full { path },
            _ => Self::System { path, source },
        }
    }

    /// Whether the file or folder does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::System { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl UserError for DirError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Invalid {
                obstacle: DirObstacle::NotAFolder | DirObstacle::Larger(_) | DirObstacle::NotAName,
                ..
            } => ExitClass::Usage,
            Self::Invalid { .. } => ExitClass::Refused,
            Self::Full { .. } | Self::System { .. } => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<Hint> {
        let Self::Invalid { path, obstacle } = self else { return None };
        // Of what is no link, only the caller knows which directory was meant.
        let is_link = path.components().collect::<PathBuf>().is_symlink();
        let path = quote_path(path);
        match obstacle {
            DirObstacle::Owner(_) => {
                Some(format!("use your own copy: cp -r {path} my-copy").into())
            }
            DirObstacle::OthersMayWrite => {
                Some(format!("remove that permission: chmod o-w {path}").into())
            }
            DirObstacle::NotAFolder if is_link => {
                Some(format!("name the directory itself: realpath {path}").into())
            }
            DirObstacle::NotAFile => Some(format!("check its type: ls -l {path}").into()),
            DirObstacle::SeveralNames => {
                Some(format!("make a separate copy: cp {path} copy && mv copy {path}").into())
            }
            DirObstacle::NotAFolder | DirObstacle::Larger(_) | DirObstacle::NotAName => None,
        }
    }
}
