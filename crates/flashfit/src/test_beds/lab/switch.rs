//! The power switch of a lab's board, for power cuts.

use flashfit_crash::CrashError;
use flashfit_crash::board::{BoardError, CommandSwitch, PowerSwitch};
use flashfit_lab::LabError;
use flashfit_user_error::UserError;

use super::PlaceLease;

/// The switch of the lab. When it is dropped, a board that was off before is off again.
#[derive(Debug)]
pub struct LabSwitch(pub PlaceLease);

impl PowerSwitch for LabSwitch {
    fn switch(&self, on: bool) -> Result<(), CrashError> {
        let place = self.0.place();
        let switched = if on { place.power_on() } else { place.power_off() };
        switched.map_err(|error: LabError| {
            CrashError::Board(BoardError {
                message: error.to_string(),
                hint: error.hint(),
                class: error.class(),
                is_transient: false,
            })
        })
    }
}

/// Commands of the user for a board of a lab.
#[derive(Debug)]
pub struct OwnSwitch {
    pub commands: CommandSwitch,
    pub _lease: PlaceLease,
}

impl PowerSwitch for OwnSwitch {
    fn switch(&self, on: bool) -> Result<(), CrashError> {
        self.commands.switch(on)
    }
}
