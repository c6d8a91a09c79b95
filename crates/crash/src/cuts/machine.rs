//! The virtual machine whose power is cut: booted once, saved when its program waits, and restored
//! from there for every power cut.
//!
//! Limit: every restored machine continues with the same clock and the same random numbers.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_card::CardModel;
use flashfit_host::SystemRunner;
use flashfit_host::private_folder::PrivateFolder;
use flashfit_vm::{ClockSpeed, Disk, DiskInterface, Kernel, Vm, VmFacts, VmOptions};

use super::wire::{Arrival, FrameReader, GuestReply, GuestRequest, send};
use crate::CrashError;
use crate::setup::CrashSetup;
use crate::workload::CrashWorkload;

/// The archive must fit in twice while it is unpacked, and that of a debug build is large.
const MEMORY_MIB: u32 = 320;
/// Enough for an emulated machine on a busy computer.
const READY_WAIT: Duration = Duration::from_secs(180);
/// A guest that says nothing for so long hangs.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(120);
/// QEMU closes the channel before it has ended.
const END_WAIT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Modules besides those of the file systems.
const MODULES: [&str; 5] =
    ["crc32c_generic", "nls_cp437", "nls_ascii", "nls_iso8859-1", "nls_utf8"];
/// Programs besides those of busybox, for workloads of users.
const PROGRAMS: [&str; 2] = ["sync", "sqlite3"];
const STATE: &str = "state";
const SOCKET: &str = "card";

/// What decides the machine.
#[derive(Debug)]
pub struct MachineChoice<'a> {
    /// The user's kernel; otherwise the first that has all file systems.
    pub kernel: Option<&'a Path>,
    /// This program, and the arguments that let it serve in the guest.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub seed: u64,
}

/// A machine that can be restored.
#[derive(Debug)]
pub struct SavedMachine {
    options: VmOptions,
    facts: VmFacts,
    folder: PrivateFolder,
}

/// A kernel that can mount all setups.
///
/// # Errors
/// When there is none.
pub fn kernel(
    choice: &MachineChoice<'_>,
    setups: &[CrashSetup],
    runner: &SystemRunner,
) -> Result<Kernel, CrashError> {
    let wanted = modules(setups);
    let kernel = match choice.kernel {
        Some(image) => Kernel::given(image, None)?,
        None => Kernel::find(&wanted, runner)?,
    };
    match kernel.lacking(&wanted).into_iter().next() {
        None => Ok(kernel),
        Some(kind) => Err(CrashError::NoFileSystem { kind }),
    }
}

/// The module of a file system. Debian's kernels mount ext2 and ext3 with ext4.
fn module(setup: &CrashSetup) -> &str {
    match setup.recipe.kind() {
        "ext2" | "ext3" => "ext4",
        kind => kind,
    }
}

impl SavedMachine {
    /// Where the card must be served before the machine boots.
    pub fn socket(folder: &PrivateFolder) -> PathBuf {
        folder.join(SOCKET)
    }

    /// Boots a machine with the card in `folder`, and saves it when it waits for work.
    ///
    /// # Errors
    /// When it does not boot.
    pub fn boot(
        choice: &MachineChoice<'_>,
        kernel: Kernel,
        setups: &[CrashSetup],
        workload: &CrashWorkload,
        model: &CardModel,
        folder: PrivateFolder,
        runner: &SystemRunner,
    ) -> Result<Self, CrashError> {
        let discard = model.discard.as_ref();
        let disk = Disk {
            sector_bytes: model.sector_bytes,
            discard_bytes: discard.and_then(|it| u32::try_from(it.granularity.0).ok()),
            ..Disk::nbd(Self::socket(&folder), DiskInterface::Virtio)
        };
        let options = machine_options(choice, kernel, setups, disk);
        let needs_sqlite = matches!(workload, CrashWorkload::Sqlite(_));
        let mut guest = boot(&options, setups, needs_sqlite, true, runner)?;
        let facts = guest.facts().clone();
        guest.vm.save(&folder.join(STATE))?;
        guest.kill();
        Ok(Self { options, facts, folder })
    }

    pub fn facts(&self) -> &VmFacts {
        &self.facts
    }

    /// The folder of its state.
    pub fn folder(&self) -> &PrivateFolder {
        &self.folder
    }

    /// The machine as it waited for work.
    ///
    /// # Errors
    /// When QEMU does not restore it.
    pub fn restore(&self, runner: &SystemRunner) -> Result<Guest, CrashError> {
        let state = self.folder.join(STATE);
        Guest::new(Vm::restored(&self.options, &state, runner.interrupt())?)
    }
}

fn modules(setups: &[CrashSetup]) -> Vec<String> {
    setups.iter().map(|setup| module(setup).to_owned()).collect()
}

/// A machine with this program and one disk.
pub(crate) fn machine_options(
    choice: &MachineChoice<'_>,
    kernel: Kernel,
    setups: &[CrashSetup],
    disk: Disk,
) -> VmOptions {
    VmOptions {
        kernel,
        agent: choice.program.clone(),
        agent_args: choice.arguments.clone(),
        programs: PROGRAMS.map(str::to_owned).to_vec(),
        modules: modules(setups).into_iter().chain(MODULES.map(str::to_owned)).collect(),
        files: Vec::new(),
        disks: vec![disk],
        ports: Vec::new(),
        memory_mib: MEMORY_MIB,
        speed: ClockSpeed::RealTime,
        seed: choice.seed,
        ready_wait: READY_WAIT,
    }
}

/// Boots a machine that can mount these setups and waits for work.
///
/// # Errors
/// When it does not boot, or lacks `sqlite3` where it is needed.
pub(crate) fn boot(
    options: &VmOptions,
    setups: &[CrashSetup],
    needs_sqlite: bool,
    reads_ahead: bool,
    runner: &SystemRunner,
) -> Result<Guest, CrashError> {
    let vm = Vm::start(options, runner.interrupt())?;
    if needs_sqlite && vm.facts().lacking_programs.iter().any(|name| name == "sqlite3") {
        let name = "sqlite3".to_owned();
        return Err(flashfit_host::ProgramError::Missing { name }.into());
    }
    let mut guest = Guest::new(vm)?;
    guest.send(&GuestRequest::Prepare { kinds: modules(setups), reads_ahead })?;
    match guest.reply(SILENCE_LIMIT)? {
        GuestReply::Prepared => Ok(guest),
        other => Err(unexpected(&other)),
    }
}

/// An answer that does not belong to the question.
pub fn unexpected(reply: &GuestReply) -> CrashError {
    match reply {
        GuestReply::Failed(reason) => CrashError::Guest { reason: reason.clone() },
        other => CrashError::Guest { reason: format!("unexpected answer {other:?}") },
    }
}

/// A running machine.
#[derive(Debug)]
pub struct Guest {
    vm: Vm,
    reader: FrameReader<UnixStream>,
}

impl Guest {
    fn new(vm: Vm) -> Result<Self, CrashError> {
        let reader = FrameReader::new(vm.channel().map_err(broken)?);
        Ok(Self { vm, reader })
    }

    pub fn facts(&self) -> &VmFacts {
        self.vm.facts()
    }

    /// # Errors
    /// When the machine has ended.
    pub fn send(&self, request: &GuestRequest) -> Result<(), CrashError> {
        let mut channel = self.vm.channel().map_err(broken)?;
        send(&mut channel, request).map_err(broken)
    }

    /// What it says until a moment.
    ///
    /// # Errors
    /// When the channel fails.
    pub fn until(&mut self, until: Instant) -> Result<Arrival<GuestReply>, CrashError> {
        self.reader.until(until).map_err(broken)
    }

    /// What it answers.
    ///
    /// # Errors
    /// When it does not answer in time, or has ended.
    pub fn reply(&mut self, limit: Duration) -> Result<GuestReply, CrashError> {
        match self.until(Instant::now() + limit)? {
            Arrival::Message(reply) => Ok(reply),
            Arrival::Nothing => Err(CrashError::Silent { seconds: limit.as_secs() }),
            Arrival::End => Err(CrashError::GuestEnded { console: self.last_line() }),
        }
    }

    /// The last line of its console.
    pub fn last_line(&self) -> String {
        self.vm.last_error_line().unwrap_or_default()
    }

    /// Ends one whose channel was closed.
    ///
    /// # Errors
    /// When QEMU failed or was killed, which says nothing about what the guest did.
    pub fn check_end(self) -> Result<(), CrashError> {
        let until = Instant::now() + END_WAIT;
        while self.vm.is_running() && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(self.vm.stop()?)
    }

    /// Ends it as a power cut does. When this returns, it is dead.
    pub fn kill(self) {
        drop(self.vm);
    }
}

fn broken(source: std::io::Error) -> CrashError {
    CrashError::Guest { reason: source.to_string() }
}
