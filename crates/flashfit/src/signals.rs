//! Ctrl-C and SIGTERM as an interrupt that the work in progress looks for.

use flashfit_host::interrupt::Interrupt;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;

/// Catches the signals from now on.
pub fn interrupt() -> Result<Interrupt, CommandError> {
    Interrupt::on_signals().map_err(|error| {
        CommandError::new(ExitClass::Environment, format!("cannot catch signals: {error}"), None)
    })
}
