//! Saves a machine's state to a file and starts machines from it instead of booting.
//!
//! The file contains the guest's memory and must be kept private. Restoring needs the same kernel,
//! memory, speed and kinds of disks, and unchanged disk contents, unless nothing was read yet.
//! Limits: each restored guest continues with the same random numbers and clock. QEMU refuses a
//! state of another version or machine.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use flashfit_host::interrupt::Interrupt;
use flashfit_host::program::quote;
use serde_json::json;

use crate::VmError;
use crate::command_line::MONITOR;
use crate::options::VmOptions;
use crate::qmp::Monitor;
use crate::vm::Vm;

const POLL_INTERVAL: Duration = Duration::from_millis(5);
const SAVE_TIMEOUT: Duration = Duration::from_secs(120);
/// QEMU's default limit is meant for networks.
const MAX_BYTES_PER_SECOND: u64 = 1 << 40;

impl Vm {
    /// Saves the machine's state to `file`, readable only by its user; the machine continues. Meant
    /// for a machine whose program waits on its channel and has mounted nothing.
    ///
    /// # Errors
    /// If the file cannot be written; it is then removed, and the machine continues.
    pub fn save(&mut self, file: &Path) -> Result<(), VmError> {
        let made = File::options().write(true).create(true).truncate(true).mode(0o600).open(file);
        made.map_err(VmError::file("write", file))?;
        let mut monitor = Monitor::connect(&self.path(MONITOR))?;
        monitor.execute("stop", json!({}))?;
        let saved = write_state(&mut monitor, file);
        monitor.execute("cont", json!({}))?;
        if saved.is_err() {
            let _ = std::fs::remove_file(file);
        }
        saved
    }

    /// Starts a machine from the state in `file`. Its program continues and does not report ready
    /// again.
    ///
    /// # Errors
    /// As [`Vm::start`], and if the state is from another machine.
    pub fn restored(
        options: &VmOptions,
        file: &Path,
        interrupt: &Interrupt,
    ) -> Result<Self, VmError> {
        if let Err(error) = File::open(file) {
            return Err(VmError::file("read", file)(error));
        }
        Self::from_state(options, file, interrupt)
    }
}

/// The value of `-incoming`.
pub(crate) fn incoming(file: &Path) -> String {
    format!("exec:cat -- {}", quote(&file.to_string_lossy()))
}

/// Waits until a restored machine runs.
pub(crate) fn wait_until_running(
    socket: &Path,
    mut check_running: impl FnMut() -> Result<(), VmError>,
) -> Result<(), VmError> {
    let mut monitor = loop {
        match Monitor::connect(socket) {
            Ok(monitor) => break monitor,
            Err(VmError::File { source, .. }) if is_not_yet(&source) => {}
            Err(error) => {
                check_running()?;
                return Err(error);
            }
        }
        check_running()?;
        std::thread::sleep(POLL_INTERVAL);
    };
    loop {
        match monitor.execute("query-status", json!({})) {
            Ok(answer) if answer["running"] == json!(true) => return Ok(()),
            // The machine was saved while paused, so it is paused after it is restored.
            Ok(answer) if answer["status"] == json!("paused") => {
                monitor.execute("cont", json!({}))?;
                return Ok(());
            }
            Ok(_) => check_running()?,
            Err(error) => {
                // If QEMU rejects the state it ends, and its exit message says more.
                std::thread::sleep(POLL_INTERVAL * 20);
                check_running()?;
                return Err(error);
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn is_not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn write_state(monitor: &mut Monitor, file: &Path) -> Result<(), VmError> {
    monitor.execute("migrate-set-parameters", json!({ "max-bandwidth": MAX_BYTES_PER_SECOND }))?;
    let to = format!("exec:cat > {}", quote(&file.to_string_lossy()));
    monitor.execute("migrate", json!({ "uri": to }))?;
    let refused = |why: String| VmError::Monitor { what: "save the state".to_owned(), why };
    let began = Instant::now();
    while began.elapsed() < SAVE_TIMEOUT {
        let now = monitor.execute("query-migrate", json!({}))?;
        match now["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => {
                let why = now["error-desc"].as_str().unwrap_or("no reason given");
                return Err(refused(why.to_owned()));
            }
            _ => std::thread::sleep(POLL_INTERVAL),
        }
    }
    let _ = monitor.execute("migrate_cancel", json!({}));
    Err(refused(format!("it took more than {} s", SAVE_TIMEOUT.as_secs())))
}
