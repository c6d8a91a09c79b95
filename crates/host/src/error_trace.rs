//! Records the I/O errors of one disk with the kernel's tracepoint `block_rq_error`
//! (`include/trace/events/block.h`, Linux 5.18; `Documentation/trace/ftrace.rst`).
//!
//! The tracepoint fires where the kernel logs an error, but unlike the log it is not rate-limited.
//! Each trace has its own tracing instance, so other users of tracing are not affected. tracefs is
//! mounted without a mount point. Limits: needs root. Errors of a partition are reported for its
//! disk. Failed discards and unsupported requests are ignored, because they depend on the setup. A
//! disk that the kernel has already removed reports nothing.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, flock, mkdirat, openat, unlinkat};
use rustix::io::retry_on_intr;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

const PREFIX: &str = "flashfit-";
const EVENT: &str = "block_rq_error: ";
/// Buffer size per processor; errors beyond it are only counted.
const BUFFER_KIB: u32 = 128;
/// One read returns at most one or two pages of text.
const READ_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockError {
    /// The kernel's letters: `R` read, `W` write, `F` flush.
    pub operation: String,
    /// First sector, in units of 512 bytes.
    pub sector: u64,
    /// Positive error number.
    pub errno: i32,
}

impl std::fmt::Display for BlockError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { operation, sector, errno } = self;
        write!(f, "{} (request {operation}, sector {sector})", Error::from_raw_os_error(*errno))
    }
}

/// The errors within a period.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockErrors {
    /// Number of failed requests, including those whose details did not fit in the buffer.
    pub count: u64,
    /// Details of the first error.
    pub first: Option<BlockError>,
}

#[derive(Debug)]
pub struct ErrorTrace {
    /// The kernel does not remove the instance while this is open.
    pipe: Option<File>,
    tracefs: OwnedFd,
    instance: String,
}

impl ErrorTrace {
    /// Starts tracing the disk with this device number, and removes the instances of killed
    /// processes.
    ///
    /// # Errors
    /// Without root, tracefs or the tracepoint.
    pub fn of_disk((major, minor): (u32, u32)) -> Result<Self> {
        let tracefs = mount_tracefs()?;
        // Checked first, so that no instance is created in vain.
        open(&tracefs, "events/block/block_rq_error/id", OFlags::RDONLY)?;
        // The kernel's internal encoding of a device number (`include/linux/kdev_t.h`).
        let device = (u64::from(major) << 20) | u64::from(minor);
        let filter =
            format!("dev == {device} && error != -{} && !(rwbs ~ \"*D*\")", libc::EOPNOTSUPP);
        let mut trace = new_instance(tracefs)?;
        trace.set("buffer_size_kb", &BUFFER_KIB.to_string())?;
        trace.set("events/block/block_rq_error/filter", &filter)?;
        trace.set("events/block/block_rq_error/enable", "1")?;
        // Reading the still empty pipe reveals errors early.
        trace.take()?;
        Ok(trace)
    }

    /// Errors since the start or the last call.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub fn take(&mut self) -> Result<BlockErrors> {
        let mut errors = BlockErrors::default();
        let Some(pipe) = &mut self.pipe else { return Ok(errors) };
        let mut pending = Vec::new();
        let mut chunk = vec![0; READ_BYTES];
        loop {
            match pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => pending.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let whole = pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            for line in String::from_utf8_lossy(&pending[..whole]).lines() {
                errors.add(line);
            }
            pending.drain(..whole);
        }
        errors.add(&String::from_utf8_lossy(&pending));
        Ok(errors)
    }

    fn set(&self, attribute: &str, value: &str) -> Result<()> {
        let path = format!("instances/{}/{attribute}", self.instance);
        open(&self.tracefs, &path, OFlags::WRONLY)?.write_all(value.as_bytes())
    }
}

impl Drop for ErrorTrace {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // The next start removes what is left.
        let _ = remove(&self.tracefs, &self.instance);
    }
}

impl BlockErrors {
    fn add(&mut self, line: &str) {
        if let Some(error) = parse_error(line) {
            self.count += 1;
            self.first.get_or_insert(error);
        } else if line.contains(EVENT) {
            self.count += 1;
        } else {
            self.count += lost_events(line);
        }
    }
}

/// Parses `... block_rq_error: 7,0 WS () 2048 + 8 be,0,4 [-5]`; older kernels omit the priority.
fn parse_error(line: &str) -> Option<BlockError> {
    let (_, event) = line.split_once(EVENT)?;
    let (_device, rest) = event.split_once(' ')?;
    let (operation, rest) = rest.split_once(" (")?;
    // The parentheses contain the command of a passthrough request.
    let (_command, rest) = rest.split_once(") ")?;
    let (sector, rest) = rest.split_once(" + ")?;
    let (_, error) = rest.rsplit_once('[')?;
    let errno = error.trim_end().strip_suffix(']')?.parse::<i32>().ok()?.checked_neg()?;
    Some(BlockError { operation: operation.to_owned(), sector: sector.parse().ok()?, errno })
}

/// Parses `CPU:0 [LOST 12 EVENTS]`. An unknown number counts as one.
fn lost_events(line: &str) -> u64 {
    match line.split_once("[LOST ") {
        Some((_, lost)) => lost.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(1),
        None => 0,
    }
}

fn mount_tracefs() -> Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

fn open(tracefs: &OwnedFd, path: &str, flags: OFlags) -> Result<File> {
    Ok(openat(tracefs, path, flags | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Creates an instance after removing stale ones. The instances folder is locked, because an
/// instance whose pipe is not open yet looks stale.
fn new_instance(tracefs: OwnedFd) -> Result<ErrorTrace> {
    let folder = open(&tracefs, "instances", OFlags::RDONLY | OFlags::DIRECTORY)?;
    retry_on_intr(|| flock(&folder, FlockOperation::LockExclusive))?;
    remove_stale(&tracefs, &folder);
    let instance = unique_name();
    let path = format!("instances/{instance}");
    mkdirat(&tracefs, path.as_str(), Mode::RWXU)?;
    let mut trace = ErrorTrace { pipe: None, tracefs, instance };
    let pipe = format!("{path}/trace_pipe");
    trace.pipe = Some(open(&trace.tracefs, &pipe, OFlags::RDONLY | OFlags::NONBLOCK)?);
    Ok(trace)
}

/// Unique within the process by number, and by time among processes with the same ID in different
/// PID namespaces.
fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{PREFIX}{}-{number}-{}", std::process::id(), now.as_nanos())
}

/// Removes flashfit's unused instances; the kernel refuses while a pipe is open.
fn remove_stale(tracefs: &OwnedFd, folder: &File) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy();
        if name.starts_with(PREFIX) {
            // Fails for an instance in use.
            let _ = remove(tracefs, &name);
        }
    }
}

fn remove(tracefs: &OwnedFd, instance: &str) -> Result<()> {
    Ok(unlinkat(tracefs, format!("instances/{instance}"), AtFlags::REMOVEDIR)?)
}

#[cfg(test)]
mod tests;
