//! A FUSE file system for as long as it takes to open its file, answered by a thread.
//!
//! The thread that answers the kernel has its own table of open files, and leaves the private mount
//! namespace once the file system is mounted. So when the process is killed while the device is
//! mounted or another of its threads waits for it, the connection to the kernel is closed
//! nevertheless, that wait ends with an error, and the process can end.

use std::fs;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{io, thread};

use flashfit_host::mount::{former_namespace, return_to_former_namespace};
use fuser::{Config, Filesystem, MountOption, Session, SessionACL};
use rustix::mount::UnmountFlags;
use rustix::thread::UnshareFlags;

/// What becomes of the thread's copies of files that the process had open when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopiedFiles {
    /// The file system uses some of them.
    Kept,
    /// A copy would outlive the original: it keeps a mount busy, or the input of a child open.
    Closed,
}

/// Mounts a file system at `point`, an existing folder, passes it to `open`, and removes the mount
/// from the tree; what `open` has opened stays usable. The returned channel closes when the kernel
/// has let go of the file system. For a process in a private mount namespace.
///
/// # Errors
/// When the file system cannot be made, mounted or taken off the tree.
pub fn with_mounted<F: Filesystem + 'static, T>(
    point: &Path,
    name: &str,
    copies: CopiedFiles,
    make: impl FnOnce() -> io::Result<F> + Send + 'static,
    open: impl FnOnce(&Path) -> T,
) -> io::Result<(T, Receiver<()>)> {
    let ended = mount(point, name, copies, make)?;
    let opened = open(point);
    // Whatever was opened holds the file by itself now, or nothing does.
    rustix::mount::unmount(point, UnmountFlags::DETACH)?;
    Ok((opened, ended))
}

fn mount<F: Filesystem + 'static>(
    point: &Path,
    name: &str,
    copies: CopiedFiles,
    make: impl FnOnce() -> io::Result<F> + Send + 'static,
) -> io::Result<Receiver<()>> {
    let (mounted, wait) = channel();
    let (ending, ended) = channel();
    let (point, name) = (point.to_owned(), name.to_owned());
    thread::Builder::new().name("fuse".to_owned()).spawn(move || {
        let make = || own_file_table(copies).and_then(|()| make());
        answer_kernel(&point, name, make, &mounted, ending);
    })?;
    let ended_early = || io::Error::other("the thread that was to answer has ended");
    wait.recv().unwrap_or_else(|_| Err(ended_early()))?;
    Ok(ended)
}

fn answer_kernel<F: Filesystem + 'static>(
    point: &Path,
    name: String,
    make: impl FnOnce() -> io::Result<F>,
    mounted: &Sender<io::Result<()>>,
    ending: Sender<()>,
) {
    let session = make().and_then(|made| {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName(name)];
        config.acl = SessionACL::Owner;
        Session::new(made, point, &config)
    });
    let alone = |session| {
        return_to_former_namespace().map_err(io::Error::other)?;
        Ok(session)
    };
    match session.and_then(alone) {
        Ok(session) => {
            // The receiver waits for this message.
            let _ = mounted.send(Ok(()));
            // Whatever ended it, the kernel reports errors to the users of the device.
            let _ = session.run();
        }
        Err(error) => {
            let _ = mounted.send(Err(error));
        }
    }
    drop(ending);
}

#[expect(unsafe_code, reason = "a thread with its own file table has no safe interface")]
fn own_file_table(copies: CopiedFiles) -> io::Result<()> {
    // SAFETY: this thread neither uses a file that another thread opens later, nor hands one of
    // its own to another.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }?;
    match copies {
        CopiedFiles::Kept => Ok(()),
        CopiedFiles::Closed => close_copies(),
    }
}

/// Closes all that this thread has in its own table, but the standard files, which a panic needs,
/// and the namespace that it returns to.
#[expect(unsafe_code, reason = "close")]
fn close_copies() -> io::Result<()> {
    let kept = former_namespace().map(|namespace| namespace.as_raw_fd());
    let numbers: Vec<RawFd> = fs::read_dir("/proc/thread-self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|number| *number > 2 && Some(*number) != kept) {
        // SAFETY: no value of this thread owns a file yet, and no other thread has this table.
        unsafe { libc::close(number) };
    }
    Ok(())
}

/// Keeps the process from waiting for memory that can only be freed by writing to its own device
/// (`PR_SET_IO_FLUSHER`), and from being swapped out. Best effort: it matters when memory is short.
#[expect(unsafe_code, reason = "prctl and mlockall have no safe interface here")]
pub(super) fn stay_out_of_reclaim() {
    /// `include/uapi/linux/prctl.h`.
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    const ONE: libc::c_ulong = 1;
    const NONE: libc::c_ulong = 0;
    // SAFETY: neither call takes a pointer; a refusal changes nothing.
    unsafe {
        libc::prctl(PR_SET_IO_FLUSHER, ONE, NONE, NONE, NONE);
        libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT);
    }
}
