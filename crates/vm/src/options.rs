//! What a virtual machine is made of.

use std::path::PathBuf;
use std::time::Duration;

use flashfit_host::{Program, Runner};

use crate::kernel::Kernel;
use crate::{VmError, architecture, vm};

/// What a virtual machine is made of, and what runs in it.
#[derive(Debug, Clone)]
pub struct VmOptions {
    /// The kernel that it boots.
    pub kernel: Kernel,
    /// The program to run in it, which comes in as `/bin/flashfit`; its libraries come too.
    pub agent: PathBuf,
    /// That program's arguments.
    pub agent_args: Vec<String>,
    /// Programs of the host to bring in, as [`flashfit_host::program::find`] finds them, each with
    /// its libraries. Those that are not there are left out and listed in
    /// [`crate::VmFacts::lacking_programs`].
    pub programs: Vec<String>,
    /// Kernel modules to bring in with all that they depend on. Only what the disks and the
    /// channel need is loaded at boot; the kernel loads a file system's when it is mounted.
    pub modules: Vec<String>,
    /// Further files or folders of the host, each with its place in the guest.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Disks, which the guest finds as `/dev/flashfit/0` and so on, in this order.
    pub disks: Vec<Disk>,
    /// Ways into the guest from here. With any it has a network card with the address 10.0.2.15;
    /// the guest itself reaches nobody through it.
    pub ports: Vec<Port>,
    /// The guest's memory in MiB, beside the memory that the files brought in take.
    pub memory_mib: u32,
    /// How the guest's clock goes.
    pub speed: ClockSpeed,
    /// What the guest's random numbers begin with.
    pub seed: u64,
    /// How long to wait for the guest to be ready.
    pub ready_wait: Duration,
}

/// A TCP port of the loopback address here that leads to one of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// The port of 127.0.0.1. QEMU listens there from its start on, and closes connections that
    /// nobody in the guest takes.
    pub here: u16,
    /// The port in the guest.
    pub guest: u16,
}

/// A disk of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Where its bytes are.
    pub source: DiskSource,
    /// As what the guest sees it.
    pub device: DiskInterface,
    /// Its logical and physical sector in bytes: 512 or 4096.
    pub sector_bytes: u32,
    /// The unit in which the guest is told that it discards; without it, a sector.
    pub discard_bytes: Option<u32>,
}

impl Disk {
    /// What a server gives over NBD on a unix socket, as a device with sectors of 512 bytes.
    pub fn nbd(socket: impl Into<PathBuf>, device: DiskInterface) -> Self {
        Self::new(DiskSource::Nbd { socket: socket.into() }, device)
    }

    fn new(source: DiskSource, device: DiskInterface) -> Self {
        Self { source, device, sector_bytes: 512, discard_bytes: None }
    }

    /// A file or block device of the host, as a device with sectors of 512 bytes.
    pub fn file(path: impl Into<PathBuf>, read_only: bool, device: DiskInterface) -> Self {
        Self::new(DiskSource::File { path: path.into(), read_only }, device)
    }
}

/// Where a disk's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskSource {
    /// Served over NBD, with an empty export name. A server that dies is an I/O error in the
    /// guest, not a wait.
    Nbd {
        /// The unix socket.
        socket: PathBuf,
    },
    /// A raw image or a block device, past the host's page cache.
    File {
        /// Which.
        path: PathBuf,
        /// Whether the guest may only read it.
        read_only: bool,
    },
}

/// As what the guest sees a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskInterface {
    /// `/dev/vda`: passes requests on as they are, flushes and discards included.
    Virtio,
    /// `/dev/nvme0n1`: as virtio, with forced unit access and an NVMe health log.
    Nvme,
    /// `/dev/mmcblk0` with an SD card's registers. QEMU's passes on 512 bytes at a time and never a
    /// flush, and the size must be a power of two: for registers, not for figures.
    SdCard,
    /// `/dev/mmcblk0` with an eMMC's registers; QEMU 10.2 or later (from 9.1 on it has such chips,
    /// but only soldered to boards).
    Emmc,
    /// `/dev/sda` on a USB reader; takes no discards.
    Usb,
}

impl DiskInterface {
    /// The name by which the guest's start script knows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::Nvme => "nvme",
            Self::SdCard | Self::Emmc => "mmc",
            Self::Usb => "usb",
        }
    }

    /// QEMU's name for it.
    pub(crate) fn qemu_name(self) -> &'static str {
        match self {
            Self::Virtio => "virtio-blk-pci",
            Self::Nvme => "nvme",
            Self::SdCard => "sd-card",
            Self::Emmc => "emmc",
            Self::Usb => "usb-storage",
        }
    }

    /// The serial number that the guest reads of disk `number`. QEMU's cards all have one and the
    /// same.
    pub fn serial(self, number: usize) -> String {
        match self {
            Self::Virtio | Self::Nvme | Self::Usb => format!("flashfit{number}"),
            Self::SdCard | Self::Emmc => "0xdeadbeef".to_owned(),
        }
    }

    /// Why a disk of this size cannot be such a device, if so.
    ///
    /// Source: QEMU's `hw/sd/sd.c`, which holds eMMCs above 2 GiB to whole sectors only.
    pub fn refuses_size(self, bytes: u64) -> Option<String> {
        const EMMC_BY_SECTOR_FROM_BYTES: u64 = 2 << 30;
        match self {
            Self::Emmc if bytes >= EMMC_BY_SECTOR_FROM_BYTES => None,
            Self::SdCard | Self::Emmc if !bytes.is_power_of_two() => Some(format!(
                "QEMU's {} has a power of two as its size, and this medium has {bytes} bytes",
                self.qemu_name()
            )),
            _ => None,
        }
    }

    /// Whether QEMU has such a device.
    ///
    /// # Errors
    /// [`VmError::NoDevice`] when it has not; [`VmError::Program`] when there is no QEMU.
    pub fn is_offered(self, runner: &dyn Runner) -> Result<(), VmError> {
        let qemu = architecture::host().qemu;
        let help = Program::new(qemu).args(["-device", "help"]);
        let listed = runner.run_checked(&help)?.stdout;
        if listed.contains(&format!("name \"{}\"", self.qemu_name())) {
            return Ok(());
        }
        let (version, device) = (vm::version(qemu, runner), self.qemu_name());
        Err(VmError::NoDevice { device, version })
    }

    /// The modules that drive it.
    pub(crate) fn modules(self) -> &'static [&'static str] {
        match self {
            Self::Virtio => &["virtio_blk"],
            Self::Nvme => &["nvme"],
            Self::SdCard | Self::Emmc => &["sdhci_pci", "mmc_block"],
            Self::Usb => &["xhci_pci", "usb_storage", "sd_mod"],
        }
    }
}

/// How the guest's clock goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockSpeed {
    /// With the host's; how fast the processor is then depends on the host and what else it does.
    RealTime,
    /// By instructions, emulated, on one processor. While the guest has nothing to do its clock
    /// skips to what it waits for: all that is timed inside the guest, a simulated card that it
    /// serves itself included, comes out the same however busy the host is. With disks from
    /// outside or ports, whose delays are real time, idle time passes as on the host instead, and
    /// figures depend on the host: nothing makes the two clocks go in proportion while the guest
    /// works.
    Counted {
        /// Each instruction takes `2^shift` nanoseconds: 0 (a thousand million a second) to 10 (a
        /// million).
        shift: u8,
    },
}

#[cfg(test)]
mod tests {
    use flashfit_host::ProgramOutcome;
    use flashfit_host::program::ScriptedRunner;
    use flashfit_user_error::UserError;

    use super::*;

    #[test]
    fn a_device_that_qemu_has_not_is_said_before_anything_starts() {
        let stdout = "Storage devices:\nname \"sd-card\", bus sd-bus\n".to_owned();
        let outcome = ProgramOutcome { code: Some(0), stdout, ..ProgramOutcome::default() };
        let runner = ScriptedRunner::new().answer(architecture::host().qemu, outcome);
        assert!(DiskInterface::SdCard.is_offered(&runner).is_ok());
        let error = DiskInterface::Emmc.is_offered(&runner).expect_err("too old");
        assert!(error.to_string().contains("has no device `emmc`"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("QEMU 10.2")));
    }

    #[test]
    fn cards_come_in_powers_of_two() {
        assert!(DiskInterface::SdCard.refuses_size(512 << 20).is_none());
        assert!(DiskInterface::SdCard.refuses_size(160 << 20).is_some());
        assert!(DiskInterface::SdCard.refuses_size(3 << 30).is_some());
        assert!(DiskInterface::Emmc.refuses_size(160 << 20).is_some());
        assert!(DiskInterface::Emmc.refuses_size(3 << 30).is_none());
        assert!(DiskInterface::Nvme.refuses_size(160 << 20).is_none());
    }
}
