//! Reaches a board before its first power cut.

use std::path::Path;
use std::time::{Duration, Instant};

use flashfit_host::SystemRunner;
use flashfit_testbed::Host;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output::note;
use crate::test_beds::switched::SwitchedBoard;

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Reaches the board; one that is on and does not answer is switched on again.
pub fn awake(
    board: &SwitchedBoard<'_>,
    runner: &SystemRunner,
    catalog: Option<&Path>,
    limit: Duration,
) -> Result<Box<dyn Host>, CommandError> {
    if board.is_starting() {
        note("the board was switched on; waiting until ssh answers");
    } else {
        match board.host(catalog) {
            Err(error) if error.class() == ExitClass::Environment => {
                note(&format!("{}; switching it on", error.message()));
            }
            other => return other,
        }
        board.switch.switch(true)?;
    }
    let began = Instant::now();
    loop {
        match board.host(catalog) {
            Err(error)
                if error.class() == ExitClass::Environment
                    && began.elapsed() < limit
                    && !runner.interrupt().is_raised() =>
            {
                std::thread::sleep(RETRY_INTERVAL);
            }
            other => return other,
        }
    }
}
