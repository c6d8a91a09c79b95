//! The request queue of a device: the I/O scheduler that it is to have.

use std::path::PathBuf;

use flashfit_device::{Device, SystemRoots};
use flashfit_filesystem::{Scheduler, scheduler};

use crate::error::ApplyError;

pub(crate) struct SysfsQueue(PathBuf);

impl SysfsQueue {
    pub(crate) fn of(system: &SystemRoots, device: &Device) -> Self {
        Self(system.block(&device.disk).join("queue"))
    }

    /// Whether it could be given this scheduler.
    pub(crate) fn offers(&self, wanted: &str) -> Result<(), ApplyError> {
        let offered =
            scheduler::available(&self.0).map_err(|error| self.refused(wanted, &error))?;
        if offered.iter().any(|found| found.name() == wanted) {
            return Ok(());
        }
        let names: Vec<&str> = offered.iter().map(Scheduler::name).collect();
        let reason = format!("the queue offers {}", names.join(", "));
        Err(self.refused(wanted, &std::io::Error::other(reason)))
    }

    pub(crate) fn current(&self) -> Result<String, ApplyError> {
        let current = scheduler::current(&self.0).map_err(ApplyError::file(&self.0))?;
        Ok(current.name().to_owned())
    }

    /// Gives it a scheduler and looks whether it has it.
    pub(crate) fn set(&self, wanted: &str) -> Result<(), ApplyError> {
        if self.current()? == wanted {
            return Ok(());
        }
        let set = scheduler::set(&self.0, &Scheduler::new(wanted));
        set.map_err(|error| self.refused(wanted, &error))
    }

    fn refused(&self, wanted: &str, error: &std::io::Error) -> ApplyError {
        ApplyError::Scheduler { wanted: wanted.to_owned(), reason: error.to_string() }
    }
}
