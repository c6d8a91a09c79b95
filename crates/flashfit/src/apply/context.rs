//! What a device is written to with: programs that end when the user interrupts, and the memory of
//! what was left unfinished.

use flashfit_apply::{ApplyEvent, ApplyStage, ApplyTools, UnfinishedRecords};
use flashfit_device::{Device, DeviceLock, SystemRoots};
use flashfit_host::interrupt::Interrupt;
use flashfit_host::path_text::to_text;
use flashfit_host::program::find;
use flashfit_host::{ProgramError, SystemRunner, capability};
use flashfit_user_error::ExitClass;

use crate::apply::args::ConsentArgs;
use crate::command_error::CommandError;
use crate::consent;
use crate::output::{note, note_with_commands};
use crate::{signals, state};

/// What is needed to write to a device.
pub struct ApplyMeans {
    pub runner: SystemRunner,
    system: SystemRoots,
    records: UnfinishedRecords,
    interrupt: Interrupt,
}

/// A device that is taken, and what is needed to write to it.
pub struct ApplyContext {
    pub held: DeviceLock,
    means: ApplyMeans,
}

impl ApplyContext {
    /// Asks for the data of a device whose loss was shown, and takes the device. Signals are caught
    /// from then on.
    pub fn take(device: &Device, agreed: &ConsentArgs) -> Result<Self, CommandError> {
        let runner = SystemRunner::default();
        let consent = consent::for_shown(device, agreed.confirm.as_deref(), &runner)?;
        let means = ApplyMeans::new()?;
        let held = DeviceLock::acquire(&means.runner, consent)?;
        Ok(Self { held, means })
    }

    /// The same for the crate that does the work.
    pub fn tools(&self) -> ApplyTools<'_> {
        self.means.tools()
    }
}

impl ApplyMeans {
    /// Signals are caught from then on.
    pub fn new() -> Result<Self, CommandError> {
        let interrupt = signals::interrupt()?;
        Ok(Self {
            runner: SystemRunner::new(interrupt.clone()),
            system: SystemRoots::default(),
            records: state::records(),
            interrupt,
        })
    }

    /// The same for the crate that does the work.
    pub fn tools(&self) -> ApplyTools<'_> {
        ApplyTools {
            system: &self.system,
            runner: &self.runner,
            records: &self.records,
            interrupt: &self.interrupt,
            on_event: &tell,
        }
    }
}

/// What the machine must have, looked at before anybody is asked for a device's data.
pub fn environment<'a>(programs: impl IntoIterator<Item = &'a str>) -> Result<(), CommandError> {
    if let Some(reason) = capability::missing_for_block_devices() {
        return Err(CommandError::new(
            ExitClass::Environment,
            format!("no device can be written to here: {reason}"),
            Some("run it as root, with sudo"),
        ));
    }
    match programs.into_iter().find(|name| find(name).is_none()) {
        Some(name) => Err(ProgramError::Missing { name: name.to_owned() }.into()),
        None => Ok(()),
    }
}

fn tell(event: &ApplyEvent) {
    match event {
        ApplyEvent::StageStarted(ApplyStage::Done | ApplyStage::Restored)
        | ApplyEvent::Writing(_) => {}
        ApplyEvent::StageStarted(stage) => note(&stage.to_string()),
        ApplyEvent::Running(line) => note_with_commands(&format!("  {line}")),
        ApplyEvent::Resumed { backup } => {
            note(&format!("continuing an interrupted apply; its backup is in {}", to_text(backup)))
        }
    }
}
