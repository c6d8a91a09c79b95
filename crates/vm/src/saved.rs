//! A machine's state in a file, and machines that go on from it instead of booting.
//!
//! The file holds the guest's memory, so whoever can read it reads that. A machine goes on from it
//! with options that give the same machine: the same kernel, memory, speed and kinds of disks;
//! the disks' bytes must be what they were, which is easiest where nothing was read of them yet.
//! Limits: the guest's random numbers and its clock go on where they were each time, so whoever
//! needs others tells the program inside; QEMU refuses a state of another version or machine.

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
const SAVE_WAIT: Duration = Duration::from_secs(120);
/// QEMU otherwise keeps to what a network could take.
const MOST_BYTES_PER_SECOND: u64 = 1 << 40;

impl Vm {
    /// Writes the machine's state into `file`, which only its user may read, and lets it go on.
    /// Meant for a machine whose program waits on its channel and has mounted nothing.
    ///
    /// # Errors
    /// When the file cannot be written; the machine then goes on too, and the file is gone.
    pub fn save(&mut self, file: &Path) -> Result<(), VmError> {
        let made = File::options().write(true).create(true).truncate(true).mode(0o600).open(file);
        made.map_err(VmError::file("write", file))?;
        let mut monitor = Monitor::connect(&self.place(MONITOR))?;
        monitor.tell("stop", json!({}))?;
        let saved = write_state(&mut monitor, file);
        monitor.tell("cont", json!({}))?;
        if saved.is_err() {
            let _ = std::fs::remove_file(file);
        }
        saved
    }

    /// A machine that goes on from the state in `file`. Its program goes on where it was, so
    /// nothing new comes on the channel by itself.
    ///
    /// # Errors
    /// As [`Vm::start`], and when the state is not of this machine.
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

/// What QEMU is told of where the state comes from.
pub(crate) fn incoming(file: &Path) -> String {
    format!("exec:cat -- {}", quote(&file.to_string_lossy()))
}

/// Waits until a machine that goes on from a state does so.
pub(crate) fn wait_until_running(
    socket: &Path,
    mut may_go_on: impl FnMut() -> Result<(), VmError>,
) -> Result<(), VmError> {
    let mut monitor = loop {
        match Monitor::connect(socket) {
            Ok(monitor) => break monitor,
            Err(VmError::File { source, .. }) if is_not_yet(&source) => {}
            Err(error) => {
                may_go_on()?;
                return Err(error);
            }
        }
        may_go_on()?;
        std::thread::sleep(POLL_INTERVAL);
    };
    loop {
        match monitor.tell("query-status", json!({})) {
            Ok(answer) if answer["running"] == json!(true) => return Ok(()),
            // It was paused while it was saved, and is so again once it has all of its state.
            Ok(answer) if answer["status"] == json!("paused") => {
                monitor.tell("cont", json!({}))?;
                return Ok(());
            }
            Ok(_) => may_go_on()?,
            Err(error) => {
                // It ends when it does not take the state, and its end says more.
                std::thread::sleep(POLL_INTERVAL * 20);
                may_go_on()?;
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
    monitor.tell("migrate-set-parameters", json!({ "max-bandwidth": MOST_BYTES_PER_SECOND }))?;
    let to = format!("exec:cat > {}", quote(&file.to_string_lossy()));
    monitor.tell("migrate", json!({ "uri": to }))?;
    let refused = |why: String| VmError::Monitor { what: "save the state".to_owned(), why };
    let began = Instant::now();
    while began.elapsed() < SAVE_WAIT {
        let now = monitor.tell("query-migrate", json!({}))?;
        match now["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => {
                let why = now["error-desc"].as_str().unwrap_or("it does not say why");
                return Err(refused(why.to_owned()));
            }
            _ => std::thread::sleep(POLL_INTERVAL),
        }
    }
    let _ = monitor.tell("migrate_cancel", json!({}));
    Err(refused(format!("it took more than {} s", SAVE_WAIT.as_secs())))
}
