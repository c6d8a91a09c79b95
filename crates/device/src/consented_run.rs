//! Runs the programs that write to a device: mkfs, sfdisk, blkdiscard, wipefs.
//!
//! A program gets the path of the open descriptor instead of the device's name, so a name that is
//! replaced between the last check and the program's own open leads it nowhere else. The name is
//! compared with the descriptor right before and right after, too: programs such as mkfs.btrfs
//! resolve the path and open the present name of the node.
//!
//! Limit: mount(8) resolves every path before it calls the kernel, and mount tables show the name,
//! so it gets the name. If that is replaced in between, it is noticed only afterwards.

use std::time::Duration;

use flashfit_host::{Program, ProgramError, ProgramOutcome, Runner};
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::guard::WriteConsent;
use crate::refusal::Refusal;
use crate::units::Bytes;

const LEAST_MAKING_TIMEOUT: Duration = Duration::from_secs(3600);
const BYTES_PER_FURTHER_HOUR: u64 = 256 << 30;

/// The time limit of a program that makes a file system on a device, discards it, or packs an image
/// on it: an hour, and one more for each 256 GiB. mkfs.ext4 writes up to a 64th of the device,
/// which takes 18 minutes per 256 GiB at 4 MB/s; a slow card that is discarded in pieces takes
/// longer.
pub fn making_timeout(capacity: Bytes) -> Duration {
    let further = u32::try_from(capacity.0 / BYTES_PER_FURTHER_HOUR).unwrap_or(u32::MAX);
    LEAST_MAKING_TIMEOUT.saturating_mul(further.saturating_add(1))
}

/// Why a program was not run on a device, or did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ConsentedRunError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl UserError for ConsentedRunError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Refused(error) => error.class(),
            Self::Program(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Refused(error) => error.hint(),
            Self::Program(error) => error.hint(),
        }
    }
}

impl WriteConsent {
    /// Runs a program on the open device. Where its arguments have the path of this consent, it
    /// gets the descriptor.
    ///
    /// # Errors
    /// When the device is not the same before or after, or the program fails.
    pub fn run(
        &self,
        runner: &dyn Runner,
        program: &Program,
    ) -> Result<ProgramOutcome, ConsentedRunError> {
        let handed = self.handed(program);
        self.surrounded(|| Ok(runner.run_checked(&handed)?))
    }

    /// The same for a program whose exit code is a finding, such as fsck.
    ///
    /// # Errors
    /// When the device is not the same before or after, or the program does not run.
    pub fn run_for_outcome(
        &self,
        runner: &dyn Runner,
        program: &Program,
    ) -> Result<ProgramOutcome, ConsentedRunError> {
        let handed = self.handed(program);
        self.surrounded(|| Ok(runner.run(&handed)?))
    }

    /// A program that gets the descriptor where its arguments have the path of this consent.
    pub(crate) fn handed(&self, program: &Program) -> Program {
        program.clone().hand(self.path(), self.target().shared())
    }

    /// Does work that finds the device by its name, such as mounting it.
    ///
    /// # Errors
    /// Those of `work`, and when the device is not the same before or after.
    pub fn surrounded<T, E: From<Refusal>>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.check_same()?;
        let done = work()?;
        self.check_same()?;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_card_of_a_terabyte_has_hours() {
        let hours = |bytes| making_timeout(Bytes(bytes)).as_secs() / 3600;
        assert_eq!(hours(64 << 20), 1);
        assert_eq!(hours(1_000_000_000_000), 4);
        assert!(hours(u64::MAX) > hours(1 << 40));
    }
}
