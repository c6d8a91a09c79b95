//! Ctrl-C and SIGTERM as an interrupt that the work in progress looks for.

use flashfit_host::interrupt::Interrupt;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;

/// Catches the signals from now on; a later one kills the process, copies of the first do not.
pub fn interrupt() -> Result<Interrupt, CommandError> {
    Interrupt::on_signals().map_err(|error| not_caught(&error))
}

/// Catches the signals from now on; none kills the process.
pub fn interrupt_until_done() -> Result<Interrupt, CommandError> {
    Interrupt::on_signals_until_done().map_err(|error| not_caught(&error))
}

fn not_caught(error: &std::io::Error) -> CommandError {
    CommandError::new(ExitClass::Environment, format!("cannot catch signals: {error}"), None)
}
