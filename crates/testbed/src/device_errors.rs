//! Counts the I/O errors of a device with the kernel's tracepoint or, if that is not available,
//! from the kernel log.
//!
//! Limit: the kernel log is rate-limited to ten lines in five seconds for all devices. A count from
//! the log may be too low, and a trial that fails without a logged error is blamed on the setup.

use flashfit_device::SystemRoots;
use flashfit_host::error_trace::{BlockErrors, ErrorTrace};
use serde::{Deserialize, Serialize};

/// Where errors were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorSource {
    /// The tracepoint `block_rq_error`: all errors.
    Tracepoint,
    /// The kernel log, which is rate-limited.
    KernelLog,
    /// Written by a later version.
    #[serde(other)]
    Unknown,
}

/// The I/O errors of the device in a trial, except for discards and unsupported requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceErrors {
    pub source: ErrorSource,
    /// Number of failed requests.
    pub count: u64,
}

#[derive(Debug)]
pub(crate) struct ErrorCounter {
    disk: String,
    trace: Option<ErrorTrace>,
}

impl ErrorCounter {
    /// Starts the trace if possible.
    pub(crate) fn of(disk: &str) -> Self {
        let system = SystemRoots::default();
        let number = system.attribute(&system.block(disk).join("dev"));
        let trace = number.as_deref().and_then(parse_number).map(ErrorTrace::of_disk);
        // Without root, tracefs or the tracepoint, the log is used.
        Self { disk: disk.to_owned(), trace: trace.and_then(Result::ok) }
    }

    /// Drops the errors counted so far.
    pub(crate) fn reset(&mut self) {
        self.traced();
    }

    /// The errors since the last call and the first of them. `log`: new lines of the kernel log.
    pub(crate) fn take(&mut self, log: &[String]) -> (DeviceErrors, Option<String>) {
        if let Some(BlockErrors { count, first }) = self.traced() {
            let first = first.map(|error| error.to_string());
            let unknown = || "its details were lost".to_owned();
            let first = (count > 0).then(|| first.unwrap_or_else(unknown));
            return (DeviceErrors { source: ErrorSource::Tracepoint, count }, first);
        }
        let mut lines = log.iter().filter(|line| is_error_of(&self.disk, line));
        let first = lines.next().cloned();
        let count = u64::from(first.is_some()) + lines.count() as u64;
        (DeviceErrors { source: ErrorSource::KernelLog, count }, first)
    }

    /// Stops tracing after a read error.
    fn traced(&mut self) -> Option<BlockErrors> {
        let errors = self.trace.as_mut()?.take().ok();
        if errors.is_none() {
            self.trace = None;
        }
        errors
    }
}

/// Reads `7:0`.
fn parse_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether this line reports a failure of `disk`. Failed discards and unsupported requests are
/// caused by the setup.
fn is_error_of(disk: &str, line: &str) -> bool {
    let about = line.contains(&format!(" error, dev {disk},"));
    about && !line.contains("operation not supported") && !line.contains("(DISCARD)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_failing_device_are_recognized() {
        let errors = [
            "I/O error, dev sda, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2",
            "critical device error, dev sda, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1",
            "critical space allocation error, dev sda, sector 8 op 0x1:(WRITE) flags 0x0",
        ];
        assert!(errors.iter().all(|line| is_error_of("sda", line)));
        assert!(!errors.iter().any(|line| is_error_of("sd", line)), "another device");
        let others = [
            "operation not supported error, dev sda, sector 8 op 0x9:(WRITE_ZEROES) flags 0x0",
            "critical target error, dev sda, sector 8 op 0x3:(DISCARD) flags 0x800",
            "EXT4-fs (sda1): mounted filesystem with ordered data mode",
        ];
        assert!(!others.iter().any(|line| is_error_of("sda", line)));
    }

    #[test]
    fn without_a_trace_errors_are_counted_from_the_log() {
        let mut counter = ErrorCounter { disk: "sda".into(), trace: None };
        let line = |sector: u32| format!("I/O error, dev sda, sector {sector} op 0x1:(WRITE)");
        let log = ["mounted".to_owned(), line(1), line(2)];
        let counted = |count| DeviceErrors { source: ErrorSource::KernelLog, count };
        assert_eq!(counter.take(&log), (counted(2), Some(line(1))));
        assert_eq!(counter.take(&log[..1]), (counted(0), None));
    }

    #[test]
    fn a_source_of_a_later_version_is_read() {
        let read = |text| serde_json::from_str::<DeviceErrors>(text).unwrap().source;
        assert_eq!(read(r#"{"source": "kernel-log", "count": 1}"#), ErrorSource::KernelLog);
        assert_eq!(read(r#"{"source": "x", "count": 1}"#), ErrorSource::Unknown);
    }

    #[test]
    fn device_numbers_are_parsed() {
        assert_eq!(parse_number("179:8"), Some((179, 8)));
        assert_eq!(parse_number("179"), None);
        assert_eq!(parse_number("a:b"), None);
    }
}
