//! The directory of an agent that outlives its connections: lock file, socket and, if it was copied
//! there, the program.
//!
//! An agent uses a new directory, an empty one, or one with the lock file of an agent that ended.
//! At the end it removes these three files, and the directory if it is then empty. All names are
//! resolved below one open descriptor, and no link is followed.
//! Limit: a user who runs the agent through sudo can change the directory.

use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_user_error::{ExitClass, Hint, Task, UserError};
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, flock, openat, statat, unlinkat,
};
use rustix::io::Errno;

/// The file marks the directory of an agent; its lock shows that the agent runs.
pub const LOCK: &str = "flashfit-agent.lock";
const SOCKET: &str = "agent.socket";
/// Name of a program copied into the directory.
const PROGRAM: &str = "flashfit";
/// Time between closing the socket and releasing the lock.
const END_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Why a directory cannot be used by an agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentFolderError {
    /// It contains other files.
    #[error("{}: the directory is not empty and not an agent's: it contains `{name}`", folder.display())]
    Occupied { folder: PathBuf, name: String },
    /// It is not a directory that only its user can change.
    #[error("{}: {reason}", folder.display())]
    NotPrivate { folder: PathBuf, reason: String },
    /// Another agent holds the lock.
    #[error("{}: another agent uses the directory", folder.display())]
    InUse { folder: PathBuf },
    #[error("{}: {source}", folder.display())]
    System { folder: PathBuf, source: std::io::Error },
}

impl UserError for AgentFolderError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Occupied { .. } | Self::NotPrivate { .. } => ExitClass::Refused,
            Self::InUse { .. } | Self::System { .. } => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Occupied { .. } => Some("name a directory that does not exist yet".into()),
            Self::NotPrivate { .. } => {
                Some("name a new directory, or one that belongs to you with mode 0700".into())
            }
            Self::InUse { folder } => {
                Some(Hint::from("end that agent: ").and(Task::EndAgent(folder.clone())))
            }
            Self::System { .. } => None,
        }
    }
}

pub fn socket_of(folder: &Path) -> PathBuf {
    folder.join(SOCKET)
}

/// An agent's directory, locked until drop.
#[derive(Debug)]
pub struct AgentFolder {
    path: PathBuf,
    folder: File,
    /// Open to hold the lock.
    _lock: File,
}

impl AgentFolder {
    /// Creates the directory if needed, and locks it.
    ///
    /// # Errors
    /// [`AgentFolderError`].
    pub fn take(path: &Path) -> Result<Self, AgentFolderError> {
        let start = Instant::now();
        loop {
            match Self::try_take(path) {
                // The other agent may be about to end and remove the directory.
                Err(AgentFolderError::InUse { .. }) if start.elapsed() < END_TIMEOUT => {
                    std::thread::sleep(POLL_INTERVAL);
                }
                other => return other,
            }
        }
    }

    fn try_take(path: &Path) -> Result<Self, AgentFolderError> {
        let failed = |error: std::io::Error| AgentFolderError::System {
            folder: path.to_owned(),
            source: error,
        };
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        let folder = open_private(path)?;
        let found = names(path, &folder)?;
        if let Some(name) = found.first().filter(|_| !found.iter().any(|name| name == LOCK)) {
            let (folder, name) = (path.to_owned(), name.clone());
            return Err(AgentFolderError::Occupied { folder, name });
        }
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let lock = openat(&folder, LOCK, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)
            .map(File::from)
            .map_err(|error| failed(error.into()))?;
        let is_private = lock.metadata().is_ok_and(|file| {
            file.is_file() && file.nlink() <= 1 && is_own_user(file.uid()) && file.size() == 0
        });
        if !is_private {
            let (folder, name) = (path.to_owned(), LOCK.to_owned());
            return Err(AgentFolderError::Occupied { folder, name });
        }
        let in_use = || AgentFolderError::InUse { folder: path.to_owned() };
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(in_use()),
            other => other.map_err(|error| failed(error.into()))?,
        }
        let this = Self { path: path.to_owned(), folder, _lock: lock };
        // The previous agent may have removed it in the meantime.
        if this.is_there() { Ok(this) } else { Err(in_use()) }
    }

    /// Whether the names of the directory and the lock file still lead to the open files.
    fn is_there(&self) -> bool {
        let same = |one: &File, other: Result<rustix::fs::Stat, Errno>| {
            let facts = one.metadata().ok().zip(other.ok());
            facts.is_some_and(|(one, other)| (one.dev(), one.ino()) == (other.st_dev, other.st_ino))
        };
        same(&self.folder, rustix::fs::lstat(&self.path))
            && same(&self._lock, statat(&self.folder, LOCK, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// The path to bind the socket to, through the open descriptor of the directory. Removes the
    /// socket of a previous agent.
    pub(super) fn socket(&self) -> PathBuf {
        self.remove_socket();
        PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", self.folder.as_raw_fd()))
    }

    fn remove_socket(&self) {
        let found = statat(&self.folder, SOCKET, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|file| FileType::from_raw_mode(file.st_mode) == FileType::Socket) {
            // The next agent removes a leftover socket.
            let _ = unlinkat(&self.folder, SOCKET, AtFlags::empty());
        }
    }

    /// Removes the socket, the program if it is the running one, the lock file, and the directory
    /// if it is then empty.
    pub fn remove_own(self) {
        self.remove_socket();
        let program = std::fs::metadata("/proc/self/exe");
        let copy = statat(&self.folder, PROGRAM, AtFlags::SYMLINK_NOFOLLOW);
        let is_running = program.ok().zip(copy.ok()).is_some_and(|(program, copy)| {
            (program.dev(), program.ino()) == (copy.st_dev, copy.st_ino)
        });
        if is_running {
            let _ = unlinkat(&self.folder, PROGRAM, AtFlags::empty());
        }
        // If other files remain, the lock file still marks the directory as an agent's.
        let only_lock = names(&self.path, &self.folder).is_ok_and(|names| names == [LOCK]);
        if only_lock && self.is_there() {
            let _ = unlinkat(&self.folder, LOCK, AtFlags::empty());
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// Opens a directory that no other user can change.
fn open_private(path: &Path) -> Result<File, AgentFolderError> {
    let refused = |reason: String| AgentFolderError::NotPrivate { folder: path.to_owned(), reason };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(folder) => File::from(folder),
        Err(Errno::LOOP | Errno::NOTDIR) => {
            return Err(refused("it is not a directory, or a link to one".to_owned()));
        }
        Err(error) => {
            let (folder, source) = (path.to_owned(), error.into());
            return Err(AgentFolderError::System { folder, source });
        }
    };
    let found = folder
        .metadata()
        .map_err(|source| AgentFolderError::System { folder: path.to_owned(), source })?;
    if !is_own_user(found.uid()) {
        return Err(refused(format!("the directory belongs to another user ({})", found.uid())));
    }
    let mode = found.mode() & 0o7777;
    if mode != 0o700 {
        return Err(refused(format!("the directory has mode {mode:04o}, and 0700 is needed")));
    }
    Ok(folder)
}

/// Whether `user` runs this process, directly or through sudo.
fn is_own_user(user: u32) -> bool {
    let own = rustix::process::geteuid();
    let before_sudo = || std::env::var("SUDO_UID").ok().and_then(|user| user.parse().ok());
    user == own.as_raw() || own.is_root() && before_sudo() == Some(user)
}

fn names(path: &Path, folder: &File) -> Result<Vec<String>, AgentFolderError> {
    let failed =
        |error: Errno| AgentFolderError::System { folder: path.to_owned(), source: error.into() };
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    fn private(parent: &Path, name: &str) -> PathBuf {
        let path = parent.join(name);
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        path
    }

    #[test]
    fn a_folder_with_other_files_is_not_touched() {
        let parent = tempfile::tempdir().unwrap();
        let path = private(parent.path(), "photos");
        std::fs::write(path.join("one.jpg"), "x").unwrap();
        let error = AgentFolder::take(&path).unwrap_err();
        assert!(matches!(&error, AgentFolderError::Occupied { name, .. } if name == "one.jpg"));
        assert_eq!(error.class(), ExitClass::Refused);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1, "no lock file was made");
    }

    #[test]
    fn new_empty_and_abandoned_folders_are_locked_and_removed() {
        let parent = tempfile::tempdir().unwrap();
        for path in [parent.path().join("new"), private(parent.path(), "empty")] {
            let taken = AgentFolder::take(&path).unwrap();
            drop(UnixListener::bind(taken.socket()).unwrap());
            // The state after a kill.
            drop(taken);
            assert!(path.join(SOCKET).exists() && path.join(LOCK).exists());
            AgentFolder::take(&path).unwrap().remove_own();
            assert!(!path.exists());
        }
    }

    #[test]
    fn only_the_agents_files_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("agent");
        let taken = AgentFolder::take(&path).unwrap();
        for name in ["one.jpg", PROGRAM, SOCKET] {
            std::fs::write(path.join(name), "x").unwrap();
        }
        taken.remove_own();
        for name in ["one.jpg", PROGRAM, SOCKET, LOCK] {
            assert!(path.join(name).exists(), "{name}");
        }
    }

    #[test]
    fn links_and_world_readable_folders_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let (open, link) = (private(parent.path(), "open"), parent.path().join("link"));
        symlink(private(parent.path(), "real"), &link).unwrap();
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o755)).unwrap();
        for (path, reason) in [(open, "mode 0755"), (link, "not a directory")] {
            let error = AgentFolder::take(&path).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
        let file = parent.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        let linked = private(parent.path(), "linked");
        symlink(&file, linked.join(LOCK)).unwrap();
        AgentFolder::take(&linked).unwrap_err();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    }

    #[test]
    fn the_folder_of_a_running_agent_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("agent");
        let running = AgentFolder::take(&path).unwrap();
        assert!(matches!(AgentFolder::try_take(&path), Err(AgentFolderError::InUse { .. })));
        drop(running);
        AgentFolder::try_take(&path).unwrap();
    }

    #[test]
    fn a_folder_that_was_swapped_is_not_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("agent");
        let taken = AgentFolder::take(&path).unwrap();
        std::fs::rename(&path, parent.path().join("moved")).unwrap();
        std::fs::create_dir(&path).unwrap();
        taken.remove_own();
        assert!(path.exists());
    }
}
