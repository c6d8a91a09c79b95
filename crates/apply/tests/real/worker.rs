//! The program that is killed: carries out one work, or takes it back, and dies at a chosen event.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use flashfit_apply::{
    Applied, ApplyError, ApplyRequest, ApplyTools, Backup, UnfinishedRecords, apply, restore,
};
use flashfit_device::{ConsentMethod, Device, DeviceLock, SystemRoots, WriteConsent};
use flashfit_host::SystemRunner;
use flashfit_host::interrupt::Interrupt;
use flashfit_user_error::UserError;

use crate::bed::{Kind, work};

/// The first argument that makes this program a worker.
pub const NAME: &str = "work";

/// One work for a worker.
#[derive(Debug, Clone)]
pub struct Order {
    pub image: PathBuf,
    /// What to make of it; `None` to take it back.
    pub kind: Option<Kind>,
    /// The folder of the backup.
    pub backup: PathBuf,
    /// Whether the user named that folder.
    pub named: bool,
    /// Where the machine remembers.
    pub state: PathBuf,
    /// The event at which it dies, counted from 1; none for 0.
    pub dies_at: u32,
}

impl Order {
    pub fn start(&self) -> Child {
        let kind = self.kind.map_or("back", Kind::name);
        Command::new(std::env::current_exe().unwrap())
            .args([NAME, kind, &self.dies_at.to_string()])
            .args([&self.image, &self.backup, &self.state])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Does it in this process, without dying.
    pub fn here(&self) -> Result<Option<Applied>, ApplyError> {
        carry_out(self)
    }
}

/// The worker's main function.
pub fn main(args: &[String]) -> ExitCode {
    let [kind, dies_at, image, backup, state] = args else { return ExitCode::FAILURE };
    let order = Order {
        image: image.into(),
        kind: Kind::of(kind),
        backup: backup.into(),
        named: true,
        state: state.into(),
        dies_at: dies_at.parse().unwrap(),
    };
    match carry_out(&order) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::from(error.class().code())
        }
    }
}

/// A consent as a user who names the image gives it.
pub fn consent(image: &Path) -> Result<WriteConsent, ApplyError> {
    let (system, runner) = (SystemRoots::default(), SystemRunner::default());
    let device = Device::from_image(&runner, image)?;
    let agreement = ConsentMethod::Named(device.short_name());
    Ok(WriteConsent::ask(&system, &runner, &device, &agreement)?)
}

fn carry_out(order: &Order) -> Result<Option<Applied>, ApplyError> {
    let runner = SystemRunner::default();
    let held = DeviceLock::acquire(&runner, consent(&order.image)?)?;
    let (system, interrupt) = (SystemRoots::default(), Interrupt::new());
    let records = UnfinishedRecords::in_folder(&order.state);
    let seen = Cell::new(0);
    let tell = |_: &_| {
        seen.set(seen.get() + 1);
        if seen.get() == order.dies_at {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
        }
    };
    let tools = ApplyTools {
        system: &system,
        runner: &runner,
        records: &records,
        interrupt: &interrupt,
        on_event: &tell,
    };
    let Some(kind) = order.kind else {
        let backup = Backup::read(&order.backup)?;
        return restore(&tools, held.consent(), &backup, false, "undo").map(|()| None);
    };
    let work = work(kind, held.consent());
    let request = ApplyRequest {
        consent: held.consent(),
        work: &work,
        backup: order.backup.clone(),
        backup_is_given: order.named,
        has_queue: false,
        install: None,
        resume_command: &|_| "again".to_owned(),
        restore_command: &|_| "undo".to_owned(),
    };
    apply(&tools, &request).map(Some)
}
