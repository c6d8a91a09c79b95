//! The configuration of a virtual machine.

use std::path::PathBuf;
use std::time::Duration;

use flashfit_host::{Program, Runner};

use crate::kernel::Kernel;
use crate::{VmError, architecture, vm};

#[derive(Debug, Clone)]
pub struct VmOptions {
    pub kernel: Kernel,
    /// The program to run, copied with its libraries to `/bin/flashfit`.
    pub agent: PathBuf,
    pub agent_args: Vec<String>,
    /// Programs of the host to copy with their libraries, found by
    /// [`flashfit_host::program::find`]. Missing ones are listed in
    /// [`crate::VmFacts::lacking_programs`].
    pub programs: Vec<String>,
    /// Kernel modules to copy with their dependencies. Only those for the disks and the channel are
    /// loaded at boot; the kernel loads a file system's module on mount.
    pub modules: Vec<String>,
    /// Other files or directories of the host, with their paths in the guest.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Appear in the guest as `/dev/flashfit/0` and so on.
    pub disks: Vec<Disk>,
    /// Forwarded ports. If there are any, the guest has a network card with the address 10.0.2.15,
    /// which cannot be used for outgoing connections.
    pub ports: Vec<Port>,
    /// The guest's memory in MiB, without the memory for the copied files.
    pub memory_mib: u32,
    pub speed: ClockSpeed,
    /// Seed of the guest's random numbers.
    pub seed: u64,
    /// How long the guest may take to boot.
    pub ready_wait: Duration,
}

/// A TCP port of the host's loopback address, forwarded to the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// The port on 127.0.0.1. QEMU listens from its start and closes connections that no program in
    /// the guest accepts.
    pub here: u16,
    /// The port in the guest.
    pub guest: u16,
}

/// A disk of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    pub source: DiskSource,
    pub device: DiskInterface,
    /// Logical and physical sector size: 512 or 4096.
    pub sector_bytes: u32,
    /// Discard granularity shown to the guest; `None` means a sector.
    pub discard_bytes: Option<u32>,
}

impl Disk {
    /// An NBD export on a Unix socket, with sectors of 512 bytes.
    pub fn nbd(socket: impl Into<PathBuf>, device: DiskInterface) -> Self {
        Self::new(DiskSource::Nbd { socket: socket.into() }, device)
    }

    fn new(source: DiskSource, device: DiskInterface) -> Self {
        Self { source, device, sector_bytes: 512, discard_bytes: None }
    }

    /// A file or block device of the host, with sectors of 512 bytes.
    pub fn file(path: impl Into<PathBuf>, read_only: bool, device: DiskInterface) -> Self {
        Self::new(DiskSource::File { path: path.into(), read_only }, device)
    }
}

/// The storage of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskSource {
    /// An NBD server with an empty export name. If the server dies, the guest gets I/O errors.
    Nbd { socket: PathBuf },
    /// A raw image or a block device, without the host's page cache.
    File { path: PathBuf, read_only: bool },
}

/// How the guest sees a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskInterface {
    /// `/dev/vda`: passes requests through unchanged, including flushes and discards.
    Virtio,
    /// `/dev/nvme0n1`: as virtio, with forced unit access and an NVMe health log.
    Nvme,
    /// `/dev/mmcblk0` with the registers of an SD card. QEMU splits requests into 512 bytes and
    /// drops flushes, so its timing means little. The size must be a power of two.
    SdCard,
    /// `/dev/mmcblk0` with the registers of an eMMC. Needs QEMU 10.2; QEMU 9.1 has eMMCs only on
    /// some boards.
    Emmc,
    /// `/dev/sda` on a USB reader; does not support discards.
    Usb,
    /// `/dev/sda` on a SATA controller, with SMART attributes.
    Ata,
}

impl DiskInterface {
    /// Name in the guest's init script.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::Nvme => "nvme",
            Self::SdCard | Self::Emmc => "mmc",
            Self::Usb => "usb",
            Self::Ata => "ata",
        }
    }

    /// Name of the device in QEMU.
    pub(crate) fn qemu_name(self) -> &'static str {
        match self {
            Self::Virtio => "virtio-blk-pci",
            Self::Nvme => "nvme",
            Self::SdCard => "sd-card",
            Self::Emmc => "emmc",
            Self::Usb => "usb-storage",
            Self::Ata => "ide-hd",
        }
    }

    /// The serial number of disk `number` in the guest. All of QEMU's cards have the same one.
    pub fn serial(self, number: usize) -> String {
        match self {
            Self::Virtio | Self::Nvme | Self::Usb | Self::Ata => format!("flashfit{number}"),
            Self::SdCard | Self::Emmc => "0xdeadbeef".to_owned(),
        }
    }

    /// Why a device of this size cannot be attached this way, if so.
    ///
    /// Source: QEMU's `hw/sd/sd.c`; eMMCs above 2 GiB only need whole sectors.
    pub fn refuses_size(self, bytes: u64) -> Option<String> {
        const EMMC_BY_SECTOR_FROM_BYTES: u64 = 2 << 30;
        match self {
            Self::Emmc if bytes >= EMMC_BY_SECTOR_FROM_BYTES => None,
            Self::SdCard | Self::Emmc if !bytes.is_power_of_two() => Some(format!(
                "QEMU's {} needs a power of two as its size, and this device has {bytes} bytes",
                self.qemu_name()
            )),
            _ => None,
        }
    }

    /// Checks whether this QEMU has the device.
    ///
    /// # Errors
    /// [`VmError::NoDevice`] if it does not; [`VmError::Program`] if QEMU is missing.
    pub fn check_available(self, runner: &dyn Runner) -> Result<(), VmError> {
        let qemu = architecture::host().qemu;
        let help = Program::new(qemu).args(["-device", "help"]);
        let listed = runner.run_checked(&help)?.stdout;
        if listed.contains(&format!("name \"{}\"", self.qemu_name())) {
            return Ok(());
        }
        let (version, device) = (vm::version(qemu, runner), self.qemu_name());
        Err(VmError::NoDevice { device, version })
    }

    /// The modules of its driver.
    pub(crate) fn modules(self) -> &'static [&'static str] {
        match self {
            Self::Virtio => &["virtio_blk"],
            Self::Nvme => &["nvme"],
            Self::SdCard | Self::Emmc => &["sdhci_pci", "mmc_block"],
            Self::Usb => &["xhci_pci", "usb_storage", "sd_mod"],
            Self::Ata => &["ahci", "sd_mod"],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockSpeed {
    /// Follows the host's clock; the processor speed depends on the host and its load.
    RealTime,
    /// Counts instructions of one emulated processor. While the guest is idle, its clock skips to
    /// the next timer, so everything timed inside the guest, such as a simulated card that it
    /// serves, does not depend on the host's load. With disks or ports, whose delays are real time,
    /// idle time passes as on the host, and results depend on the host.
    Counted {
        /// An instruction takes `2^shift` ns: 0 (1000 million per second) to 10 (1 million).
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
    fn a_device_that_qemu_lacks_is_reported_before_the_start() {
        let stdout = "Storage devices:\nname \"sd-card\", bus sd-bus\n".to_owned();
        let outcome = ProgramOutcome { code: Some(0), stdout, ..ProgramOutcome::default() };
        let runner = ScriptedRunner::new().answer(architecture::host().qemu, outcome);
        assert!(DiskInterface::SdCard.check_available(&runner).is_ok());
        let error = DiskInterface::Emmc.check_available(&runner).expect_err("too old");
        assert!(error.to_string().contains("has no device `emmc`"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("QEMU 10.2")));
    }

    #[test]
    fn card_sizes_must_be_powers_of_two() {
        assert!(DiskInterface::SdCard.refuses_size(512 << 20).is_none());
        assert!(DiskInterface::SdCard.refuses_size(160 << 20).is_some());
        assert!(DiskInterface::SdCard.refuses_size(3 << 30).is_some());
        assert!(DiskInterface::Emmc.refuses_size(160 << 20).is_some());
        assert!(DiskInterface::Emmc.refuses_size(3 << 30).is_none());
        assert!(DiskInterface::Nvme.refuses_size(160 << 20).is_none());
    }
}
