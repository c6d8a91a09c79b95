//! Where the control socket of a served card is.
//!
//! It bears the device's name, or the number of the file that the card's NBD socket is, and lies in
//! a directory of its user with mode 0700: `/run/flashfit-cards` for root, else `flashfit` in
//! `/run/user/UID`, else `/tmp/flashfit-UID`. Nobody else can take the name. Each side checks who
//! the other is.

use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_device::guard::SIMULATED_CARD_FILE;
use flashfit_host::peer;

/// How long one side waits for a line of the other.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The name for a device node or a socket, whatever path it is reached by.
///
/// # Errors
/// When nothing is there.
pub fn name(place: &Path) -> Result<String> {
    let place = place.canonicalize()?;
    let file = place.metadata()?;
    Ok(if file.file_type().is_socket() {
        format!("{}-{}", file.dev(), file.ino())
    } else {
        place.file_name().unwrap_or_default().to_string_lossy().into_owned()
    })
}

/// The directories in which a user's cards may have their sockets, the best first.
pub fn directories(user: u32) -> Vec<PathBuf> {
    let usual = match user {
        0 => PathBuf::from("/run/flashfit-cards"),
        _ => PathBuf::from(format!("/run/user/{user}/flashfit")),
    };
    vec![usual, PathBuf::from(format!("/tmp/flashfit-{user}"))]
}

/// Whose card is served at a place, as far as can be determined without asking it: the owner of the
/// NBD socket, or of the process after which the file under the loop device is named.
pub fn owner(place: &Path) -> Option<u32> {
    let file = place.metadata().ok()?;
    if file.file_type().is_socket() {
        return Some(file.uid());
    }
    let node = place.canonicalize().ok()?;
    let backing = Path::new("/sys/block").join(node.file_name()?).join("loop/backing_file");
    let backing = std::fs::read_to_string(backing).ok()?;
    let server = backing.trim().strip_prefix('/')?.strip_prefix(SIMULATED_CARD_FILE)?;
    let server: u32 = server.strip_prefix('-')?.parse().ok()?;
    Some(std::fs::metadata(format!("/proc/{server}")).ok()?.uid())
}

/// Connects to the card that is served at a device node or a socket.
///
/// # Errors
/// [`ErrorKind::PermissionDenied`] for a card of another user, and others when no card is served.
pub fn connect(place: &Path) -> Result<UnixStream> {
    let own = rustix::process::geteuid().as_raw();
    let (name, owner) = (name(place)?, owner(place));
    let denied = || Error::from(ErrorKind::PermissionDenied);
    for user in [Some(own), owner, Some(0)].into_iter().flatten() {
        for directory in directories(user) {
            // A name in a directory that somebody else can change leads anywhere.
            if !is_private(&directory, user) {
                continue;
            }
            let Ok(stream) = UnixStream::connect(directory.join(&name)) else { continue };
            let peer = peer::user(&stream).ok_or_else(denied)?;
            return if peer == user { Ok(stream) } else { Err(denied()) };
        }
    }
    let is_foreign = own != 0 && owner.is_some_and(|owner| owner != own);
    Err(if is_foreign { denied() } else { ErrorKind::NotFound.into() })
}

fn is_private(directory: &Path, user: u32) -> bool {
    std::fs::symlink_metadata(directory)
        .is_ok_and(|file| file.is_dir() && file.uid() == user && file.mode() & 0o7777 == 0o700)
}

#[cfg(test)]
mod tests {
    use std::fs::{DirBuilder, set_permissions};
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_owner_of_a_socket_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("nbd");
        let _listener = UnixListener::bind(&place).unwrap();
        assert_eq!(owner(&place), Some(rustix::process::geteuid().as_raw()));
        assert_eq!(owner(Path::new("/dev/null")), None);
    }

    #[test]
    fn only_a_directory_that_nobody_else_can_change_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let (directory, link) = (folder.path().join("control"), folder.path().join("link"));
        DirBuilder::new().mode(0o700).create(&directory).unwrap();
        symlink(&directory, &link).unwrap();
        let user = rustix::process::geteuid().as_raw();
        assert!(is_private(&directory, user));
        assert!(!is_private(&directory, user + 1));
        assert!(!is_private(&link, user));
        set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(!is_private(&directory, user));
    }
}
