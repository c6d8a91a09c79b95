//! The switch of a board's power, which the user provides: a relay, a power distribution unit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flashfit_host::at_panic::AtPanic;
use flashfit_host::{Program, Runner, SystemRunner};

use crate::CrashError;

/// A switch that takes longer hangs.
const SWITCH_LIMIT: Duration = Duration::from_secs(60);

/// Switches the power of one board.
pub trait PowerSwitch: Send + Sync {
    /// Returns when the switch has done it, or soon after it was told.
    ///
    /// # Errors
    /// When the switch does not obey.
    fn switch(&self, on: bool) -> Result<(), CrashError>;
}

/// A switch that shell commands operate.
#[derive(Debug, Clone)]
pub struct CommandSwitch {
    pub off: String,
    pub on: String,
}

impl PowerSwitch for CommandSwitch {
    /// An interrupt does not end the command: a board is not left with a switch in the middle.
    fn switch(&self, on: bool) -> Result<(), CrashError> {
        let command = if on { &self.on } else { &self.off };
        let program = Program::new("sh").args(["-c", command]).timeout(SWITCH_LIMIT);
        let switched = SystemRunner::default().run_checked(&program);
        switched.map(drop).map_err(|error| CrashError::Switch { reason: error.to_string() })
    }
}

/// Switches a board on again when a campaign ends while it is off, also by a panic.
pub(super) struct Power {
    switch: Arc<dyn PowerSwitch>,
    is_off: Arc<AtomicBool>,
    _at_panic: AtPanic,
}

impl Power {
    pub(super) fn new(switch: &Arc<dyn PowerSwitch>) -> Self {
        let is_off = Arc::new(AtomicBool::new(false));
        let (at_panic, was_off) = (Arc::clone(switch), Arc::clone(&is_off));
        let at_panic = AtPanic::new(move || switch_on(&*at_panic, &was_off));
        Self { switch: Arc::clone(switch), is_off, _at_panic: at_panic }
    }

    /// The switch, for another thread. What is told here must be noted with [`Self::is_cut`].
    pub(super) fn switch(&self) -> &dyn PowerSwitch {
        &*self.switch
    }

    pub(super) fn is_cut(&self) {
        self.is_off.store(true, Ordering::SeqCst);
    }

    pub(super) fn on(&self) -> Result<(), CrashError> {
        self.switch.switch(true)?;
        self.is_off.store(false, Ordering::SeqCst);
        Ok(())
    }
}

impl Drop for Power {
    fn drop(&mut self) {
        switch_on(&*self.switch, &self.is_off);
    }
}

fn switch_on(switch: &dyn PowerSwitch, is_off: &AtomicBool) {
    if is_off.load(Ordering::SeqCst) {
        // The error that ended the campaign is reported.
        let _ = switch.switch(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_switch_and_a_board_is_not_left_without_power() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let tell = |word: &str| format!("echo {word} >{}", state.display());
        let switch = CommandSwitch { off: tell("off"), on: tell("on") };
        let read = || std::fs::read_to_string(&state).unwrap();
        let shared: Arc<dyn PowerSwitch> = Arc::new(switch.clone());
        let power = Power::new(&shared);
        power.switch().switch(false).unwrap();
        power.is_cut();
        assert_eq!(read(), "off\n");
        drop(power);
        assert_eq!(read(), "on\n");
        let power = Power::new(&shared);
        power.switch().switch(false).unwrap();
        power.is_cut();
        flashfit_host::at_panic::run();
        assert_eq!(read(), "on\n");
        let broken = CommandSwitch { off: "echo no relay >&2; exit 3".to_owned(), ..switch };
        let error = broken.switch(false).unwrap_err().to_string();
        assert!(error.contains("no relay"), "{error}");
    }
}
