//! A virtual machine as a host for trials: a device, image or simulated card of this machine under
//! another kernel, without root.
//!
//! The device is inspected, checked by the guard and locked on this machine, then attached to the
//! virtual machine. A simulated card is served on this machine over NBD, which makes its counters
//! available. With counted instructions, the guest's clock is independent of this machine: the card
//! is then served inside the guest, so that card delays and processor time keep their proportion
//! even if this machine is busy.
//!
//! Limits: the guest uses the programs of this machine. An emulated processor is slow, so its
//! results can only be compared with each other.

mod backing_device;
mod link;
mod machine_findings;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_device::{Bytes, ConsentMethod, Device};
use flashfit_filesystem::{Conditions, FileSystemCatalog};
use flashfit_host::processor::page_bytes;
use flashfit_host::program::find;
use flashfit_host::{SystemRunner, path_text};
use flashfit_option_probe::OptionFindings;
use flashfit_user_error::{ExitClass, Hint, UserSetting};
use flashfit_vm::doctor::{self, DoctorNeeds, Examination};
use flashfit_vm::{Accelerator, ClockSpeed, DiskInterface, Kernel, Vm, VmFacts, VmOptions};

use backing_device::Attached;
use link::VmLink;
use machine_findings::{VmFindingsCache, VmFindingsCase};

use crate::host::{
    Capabilities, Host, LocalHost, OpenRequest, ProbeRequest, ProbeResult, Requirements, WriteGrant,
};
use crate::remote::RemoteHost;
use crate::spec::{VmChoice, VmDisk};
use crate::{TestBed, TrialError};

const FIRST_DISK: usize = 0;
/// In addition to the memory limit of workloads.
const MEMORY_MIB: u32 = 512;
/// Memory for a card served inside the guest, as a multiple of its capacity: its content, and the
/// page cache of the served file.
const CARD_MEMORY: u64 = 2;
const CARD_MEMORY_MIB_MAX: u64 = 8192;
/// Enough for an emulated guest on a busy machine.
const READY_TIMEOUT: Duration = Duration::from_secs(300);
/// Modules in addition to those of the file systems.
const EXTRA_MODULES: [&str; 10] = [
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
/// Programs in addition to mkfs and fsck.
const EXTRA_PROGRAMS: [&str; 8] =
    ["umount", "losetup", "blkid", "partx", "tune2fs", "wipefs", "sync", "btrfs"];

/// Returns the arguments that serve the card of that name on that socket.
pub type NbdCardCommandLine<'a> = Box<dyn Fn(&str, &Path) -> Vec<OsString> + Send + 'a>;

pub struct VmContext<'a> {
    pub runner: &'a SystemRunner,
    pub catalog: &'a FileSystemCatalog,
    /// This machine, where the device is.
    pub local: LocalHost<'a>,
    /// This program, which runs as the agent and serves simulated cards.
    pub program: PathBuf,
    pub card_args: NbdCardCommandLine<'a>,
    /// The version of flashfit.
    pub version: String,
    /// Directory of the user's catalog.
    pub catalog_dir: Option<PathBuf>,
    /// Seed of QEMU's random number generator.
    pub seed: u64,
    /// Memory limit of a workload.
    pub memory_bytes: u64,
    pub data_bytes: u64,
    /// Share of a device that is filled before the workload, in hundredths of a percent.
    pub fill_hundredths: u32,
}

/// A virtual machine, started on first use.
pub struct VmHost<'a> {
    context: VmContext<'a>,
    choice: VmChoice,
    kernel: Option<Kernel>,
    /// The file of a simulated card that is served inside the guest.
    card_file: Option<PathBuf>,
    /// Memory for a card that is served inside the guest.
    card_mib: u32,
    running: Option<RemoteHost<VmLink>>,
}

/// Checks what virtual machines need for trials with the file systems of this catalog.
pub fn examine(
    runner: &SystemRunner,
    catalog: &FileSystemCatalog,
    choice: &VmChoice,
) -> Result<Examination, TrialError> {
    let kernel = chosen_kernel(choice)?;
    let wanted = Requirements::of(catalog);
    let modules = modules(&wanted.kinds);
    let programs = wanted.programs.into_iter().collect();
    Ok(doctor::examine(&DoctorNeeds { kernel, modules, programs }, runner))
}

fn chosen_kernel(choice: &VmChoice) -> Result<Option<Kernel>, TrialError> {
    let given = choice.kernel.as_deref().map(|image| Kernel::given(image, None));
    given.transpose().map_err(|error| TrialError::stopped(&error))
}

fn capacity(grant: &WriteGrant) -> Bytes {
    match grant {
        WriteGrant::Card { model, .. } => model.capacity,
        WriteGrant::Named { device, .. } => device.capacity,
        WriteGrant::Attached { capacity, .. } => *capacity,
    }
}

/// The modules of file systems and their dependencies.
fn modules<'a>(kinds: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let of_kinds = kinds.into_iter().map(|kind| module_of(kind).to_owned());
    let mut names: Vec<String> = of_kinds.chain(EXTRA_MODULES.map(str::to_owned)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The module of a file system. Debian's kernels implement ext2 and ext3 with ext4.
fn module_of(kind: &str) -> &str {
    if ["ext2", "ext3"].contains(&kind) { "ext4" } else { kind }
}

impl<'a> VmHost<'a> {
    /// Does not start the machine yet.
    pub fn new(context: VmContext<'a>, choice: VmChoice) -> Self {
        Self { context, choice, kernel: None, card_file: None, card_mib: 0, running: None }
    }

    /// Whether a simulated card is served inside the guest.
    fn serves_inside(&self) -> bool {
        self.choice.speed_mips.is_some()
    }

    /// Checks whether the chosen disk can have this backing device.
    fn check_disk(&self, grant: &WriteGrant) -> Result<(), TrialError> {
        let refused = |message: String, hint: Hint| TrialError::Stopped {
            message,
            class: ExitClass::Usage,
            hint: Some(hint),
        };
        let disk = self.choice.disk;
        if !disk.is_default() && self.serves_inside() && matches!(grant, WriteGrant::Card { .. }) {
            return Err(refused(
                format!(
                    "a simulated card cannot be attached as {disk}: with counted instructions it \
                     is served inside the virtual machine"
                ),
                Hint::from("omit ").and(UserSetting::VmDisk).and(" or ").and(UserSetting::VmSpeed),
            ));
        }
        match disk_interface(disk).refuses_size(capacity(grant).0) {
            Some(why) => {
                let hint = Hint::from("use a device of such a size, or another ");
                Err(refused(why, hint.and(UserSetting::VmDisk)))
            }
            None => Ok(()),
        }
    }

    /// The guest memory that a card of that capacity needs, in MiB.
    fn card_mib_for(&self, capacity: Bytes) -> Result<u32, TrialError> {
        let filled = capacity.0 / 10_000 * u64::from(self.context.fill_hundredths);
        let written = filled.saturating_add(self.context.data_bytes).min(capacity.0);
        if written.saturating_mul(CARD_MEMORY) >> 20 > CARD_MEMORY_MIB_MAX {
            return Err(TrialError::Stopped {
                message: format!(
                    "the simulated card does not fit into the memory of the virtual machine: {} \
                     would be written, and {} fit",
                    Bytes(written),
                    Bytes::mib(CARD_MEMORY_MIB_MAX / CARD_MEMORY)
                ),
                class: ExitClass::Usage,
                hint: Some(
                    Hint::from("write less (")
                        .and(UserSetting::Fill)
                        .and(", ")
                        .and(UserSetting::DataSize)
                        .and("), or omit ")
                        .and(UserSetting::VmSpeed)
                        .and(": the card is then served outside the virtual machine"),
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
        let kernel = match chosen_kernel(&self.choice)? {
            Some(kernel) => kernel,
            None => Kernel::find(&modules(kinds), self.context.runner)
                .map_err(|error| TrialError::stopped(&error))?,
        };
        self.kernel = Some(kernel.clone());
        Ok(kernel)
    }

    fn kinds(&self) -> Vec<String> {
        Requirements::of(self.context.catalog).kinds.into_iter().collect()
    }

    /// Starts the machine unless it runs.
    fn running(
        &mut self,
        attached: Option<Attached>,
    ) -> Result<&mut RemoteHost<VmLink>, TrialError> {
        if self.running.is_none() {
            let host = self.start(attached)?;
            self.running = Some(host);
        }
        Ok(self.running.as_mut().expect("it was just started"))
    }

    fn start(&mut self, attached: Option<Attached>) -> Result<RemoteHost<VmLink>, TrialError> {
        let kinds = self.kinds();
        let kernel = self.kernel(&kinds)?;
        let wanted = Requirements::of(self.context.catalog);
        let fsck =
            self.context.catalog.filesystems().iter().map(|found| found.fsck.tool.program.clone());
        // mount(8) calls a file system's own helper if there is one.
        let mount = kinds.iter().map(|kind| format!("mount.{kind}"));
        let further = EXTRA_PROGRAMS.map(str::to_owned);
        let workload_mib = u32::try_from(self.context.memory_bytes >> 20).unwrap_or(u32::MAX);
        let options = VmOptions {
            kernel,
            agent: self.context.program.clone(),
            agent_args: vec!["agent".to_owned()],
            programs: wanted.programs.into_iter().chain(fsck).chain(mount).chain(further).collect(),
            modules: modules(&kinds),
            files: self.card_file.iter().map(|file| (file.clone(), file.clone())).collect(),
            disks: attached.iter().map(|attached| attached.disk.clone()).collect(),
            ports: Vec::new(),
            memory_mib: MEMORY_MIB.saturating_add(workload_mib).saturating_add(self.card_mib),
            speed: speed(&self.choice),
            seed: self.context.seed,
            ready_wait: READY_TIMEOUT,
        };
        let interrupt = self.context.runner.interrupt();
        let vm = Vm::start(&options, interrupt).map_err(|error| TrialError::stopped(&error))?;
        let name = name(vm.facts(), self.choice.disk);
        let qemu = vm.id();
        let link = VmLink::new(vm);
        let host = RemoteHost::new(
            link,
            &name,
            interrupt,
            &self.context.version,
            self.context.catalog_dir.as_deref(),
        )?;
        Ok(match attached {
            Some(mut attached) => {
                attached.backing.used_by(qemu);
                host.with_monitor(Box::new(attached.backing))
            }
            None => host,
        })
    }
}

/// QEMU's `-icount shift=N`: an instruction takes 2^N nanoseconds.
fn speed(choice: &VmChoice) -> ClockSpeed {
    match choice.speed_mips {
        None => ClockSpeed::RealTime,
        Some(mips) => {
            let shift = (1000.0 / f64::from(mips.max(1))).log2().round().clamp(0.0, 10.0);
            ClockSpeed::Counted { shift: shift as u8 }
        }
    }
}

pub(crate) fn disk_interface(disk: VmDisk) -> DiskInterface {
    match disk {
        VmDisk::Virtio => DiskInterface::Virtio,
        VmDisk::Sd => DiskInterface::SdCard,
        VmDisk::Emmc => DiskInterface::Emmc,
        VmDisk::Nvme => DiskInterface::Nvme,
        VmDisk::Usb => DiskInterface::Usb,
    }
}

/// The name of the test bed; contains everything that affects whether results are comparable.
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
    let disk = if disk.is_default() { String::new() } else { format!(", disk {disk}") };
    format!("vm (QEMU {}, {how}, {speed}{disk})", facts.qemu)
}

impl Host for VmHost<'_> {
    fn describe(&mut self, requirements: &Requirements) -> Result<Capabilities, TrialError> {
        let kinds: Vec<String> = requirements.kinds.iter().cloned().collect();
        if !self.choice.disk.is_default() {
            let offered = disk_interface(self.choice.disk).check_available(self.context.runner);
            offered.map_err(|error| TrialError::stopped(&error))?;
        }
        let kernel = self.kernel(&kinds)?;
        let has = |kind: &&String| kernel.lacking(&[module_of(kind).to_owned()]).is_empty();
        Ok(Capabilities {
            machine: std::env::consts::ARCH.to_owned(),
            lacks_devices: None,
            lacks_cards: None,
            programs: requirements
                .programs
                .iter()
                .filter(|name| find(name).is_some())
                .cloned()
                .collect(),
            kinds: requirements.kinds.iter().filter(has).cloned().collect(),
            // It is of the same architecture, and its kernel usually that of this machine.
            page_bytes: page_bytes(),
            devices: Vec::new(),
            kernel: kernel.release,
        })
    }

    fn inspect(&mut self, target: &str) -> Result<Device, TrialError> {
        self.context.local.inspect(target)
    }

    fn check_consent(
        &mut self,
        device: &Device,
        consent_method: &ConsentMethod,
    ) -> Result<(), TrialError> {
        self.context.local.check_consent(device, consent_method)
    }

    fn option_findings(
        &mut self,
        filesystem: &str,
        conditions: &Conditions,
        rotational: Option<bool>,
    ) -> Result<OptionFindings, TrialError> {
        let kinds = self.kinds();
        let (kernel, modules) = (self.kernel(&kinds)?, modules(&kinds));
        let found = self.context.catalog.filesystem(filesystem);
        let case = VmFindingsCase {
            filesystem: found.map_err(|error| TrialError::stopped(&error))?,
            conditions,
            rotational,
            kernel: &kernel,
            modules: &modules,
        };
        let cache = VmFindingsCache::of_user();
        let (key, found) = cache.find(self.context.runner, &case);
        if let Some(findings) = found {
            return Ok(findings);
        }
        let findings = self.running(None)?.option_findings(filesystem, conditions, rotational)?;
        cache.store(key, &findings);
        Ok(findings)
    }

    fn probe(&mut self, _: &ProbeRequest) -> Result<ProbeResult, TrialError> {
        Err(TrialError::Stopped {
            message: "a probe in a virtual machine would time the machine, not the device"
                .to_owned(),
            class: ExitClass::Usage,
            hint: Some(
                Hint::from("probe it on this machine (")
                    .and(UserSetting::TestBed)
                    .and(" here) or on a board (")
                    .and(UserSetting::TestBed)
                    .and(" ssh:HOST)"),
            ),
        })
    }

    fn prepare(&mut self, grant: &WriteGrant) -> Result<(), TrialError> {
        self.check_disk(grant)?;
        // A machine that was asked about its options has no device.
        self.running = None;
        if let (WriteGrant::Card { name, model }, true) = (grant, self.serves_inside()) {
            self.card_mib = self.card_mib_for(model.capacity)?;
            // A card's own file keeps its path in the guest.
            self.card_file =
                std::path::absolute(path_text::from_text(name)).ok().filter(|path| path.is_file());
            return self.running(None).map(drop);
        }
        let attached = Attached::new(&self.context, grant, disk_interface(self.choice.disk))?;
        self.running(Some(attached)).map(drop)
    }

    fn open<'b>(&'b mut self, request: &OpenRequest) -> Result<Box<dyn TestBed + 'b>, TrialError> {
        let capacity = capacity(&request.grant);
        let grant = match &request.grant {
            WriteGrant::Card { name, model } if self.serves_inside() => {
                let file = self.card_file.as_deref().map(path_text::to_text);
                let name = file.unwrap_or_else(|| name.clone());
                WriteGrant::Card { name, model: model.clone() }
            }
            _ => WriteGrant::Attached {
                serial: disk_interface(self.choice.disk).serial(FIRST_DISK),
                capacity,
            },
        };
        let request = OpenRequest { grant, mount_dir: None, ..request.clone() };
        self.running(None)?.open(&request)
    }
}
