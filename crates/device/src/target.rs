//! What the user names: a device node, an image file, or a simulated card.
//!
//! Links are followed here, once, and what they lead to is what is shown and opened. A link that
//! belongs to another ordinary user is not followed: its owner could turn it to any device while
//! root works on what it names.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use flashfit_user_error::{ExitClass, UserError};

use crate::device_names::{self, DEV};

/// As many as the kernel follows (path_resolution(7)).
const MOST_LINKS: u32 = 40;

/// A device as named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A block device node, with links resolved.
    Node(PathBuf),
    /// A regular file that test beds for a device.
    Image(PathBuf),
    /// A simulated card: its name in the catalog or the path of its file.
    Simulated(String),
}

/// Why a text names no device.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
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
        what: &'static str,
    },
    /// It leads through a link of somebody who may change it.
    #[error("{} is a link of another user, who can turn it to something else", link.display())]
    ForeignLink {
        link: PathBuf,
        /// What it leads to now.
        to: PathBuf,
    },
    /// A regular file among the device nodes, which a mistyped name leaves behind.
    #[error("{} is a regular file in /dev, not a device", path.display())]
    FileInDev {
        /// The path as given.
        path: PathBuf,
    },
    /// It cannot be looked at.
    #[error("cannot look at {}: {source}", path.display())]
    Unreadable {
        /// The path as given.
        path: PathBuf,
        source: std::io::Error,
    },
}

impl UserError for TargetError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Missing { .. } | Self::WrongKind { .. } | Self::FileInDev { .. } => {
                ExitClass::Usage
            }
            Self::ForeignLink { .. } => ExitClass::Refused,
            Self::Unreadable { .. } => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { path } | Self::FileInDev { path } if path.starts_with(DEV) => {
                let near = device_names::nearest(path);
                let near = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
                Some(format!("{near}flashfit list shows the devices here"))
            }
            Self::Missing { .. } | Self::FileInDev { .. } => Some(
                "flashfit list shows the media here; flashfit card list the simulated ones".into(),
            ),
            Self::WrongKind { what: "a folder", .. } => {
                Some("name the device that is mounted there; findmnt -n -o SOURCE tells it".into())
            }
            Self::WrongKind { .. } => Some("flashfit list shows the media here".into()),
            Self::ForeignLink { to, .. } => {
                Some(format!("name what it leads to, if you trust it: {}", to.display()))
            }
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
        let resolved = match resolve(&path).map_err(failed)? {
            Resolved::Path(resolved) => resolved,
            Resolved::ForeignLink { link, to } => {
                return Err(TargetError::ForeignLink { link, to });
            }
        };
        let kind = std::fs::symlink_metadata(&resolved).map_err(failed)?.file_type();
        let what = if kind.is_block_device() {
            return Ok(Self::Node(resolved));
        } else if kind.is_file() && device_names::is_among(&resolved) {
            return Err(TargetError::FileInDev { path });
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

enum Resolved {
    Path(PathBuf),
    ForeignLink { link: PathBuf, to: PathBuf },
}

/// Follows the links on a path, as long as nobody but root and the caller can change them.
fn resolve(path: &Path) -> std::io::Result<Resolved> {
    let caller = rustix::process::geteuid().as_raw();
    let mut rest = parts(&std::path::absolute(path)?);
    let (mut done, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = rest.pop() {
        if part == ".." {
            done.pop();
            continue;
        }
        let next = done.join(&part);
        let found = std::fs::symlink_metadata(&next)?;
        if !found.is_symlink() {
            done = next;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        let to = std::fs::read_link(&next)?;
        if ![0, caller].contains(&found.uid()) {
            return Ok(Resolved::ForeignLink { to: done.join(to), link: next });
        }
        if to.is_absolute() {
            done = PathBuf::from("/");
        }
        rest.extend(parts(&to));
    }
    Ok(Resolved::Path(done))
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.rev().collect()
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
    fn links_lead_where_the_kernel_follows_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("a/b")).unwrap();
        std::fs::write(path("a/image"), "x").unwrap();
        for (link, to) in [("one", "a/b/../image"), ("two", "one"), ("loop", "loop"), ("d", "a/b")]
        {
            std::os::unix::fs::symlink(to, path(link)).unwrap();
        }
        for name in ["one", "two", "d/../image", "a/./b/../image"] {
            let target = Target::parse(path(name).to_str().unwrap()).unwrap();
            assert_eq!(target.path().unwrap(), path(name).canonicalize().unwrap(), "{name}");
        }
        assert!(Target::parse(path("loop").to_str().unwrap()).is_err());
        assert!(Target::parse(path("a/image/more").to_str().unwrap()).is_err());
    }

    #[test]
    fn a_link_of_another_user_is_not_followed() {
        let is_root = rustix::process::geteuid().is_root();
        let lacking = || flashfit_test_support::TestNeed::Root.missing("a link is given away");
        if flashfit_test_support::skip((!is_root).then(lacking)) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (image, link) = (folder.path().join("image"), folder.path().join("link"));
        std::fs::write(&image, "x").unwrap();
        std::os::unix::fs::symlink(&image, &link).unwrap();
        Target::parse(link.to_str().unwrap()).unwrap();
        std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
        let error = Target::parse(link.to_str().unwrap()).unwrap_err();
        assert!(matches!(error, TargetError::ForeignLink { .. }), "{error}");
        assert_eq!(error.class(), ExitClass::Refused);
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
