//! A board of a lab that this run has locked, with its power.

use std::time::{Duration, Instant};

use flashfit_host::ProgramError;
use flashfit_lab::{LabError, LockState, LockedPlace, PowerState};
use flashfit_testbed::TrialError;
use flashfit_tune::run::BoardLock;

use crate::output::note;
use crate::timeouts::shortened;

/// How often it is checked whether a board is still locked by this run.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(30);

/// A locked board, released when dropped.
#[derive(Debug)]
pub struct PlaceLease {
    pub(super) lock: LockedPlace,
    /// Whether it is switched off on release: it was off before, or the board is lost.
    power_off: bool,
    /// Whether somebody else has locked it.
    is_taken: bool,
    confirmed: Instant,
}

impl PlaceLease {
    pub(super) fn new(lock: LockedPlace) -> Self {
        Self { lock, power_off: false, is_taken: false, confirmed: Instant::now() }
    }

    pub fn place(&self) -> &LockedPlace {
        &self.lock
    }

    /// Switches a board on that is off; whether it has to boot.
    pub fn power_on(&mut self) -> Result<bool, LabError> {
        match self.lock.power()? {
            PowerState::On => Ok(false),
            state => {
                self.lock.power_on()?;
                self.power_off = state == PowerState::Off;
                Ok(true)
            }
        }
    }
}

impl BoardLock for PlaceLease {
    fn still_ours(&mut self) -> Result<(), TrialError> {
        if self.confirmed.elapsed() < shortened(CONFIRM_INTERVAL) {
            return Ok(());
        }
        let confirmed = self.lock.confirm();
        self.confirmed = Instant::now();
        match confirmed {
            Ok(LockState::Kept) => Ok(()),
            Ok(LockState::Regained) => {
                note(&format!("{}: the lab had lost the lock; locked again", self.lock.name()));
                Ok(())
            }
            Err(error @ LabError::Program(ProgramError::Interrupted { .. })) => {
                Err(TrialError::stopped(&error))
            }
            Err(
                error @ (LabError::Taken { .. }
                | LabError::Reserved { .. }
                | LabError::NoSuchPlace { .. }),
            ) => {
                self.is_taken = true;
                Err(TrialError::stopped(&error))
            }
            // Boards are reached without the lab; the lab is asked again later.
            Err(error) => {
                note(&format!("{}: {error}; the run goes on", self.lock.name()));
                Ok(())
            }
        }
    }

    fn power_off(&mut self) {
        self.power_off = true;
    }
}

impl Drop for PlaceLease {
    fn drop(&mut self) {
        if self.power_off && !self.is_taken {
            // Without a switch that answers, nothing can be done.
            let _ = self.lock.power_off();
        }
    }
}
