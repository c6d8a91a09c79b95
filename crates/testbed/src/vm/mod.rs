//! A virtual machine as a place for trials: this machine's device, image or simulated card under
//! another kernel, for which nobody needs to be root.
//!
//! What a device is and whether it may be written to is seen here, before the machine is started;
//! it is then attached to it, locked here, and taken over there. A simulated card is served here
//! over NBD, so that its counters are read here too. Where the machine's instructions are counted,
//! its clock is not this machine's: a simulated card is then served inside, and its delays and the
//! processor's time go in true proportion, however busy this machine is.
//!
//! Limits: the machine has the programs of this one. Under emulation its processor is slow, so its
//! figures are compared with nothing but their like.

mod backing_device;
mod link;
mod machine_findings;

use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_device::{Bytes, ConsentMethod, Device};
use flashfit_filesystem::{Conditions, FileSystemCatalog};
use flashfit_host::SystemRunner;
use flashfit_host::program::find;
use flashfit_option_probe::OptionFindings;
use flashfit_user_error::ExitClass;
use flashfit_vm::doctor::{self, DoctorNeeds, Examination};
use flashfit_vm::{Accelerator, ClockSpeed, DiskInterface, Kernel, Vm, VmFacts, VmOptions};

use backing_device::Attached;
use link::VmLink;
use machine_findings::{MachineCase, MachineFindings};

use crate::host::{
    Capabilities, Host, LocalHost, OpenRequest, ProbeRequest, ProbeResult, Requirements, WriteGrant,
};
use crate::remote::RemoteHost;
use crate::spec::{VmChoice, VmDisk};
use crate::{TestBed, TrialError};

/// The machine's one disk.
const FIRST_DISK: usize = 0;
/// Beside what workloads may use.
const MEMORY_MIB: u32 = 512;
/// For a card that is served in the machine, by its capacity: its bytes, and the page cache of the
/// file that it serves. More than the second number no trial writes.
const CARD_MEMORY: u64 = 2;
const CARD_MEMORY_MIB_MAX: u64 = 8192;
/// Under emulation, on a busy machine.
const READY_WAIT: Duration = Duration::from_secs(120);
/// What drives file systems, loop devices and queues beside their own modules.
const FURTHER_MODULES: [&str; 10] = [
    "loop",
    "fuse",
    "bfq",
    "kyber-iosched",
    "overlay",
    "nls_cp437",
    "nls_ascii",
    "nls_iso8859-1",
    "nls_utf8",
    "crc32c_generic",
];
/// What trials run beside the programs of file systems.
const FURTHER_PROGRAMS: [&str; 8] =
    ["umount", "losetup", "blkid", "partx", "tune2fs", "wipefs", "sync", "btrfs"];

/// Makes the arguments that serve the card of that name on that socket.
pub type NbdCardCommandLine<'a> = Box<dyn Fn(&str, &Path) -> Vec<String> + 'a>;

/// What a machine is made with.
pub struct VmContext<'a> {
    /// Runs programs here.
    pub runner: &'a SystemRunner,
    /// The file systems to be tried.
    pub catalogue: &'a FileSystemCatalog,
    /// This machine, which is asked about devices.
    pub here: LocalHost<'a>,
    /// This very program, which becomes the agent, and the server of simulated cards.
    pub program: PathBuf,
    /// Makes the arguments that serve the card of that name over NBD on a socket.
    pub card_args: NbdCardCommandLine<'a>,
    /// The version of flashfit.
    pub version: String,
    /// The user's own catalog.
    pub catalog_dir: Option<PathBuf>,
    /// The seed of what is random in the machine.
    pub seed: u64,
    /// What a workload's programs and their page cache may use, in bytes.
    pub memory_bytes: u64,
    /// How much data a workload uses, in bytes.
    pub data_bytes: u64,
    /// The share of a device that is filled beforehand, in hundredths of a percent.
    pub fill_hundredths: u32,
}

/// A virtual machine, started when it is first needed.
pub struct VmHost<'a> {
    means: VmContext<'a>,
    choice: VmChoice,
    kernel: Option<Kernel>,
    /// The file of a simulated card that is served in the machine, where it has one.
    card_file: Option<PathBuf>,
    /// What it needs of memory.
    card_mib: u32,
    running: Option<RemoteHost<VmLink>>,
}

/// What trials with this catalog's file systems need of a virtual machine, and what is there.
pub fn examine(
    runner: &SystemRunner,
    catalogue: &FileSystemCatalog,
    choice: &VmChoice,
) -> Result<Examination, TrialError> {
    let kernel = given_kernel(choice)?;
    let wanted = Requirements::of(catalogue);
    let modules = modules(&wanted.kinds);
    let programs = wanted.programs.into_iter().collect();
    Ok(doctor::examine(&DoctorNeeds { kernel, modules, programs }, runner))
}

fn given_kernel(choice: &VmChoice) -> Result<Option<Kernel>, TrialError> {
    let given = choice.kernel.as_deref().map(|image| Kernel::given(image, None));
    given.transpose().map_err(|error| TrialError::stopped(&error))
}

fn capacity(leave: &WriteGrant) -> Bytes {
    match leave {
        WriteGrant::Card { model, .. } => model.capacity,
        WriteGrant::Named { shown, .. } => shown.capacity,
        WriteGrant::Attached { capacity, .. } => *capacity,
    }
}

/// The modules of file systems, and what they need beside.
fn modules<'a>(kinds: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let of_kinds = kinds.into_iter().map(|kind| module_of(kind).to_owned());
    let mut names: Vec<String> = of_kinds.chain(FURTHER_MODULES.map(str::to_owned)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The module of a file system; Debian's kernels have the older two from ext4's.
fn module_of(kind: &str) -> &str {
    if ["ext2", "ext3"].contains(&kind) { "ext4" } else { kind }
}

impl<'a> VmHost<'a> {
    /// A machine that is not started yet.
    pub fn new(means: VmContext<'a>, choice: VmChoice) -> Self {
        Self { means, choice, kernel: None, card_file: None, card_mib: 0, running: None }
    }

    /// Whether a simulated card is served in the machine, whose clock is not this machine's.
    fn serves_inside(&self) -> bool {
        self.choice.speed_mips.is_some()
    }

    /// Whether the disk that was chosen can have this behind it.
    fn takes(&self, leave: &WriteGrant) -> Result<(), TrialError> {
        let refused = |message: String, hint: &str| TrialError::Stopped {
            message,
            class: ExitClass::Usage,
            hint: Some(hint.to_owned()),
        };
        let disk = self.choice.disk;
        if !disk.is_usual() && self.serves_inside() && matches!(leave, WriteGrant::Card { .. }) {
            return Err(refused(
                format!(
                    "with counted instructions a simulated card is served in the virtual machine, \
                     which then has no disk to be attached as {disk}"
                ),
                "leave out --vm-disk or --vm-speed-mips",
            ));
        }
        match device(disk).refuses_size(capacity(leave).0) {
            Some(why) => Err(refused(why, "take a medium of such a size, or another --vm-disk")),
            None => Ok(()),
        }
    }

    /// What a card of that capacity needs of the machine's memory, in MiB.
    fn card_mib_for(&self, capacity: Bytes) -> Result<u32, TrialError> {
        let filled = capacity.0 / 10_000 * u64::from(self.means.fill_hundredths);
        let written = filled.saturating_add(self.means.data_bytes).min(capacity.0);
        if written.saturating_mul(CARD_MEMORY) >> 20 > CARD_MEMORY_MIB_MAX {
            return Err(TrialError::Stopped {
                message: format!(
                    "a card that is served in the virtual machine is kept in its memory, where {} \
                     would be written to it, and there is room for {}",
                    Bytes(written),
                    Bytes::mib(CARD_MEMORY_MIB_MAX / CARD_MEMORY)
                ),
                class: ExitClass::Usage,
                hint: Some(
                    "fill less of it (--fill, --data-size), or leave --vm-speed-mips out: the card \
                     is then served beside the machine"
                        .to_owned(),
                ),
            });
        }
        let mib = (capacity.0.saturating_mul(CARD_MEMORY) >> 20).min(CARD_MEMORY_MIB_MAX);
        Ok(u32::try_from(mib).expect("it is bounded"))
    }

    fn kernel(&mut self, kinds: &[String]) -> Result<Kernel, TrialError> {
        if let Some(kernel) = &self.kernel {
            return Ok(kernel.clone());
        }
        let kernel = match given_kernel(&self.choice)? {
            Some(kernel) => kernel,
            None => Kernel::find(&modules(kinds), self.means.runner)
                .map_err(|error| TrialError::stopped(&error))?,
        };
        self.kernel = Some(kernel.clone());
        Ok(kernel)
    }

    fn kinds(&self) -> Vec<String> {
        Requirements::of(self.means.catalogue).kinds.into_iter().collect()
    }

    /// Starts the machine with what is behind it, unless it runs.
    fn running(
        &mut self,
        attached: Option<Attached>,
    ) -> Result<&mut RemoteHost<VmLink>, TrialError> {
        if self.running.is_none() {
            let place = self.start(attached)?;
            self.running = Some(place);
        }
        Ok(self.running.as_mut().expect("it was just started"))
    }

    fn start(&mut self, attached: Option<Attached>) -> Result<RemoteHost<VmLink>, TrialError> {
        let kinds = self.kinds();
        let kernel = self.kernel(&kinds)?;
        let wanted = Requirements::of(self.means.catalogue);
        let fsck =
            self.means.catalogue.filesystems().iter().map(|found| found.fsck.tool.program.clone());
        // mount(8) has a file system's own program do it where there is one.
        let mount = kinds.iter().map(|kind| format!("mount.{kind}"));
        let further = FURTHER_PROGRAMS.map(str::to_owned);
        let workload_mib = u32::try_from(self.means.memory_bytes >> 20).unwrap_or(u32::MAX);
        let options = VmOptions {
            kernel,
            agent: self.means.program.clone(),
            agent_args: vec!["agent".to_owned()],
            programs: wanted.programs.into_iter().chain(fsck).chain(mount).chain(further).collect(),
            modules: modules(&kinds),
            files: self.card_file.iter().map(|file| (file.clone(), file.clone())).collect(),
            disks: attached.iter().map(|attached| attached.disk.clone()).collect(),
            ports: Vec::new(),
            memory_mib: MEMORY_MIB.saturating_add(workload_mib).saturating_add(self.card_mib),
            speed: speed(&self.choice),
            seed: self.means.seed,
            ready_wait: READY_WAIT,
        };
        let interrupt = self.means.runner.interrupt();
        let vm = Vm::start(&options, interrupt).map_err(|error| TrialError::stopped(&error))?;
        let name = name(vm.facts(), self.choice.disk);
        let link = VmLink::new(vm);
        let place = RemoteHost::new(
            link,
            &name,
            interrupt,
            &self.means.version,
            self.means.catalog_dir.as_deref(),
        )?;
        Ok(match attached {
            Some(attached) => place.beside(Box::new(attached.behind)),
            None => place,
        })
    }
}

/// Instructions are counted in powers of two of a nanosecond.
fn speed(choice: &VmChoice) -> ClockSpeed {
    match choice.speed_mips {
        None => ClockSpeed::RealTime,
        Some(mips) => {
            let shift = (1000.0 / f64::from(mips.max(1))).log2().round().clamp(0.0, 10.0);
            ClockSpeed::Counted { shift: shift as u8 }
        }
    }
}

/// As what QEMU attaches it.
pub(crate) fn device(disk: VmDisk) -> DiskInterface {
    match disk {
        VmDisk::Virtio => DiskInterface::Virtio,
        VmDisk::Sd => DiskInterface::SdCard,
        VmDisk::Emmc => DiskInterface::Emmc,
        VmDisk::Nvme => DiskInterface::Nvme,
        VmDisk::Usb => DiskInterface::Usb,
    }
}

/// What the test bed is called: everything that makes its figures comparable, or not.
fn name(facts: &VmFacts, disk: VmDisk) -> String {
    let speed = match facts.speed {
        ClockSpeed::RealTime => "in real time".to_owned(),
        ClockSpeed::Counted { shift } => {
            format!("at {} million counted instructions/s", 1000 >> shift)
        }
    };
    let how = match facts.accelerator {
        Accelerator::Kvm => "KVM",
        Accelerator::Tcg => "emulated",
    };
    let disk = if disk.is_usual() { String::new() } else { format!(", disk {disk}") };
    format!("vm (QEMU {}, {how}, {speed}{disk})", facts.qemu)
}

impl Host for VmHost<'_> {
    fn describe(&mut self, wanted: &Requirements) -> Result<Capabilities, TrialError> {
        let kinds: Vec<String> = wanted.kinds.iter().cloned().collect();
        if !self.choice.disk.is_usual() {
            let offered = device(self.choice.disk).is_offered(self.means.runner);
            offered.map_err(|error| TrialError::stopped(&error))?;
        }
        let kernel = self.kernel(&kinds)?;
        let has = |kind: &&String| kernel.lacking(&[module_of(kind).to_owned()]).is_empty();
        Ok(Capabilities {
            machine: std::env::consts::ARCH.to_owned(),
            lacks_devices: None,
            lacks_cards: None,
            programs: wanted.programs.iter().filter(|name| find(name).is_some()).cloned().collect(),
            kinds: wanted.kinds.iter().filter(has).cloned().collect(),
            media: Vec::new(),
            kernel: kernel.release,
        })
    }

    fn look(&mut self, target: &str) -> Result<Device, TrialError> {
        self.means.here.look(target)
    }

    fn ask(&mut self, shown: &Device, agreement: &ConsentMethod) -> Result<(), TrialError> {
        self.means.here.ask(shown, agreement)
    }

    fn findings(
        &mut self,
        filesystem: &str,
        conditions: &Conditions,
        rotational: Option<bool>,
    ) -> Result<OptionFindings, TrialError> {
        let kinds = self.kinds();
        let (kernel, modules) = (self.kernel(&kinds)?, modules(&kinds));
        let found = self.means.catalogue.filesystem(filesystem);
        let case = MachineCase {
            filesystem: found.map_err(|error| TrialError::stopped(&error))?,
            conditions,
            rotational,
            kernel: &kernel,
            modules: &modules,
        };
        let known = MachineFindings::of_user();
        let (key, found) = known.find(self.means.runner, &case);
        if let Some(findings) = found {
            return Ok(findings);
        }
        let findings = self.running(None)?.findings(filesystem, conditions, rotational)?;
        known.keep(key, &findings);
        Ok(findings)
    }

    fn probe(&mut self, _: &ProbeRequest) -> Result<ProbeResult, TrialError> {
        Err(TrialError::Stopped {
            message: "a probe in a virtual machine would time the machine, not the medium"
                .to_owned(),
            class: ExitClass::Usage,
            hint: Some("probe it here: --on here, or on a board: --on ssh:HOST".to_owned()),
        })
    }

    fn prepare(&mut self, leave: &WriteGrant) -> Result<(), TrialError> {
        self.takes(leave)?;
        if let (WriteGrant::Card { name, model }, true) = (leave, self.serves_inside()) {
            self.card_mib = self.card_mib_for(model.capacity)?;
            // A card's own file goes in under its own name.
            self.card_file = std::path::absolute(name).ok().filter(|path| path.is_file());
            return self.running(None).map(drop);
        }
        let attached = Attached::new(&self.means, leave, device(self.choice.disk))?;
        self.running(Some(attached)).map(drop)
    }

    fn open<'b>(&'b mut self, opening: &OpenRequest) -> Result<Box<dyn TestBed + 'b>, TrialError> {
        let capacity = capacity(&opening.leave);
        let leave = match &opening.leave {
            WriteGrant::Card { name, model } if self.serves_inside() => {
                let file = self.card_file.as_ref().map(|file| file.display().to_string());
                let name = file.unwrap_or_else(|| name.clone());
                WriteGrant::Card { name, model: model.clone() }
            }
            _ => WriteGrant::Attached {
                serial: device(self.choice.disk).serial(FIRST_DISK),
                capacity,
            },
        };
        let opening = OpenRequest { leave, mount_dir: None, ..opening.clone() };
        self.running(None)?.open(&opening)
    }
}
