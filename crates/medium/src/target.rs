//! What the user names: a device node, an image file, or a simulated card.

use std::fmt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use flashfit_host::{ExitClass, Explain};

/// A medium as named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A block device node, with links resolved.
    Node(PathBuf),
    /// A regular file that stands for a medium.
    Image(PathBuf),
    /// A simulated card: its name in the catalogue or the path of its file.
    Simulated(String),
}

/// Why a text names no medium.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Nothing there.
    #[error("there is no {}", path.display())]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// A folder, a terminal, a pipe …
    #[error("{} is {what}, not a block device or an image file", path.display())]
    WrongKind {
        /// The path as given.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It cannot be looked at.
    #[error("cannot look at {}: {source}", path.display())]
    Unreadable {
        /// The path as given.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Explain for TargetError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Missing { .. } | Self::WrongKind { .. } => ExitClass::Usage,
            Self::Unreadable { .. } => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => Some(
                "flashfit list shows the media here; flashfit card list the simulated ones".into(),
            ),
            Self::WrongKind { what: "a folder", .. } => {
                Some("name the device that is mounted there; findmnt -n -o SOURCE tells it".into())
            }
            Self::WrongKind { .. } => Some("flashfit list shows the media here".into()),
            Self::Unreadable { .. } => Some("run it as root".into()),
        }
    }
}

impl Target {
    /// Understands `sim:NAME`, a device node or an image file.
    ///
    /// # Errors
    /// As [`TargetError`] tells. Whether a simulated card exists is not looked at here.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        if let Some(name) = text.strip_prefix("sim:") {
            return Ok(Self::Simulated(name.to_owned()));
        }
        let path = PathBuf::from(text);
        let failed = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => TargetError::Missing { path: path.clone() },
            _ => TargetError::Unreadable { path: path.clone(), source },
        };
        let resolved = path.canonicalize().map_err(failed)?;
        let kind = std::fs::metadata(&resolved).map_err(failed)?.file_type();
        let what = if kind.is_block_device() {
            return Ok(Self::Node(resolved));
        } else if kind.is_file() {
            return Ok(Self::Image(resolved));
        } else if kind.is_dir() {
            "a folder"
        } else if kind.is_char_device() {
            "a character device"
        } else {
            "a pipe or socket"
        };
        Err(TargetError::WrongKind { path, what })
    }

    /// The path of a node or image.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Node(path) | Self::Image(path) => Some(path),
            Self::Simulated(_) => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(path) | Self::Image(path) => write!(f, "{}", path.display()),
            Self::Simulated(name) => write!(f, "sim:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_target() {
        assert_eq!(Target::parse("sim:x").unwrap(), Target::Simulated("x".into()));
        let file = tempfile::NamedTempFile::new().unwrap();
        let target = Target::parse(&file.path().display().to_string()).unwrap();
        assert!(matches!(target, Target::Image(_)));
    }

    #[test]
    fn what_is_no_medium_is_named() {
        for (text, what) in [("/", "a folder"), ("/dev/null", "a character device")] {
            let error = Target::parse(text).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            assert_eq!(error.class(), ExitClass::Usage);
        }
        assert!(matches!(Target::parse("/dev/zz_not_a_card"), Err(TargetError::Missing { .. })));
    }
}
