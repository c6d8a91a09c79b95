//! Parses what the user names: a device node, an image file, or a simulated card.
//!
//! Symbolic links are resolved here, once; the resolved path is displayed and opened. A link owned
//! by another unprivileged user is not followed, because its owner could redirect it while root
//! works on the target.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use flashfit_host::path_text;
use flashfit_user_error::{ExitClass, Hint, Task, UserError};

use crate::describe::list_devices;
use crate::device_names::{self, DEV};

/// The kernel's limit (path_resolution(7)).
const MAX_LINKS: u32 = 40;

/// A device as named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A block device node, with links resolved.
    Node(PathBuf),
    /// A regular file used as a device.
    Image(PathBuf),
    /// A simulated card: its name in the catalog, or the path of its file.
    Simulated(String),
}

#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("there is no {}", path_text::to_text(path))]
    Missing { path: PathBuf },
    /// A folder, a terminal, a pipe or similar.
    #[error("{} is {what}, not a block device or an image file", path_text::to_text(path))]
    WrongKind { path: PathBuf, what: &'static str },
    #[error("{} is a link of another user, who could redirect it", path_text::to_text(link))]
    ForeignLink {
        link: PathBuf,
        /// Current target of the link.
        to: PathBuf,
    },
    /// A regular file in `/dev`, created by writing to a mistyped device name.
    #[error("{} is a regular file in /dev, not a device", path_text::to_text(path))]
    FileInDev { path: PathBuf },
    #[error("cannot read {}: {source}", path_text::to_text(path))]
    Unreadable { path: PathBuf, source: std::io::Error },
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

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Missing { path } | Self::FileInDev { path } if path.starts_with(DEV) => {
                let similar = device_names::most_similar(path);
                let similar =
                    similar.map_or_else(String::new, |names| format!("did you mean {names}? "));
                Some(Hint::from(similar).and(list_devices()))
            }
            Self::Missing { .. } | Self::FileInDev { .. } => Some(
                Hint::from("run ")
                    .and(Task::ListDevices)
                    .and(" for devices, ")
                    .and(Task::ListCards)
                    .and(" for simulated cards"),
            ),
            Self::WrongKind { what: "a folder", .. } => Some(
                "name the device of its file system: findmnt -n -o SOURCE --target FOLDER".into(),
            ),
            Self::WrongKind { .. } => Some(list_devices()),
            Self::ForeignLink { to, .. } => Some(
                format!("if you trust the link, name its target: {}", path_text::to_text(to))
                    .into(),
            ),
            Self::Unreadable { .. } => Some("run it as root".into()),
        }
    }
}

impl Target {
    /// Parses `sim:NAME`, a device node or an image file, or the `file:` URL of one whose name is
    /// not UTF-8 ([`path_text`]). Does not check whether a simulated card exists.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        if let Some(name) = text.strip_prefix("sim:") {
            return Ok(Self::Simulated(name.to_owned()));
        }
        let path = path_text::from_text(text);
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
        } else if kind.is_file() && device_names::is_in_dev(&resolved) {
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

    /// The path of a node or image; `None` for a simulated card.
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

/// Resolves the symbolic links of a path if only root and the caller can change them.
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
        if links > MAX_LINKS {
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

/// The components of a path, the last one first.
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
            Self::Node(path) | Self::Image(path) => write!(f, "{}", path_text::to_text(path)),
            Self::Simulated(name) => write!(f, "sim:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_cards_and_images_are_parsed() {
        assert_eq!(Target::parse("sim:x").unwrap(), Target::Simulated("x".into()));
        let file = tempfile::NamedTempFile::new().unwrap();
        let target = Target::parse(&file.path().display().to_string()).unwrap();
        assert!(matches!(target, Target::Image(_)));
    }

    #[test]
    fn links_resolve_as_in_the_kernel() {
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
        let lacking = || flashfit_test_support::TestNeed::Root.missing("it changes a link's owner");
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
    fn a_target_that_is_not_a_device_is_refused_with_its_kind() {
        for (text, what) in [("/", "a folder"), ("/dev/null", "a character device")] {
            let error = Target::parse(text).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            assert_eq!(error.class(), ExitClass::Usage);
        }
        assert!(matches!(Target::parse("/dev/zz_not_a_card"), Err(TargetError::Missing { .. })));
    }
}
