//! A virtual machine that mounts the states of one device, for file systems or kernels that this
//! computer does not run.
//!
//! Its disk is the block device that shows the states, without the page cache of this kernel. It is
//! booted when it is first needed, and again after a state that it did not survive.
//!
//! Limit: what the kernel keeps in memory between two mounts, such as timers, comes from the states
//! before.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flashfit_host::SystemRunner;
use flashfit_vm::{Disk, DiskInterface, Kernel};

use super::{Work, WorkError};
use crate::CrashError;
use crate::cuts::ledger::{CutLedger, Taken};
use crate::cuts::limits::WorkLimits;
use crate::cuts::machine::{
    Guest, MachineChoice, SILENCE_LIMIT, boot, kernel, machine_options, unexpected,
};
use crate::cuts::wire::{Arrival, GuestMount, GuestReply, GuestRequest};
use crate::device::CrashDevice;
use crate::observe::remains::Look;
use crate::setup::CrashSetup;
use crate::workload::{CrashWorkload, LogPosition, LoggedOperation, WORK_LIMIT};

/// The kernel of a virtual machine, for a campaign.
#[derive(Debug)]
pub struct MachineKernel<'a> {
    choice: &'a MachineChoice<'a>,
    kernel: Kernel,
    setups: &'a [CrashSetup],
}

impl<'a> MachineKernel<'a> {
    /// A kernel that can mount all setups.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(
        choice: &'a MachineChoice<'a>,
        setups: &'a [CrashSetup],
        runner: &SystemRunner,
    ) -> Result<Self, CrashError> {
        Ok(Self { choice, kernel: kernel(choice, setups, runner)?, setups })
    }

    pub fn release(&self) -> &str {
        &self.kernel.release
    }
}

/// A machine for one device.
#[derive(Debug)]
pub struct StateMachine<'a> {
    kernel: &'a MachineKernel<'a>,
    node: PathBuf,
    sqlite: bool,
    runner: &'a SystemRunner,
    guest: Mutex<Option<Guest>>,
}

impl<'a> StateMachine<'a> {
    /// A machine that is not booted yet. It must end before the device is detached.
    pub fn new(
        kernel: &'a MachineKernel<'a>,
        device: &CrashDevice,
        workload: &CrashWorkload,
        runner: &'a SystemRunner,
    ) -> Self {
        let sqlite = matches!(workload, CrashWorkload::Sqlite(_));
        let node = device.node().to_owned();
        Self { kernel, node, sqlite, runner, guest: Mutex::default() }
    }

    fn guest(&self) -> MutexGuard<'_, Option<Guest>> {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `ask` talk to the running machine; one that fails is ended.
    fn with<T>(
        &self,
        ask: impl FnOnce(&mut Guest) -> Result<T, CrashError>,
    ) -> Result<T, CrashError> {
        let mut running = self.guest();
        let mut guest = match running.take() {
            Some(guest) => guest,
            None => self.booted()?,
        };
        match ask(&mut guest) {
            Ok(answer) => {
                *running = Some(guest);
                Ok(answer)
            }
            Err(error) => {
                if self.is_end(&error) {
                    guest.check_end()?;
                }
                Err(error)
            }
        }
    }

    fn booted(&self) -> Result<Guest, CrashError> {
        let MachineKernel { choice, kernel, setups } = self.kernel;
        let disk = Disk::file(&self.node, false, DiskInterface::Virtio);
        let options = machine_options(choice, kernel.clone(), setups, disk);
        boot(&options, setups, self.sqlite, false, self.runner)
    }

    pub(super) fn work(
        &self,
        mount: GuestMount,
        work: &Work<'_>,
        log: &dyn LogPosition,
    ) -> Result<Result<Vec<LoggedOperation>, CrashError>, WorkError> {
        let operations = work.planned();
        let request = if operations.is_empty() {
            GuestRequest::Work { mount, workload: work.workload.clone(), seed: work.seed }
        } else {
            GuestRequest::Operate { mount, operations: operations.clone() }
        };
        let mounted = self.with(|guest| {
            guest.send(&request)?;
            guest.reply(SILENCE_LIMIT)
        })?;
        match mounted {
            GuestReply::Mounted => {}
            GuestReply::NotMounted(reason) => return Err(WorkError::NotMounted(reason)),
            other => return Err(unexpected(&other).into()),
        }
        let limits = WorkLimits::of(work.workload, WORK_LIMIT);
        let ledger = CutLedger::new(operations);
        Ok(self.with(|guest| worked(guest, ledger, log, limits, work.is_over)))
    }

    /// Nothing is mounted by a machine that was ended.
    pub(super) fn unmount(&self) -> Result<(), CrashError> {
        if self.guest().is_none() {
            return Ok(());
        }
        self.with(|guest| {
            guest.send(&GuestRequest::Unmount)?;
            match guest.reply(SILENCE_LIMIT)? {
                GuestReply::Unmounted => Ok(()),
                other => Err(unexpected(&other)),
            }
        })
    }

    /// Looks once; a machine that ends is dead then.
    pub(super) fn look(
        &self,
        mount: GuestMount,
        workload: &CrashWorkload,
        input: &str,
    ) -> Result<Look, CrashError> {
        let workload = workload.clone();
        let request = GuestRequest::Check { mount, workload, input: input.to_owned() };
        self.with(|guest| {
            guest.send(&request)?;
            match guest.reply(SILENCE_LIMIT)? {
                GuestReply::Checked { view, mount_ns } => {
                    Ok(Look { view: *view, recovery: Duration::from_nanos(mount_ns) })
                }
                other => Err(unexpected(&other)),
            }
        })
    }

    /// Whether the kernel stopped, and not the user.
    pub(super) fn is_end(&self, error: &CrashError) -> bool {
        !self.runner.interrupt().is_raised() && matches!(error, CrashError::GuestEnded { .. })
    }
}

/// How often it is asked whether the work is still wanted.
const LOOK_UP: Duration = Duration::from_millis(200);

/// What a machine says of its work, if that came in time and is still wanted.
fn reply(
    guest: &mut Guest,
    start: Instant,
    limits: WorkLimits,
    is_over: &dyn Fn() -> bool,
) -> Result<GuestReply, CrashError> {
    let asked = Instant::now();
    loop {
        if is_over() {
            return Err(CrashError::WorkStopped);
        }
        limits.check(start, asked)?;
        match guest.until(Instant::now() + LOOK_UP)? {
            Arrival::Message(reply) => return Ok(reply),
            Arrival::Nothing => {}
            Arrival::End => return Err(CrashError::GuestEnded { console: guest.last_line() }),
        }
    }
}

/// The work of a machine; positions are those of the device before the word to go on, or the answer
/// before, and after the answer.
fn worked(
    guest: &mut Guest,
    mut ledger: CutLedger,
    log: &dyn LogPosition,
    limits: WorkLimits,
    is_over: &dyn Fn() -> bool,
) -> Result<Vec<LoggedOperation>, CrashError> {
    let start = Instant::now();
    let (mut positions, mut begin) = (Vec::new(), 0);
    loop {
        if ledger.has_next() {
            begin = log.position();
            guest.send(&GuestRequest::Go)?;
        }
        match ledger.take(reply(guest, start, limits, is_over)?)? {
            Taken::Operation | Taken::Line => {
                let end = log.position();
                positions.push((begin, end));
                begin = end;
            }
            Taken::Ended => return Ok(ledger.at_positions(&positions)),
        }
    }
}
