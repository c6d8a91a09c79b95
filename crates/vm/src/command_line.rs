//! Builds QEMU's command line.
//!
//! A failed request is an I/O error in the guest (`werror`, `rerror`) and does not stop the
//! machine; a lost card is not reconnected (`reconnect-delay` 0). Discards and flushes are passed
//! through and the host's page cache is bypassed, as for a real card. Source: QEMU's manual page,
//! 7.2.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use serde_json::{Value, json};

use crate::VmError;
use crate::architecture::Architecture;
use crate::facts::Accelerator;
use crate::initramfs::Initramfs;
use crate::kvm;
use crate::options::{ClockSpeed, Disk, DiskInterface, DiskSource, Port, VmOptions};

/// Sockets and logs in the machine's directory.
pub(crate) const CHANNEL: &str = "channel";
pub(crate) const MONITOR: &str = "monitor";
pub(crate) const CONSOLE: &str = "console";

const MAX_SHIFT: u8 = 10;
/// The guest in QEMU's user-mode network.
const GUEST_ADDRESS: &str = "10.0.2.15";
const NETWORK_BITS: u8 = 24;

/// What is determined at the start, in addition to the options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineDecisions<'a> {
    pub image: &'a Path,
    pub initramfs: &'a Initramfs,
    /// Modules that the guest loads at boot.
    pub boot_modules: &'a [&'a str],
    pub accelerator: Accelerator,
    pub architecture: Architecture,
    /// Directory of sockets and logs.
    pub folder: &'a Path,
}

/// The arguments of `qemu-system-…`.
pub(crate) fn arguments(
    options: &VmOptions,
    decided: &MachineDecisions<'_>,
) -> Result<Vec<String>, VmError> {
    let MachineDecisions { initramfs, architecture, folder, .. } = *decided;
    check(options)?;
    let mut args = Args::default();
    args.flag("-nodefaults").flag("-no-user-config").flag("-no-reboot");
    args.pair("-name", "flashfit-vm").pair("-display", "none");
    args.pair("-machine", architecture.machine);
    processor(&mut args, options, decided);
    args.pair("-m", format!("{}M", memory_mib(options, initramfs.bytes)));
    args.pair("-seed", (options.seed & 0xffff_ffff).to_string());
    args.pair("-kernel", escaped(decided.image));
    args.pair("-initrd", escaped(&initramfs.file));
    args.pair("-append", kernel_words(options, decided.boot_modules, architecture));
    let path_of = |name| escaped(&folder.join(name));
    args.pair("-chardev", format!("file,id=console,path={}", path_of(CONSOLE)));
    args.pair("-serial", "chardev:console");
    args.pair("-device", "virtio-serial-pci");
    for (id, name) in [("channel", CHANNEL), ("monitor", MONITOR)] {
        let path = path_of(name);
        args.pair("-chardev", format!("socket,id={id},path={path},server=on,wait=off"));
    }
    args.pair("-device", "virtserialport,chardev=channel,name=flashfit");
    args.pair("-mon", "chardev=monitor,mode=control");
    if options.disks.iter().any(|disk| disk.device == DiskInterface::Usb) {
        args.pair("-device", "qemu-xhci,id=usb");
    }
    network(&mut args, options);
    for (number, disk) in options.disks.iter().enumerate() {
        args.pair("-blockdev", source(disk, number)?.to_string());
        device(&mut args, disk, number);
    }
    Ok(args.0)
}

#[derive(Default)]
struct Args(Vec<String>);

impl Args {
    fn flag(&mut self, flag: &str) -> &mut Self {
        self.0.push(flag.to_owned());
        self
    }

    fn pair(&mut self, flag: &str, value: impl Into<String>) -> &mut Self {
        self.flag(flag);
        self.0.push(value.into());
        self
    }
}

fn check(options: &VmOptions) -> Result<(), VmError> {
    let wrong = |what: String| Err(VmError::Options { what });
    if let ClockSpeed::Counted { shift } = options.speed {
        if shift > MAX_SHIFT {
            return wrong(format!("an instruction takes at most 2^{MAX_SHIFT} ns, not 2^{shift}"));
        }
    }
    for disk in &options.disks {
        let sector = disk.sector_bytes;
        if !(512..=4096).contains(&sector) || !sector.is_power_of_two() {
            return wrong(format!("a disk cannot have sectors of {sector} bytes"));
        }
        let path = match &disk.source {
            DiskSource::Nbd { socket } => socket,
            DiskSource::File { path, .. } => path,
        };
        if path.to_str().is_none() {
            return wrong(format!("the path of a disk is not UTF-8: {}", path.display()));
        }
    }
    Ok(())
}

fn processor(args: &mut Args, options: &VmOptions, decided: &MachineDecisions<'_>) {
    let emulated = decided.architecture.emulated;
    match (options.speed, decided.accelerator) {
        (ClockSpeed::RealTime, Accelerator::Kvm) => {
            args.pair("-accel", "kvm").pair("-cpu", kvm::PROCESSOR);
        }
        (ClockSpeed::RealTime, Accelerator::Tcg) => {
            args.pair("-accel", "tcg").pair("-cpu", emulated);
        }
        (ClockSpeed::Counted { shift }, _) => {
            args.pair("-accel", "tcg,thread=single").pair("-cpu", emulated);
            // With `sleep`, idle time passes in real time; without, it is skipped.
            let is_alone = options.disks.is_empty() && options.ports.is_empty();
            let sleep = if is_alone { "off" } else { "on" };
            args.pair("-icount", format!("shift={shift},sleep={sleep}"));
            args.pair("-rtc", "clock=vm");
        }
    }
    args.pair("-smp", "1");
}

/// The guest's memory, including the files that stay in it.
pub(crate) fn memory_mib(options: &VmOptions, initramfs_bytes: u64) -> u64 {
    u64::from(options.memory_mib) + initramfs_bytes.div_ceil(1 << 21) * 2
}

/// Disables timer checks and watchdogs, which fail on an emulated processor if the host is busy
/// ("IO-APIC + timer doesn't work", stall warnings). Source:
/// Documentation/admin-guide/kernel-parameters.txt.
const STEADY_CLOCKS: &str = "no_timer_check nowatchdog rcupdate.rcu_cpu_stall_suppress=1";

/// The kernel's command line. Mitigations only cost time in a guest without secrets; randomized
/// addresses would make boots differ.
fn kernel_words(options: &VmOptions, boot_modules: &[&str], architecture: Architecture) -> String {
    let disks: Vec<&str> = options.disks.iter().map(|disk| disk.device.name()).collect();
    let mut words = vec![
        format!("console={}", architecture.console),
        "quiet panic=-1 rootfstype=ramfs".to_owned(),
        "nokaslr norandmaps mitigations=off".to_owned(),
        STEADY_CLOCKS.to_owned(),
        format!("flashfit.modules={}", boot_modules.join(",")),
    ];
    if !disks.is_empty() {
        words.push(format!("flashfit.disks={}", disks.join(",")));
    }
    if !options.ports.is_empty() {
        words.push(format!("flashfit.address={GUEST_ADDRESS}/{NETWORK_BITS}"));
    }
    words.join(" ")
}

/// QEMU's user-mode network, with the guest as its only member.
fn network(args: &mut Args, options: &VmOptions) {
    if options.ports.is_empty() {
        return;
    }
    let forward = |port: &Port| {
        format!(",hostfwd=tcp:127.0.0.1:{}-{GUEST_ADDRESS}:{}", port.here, port.guest)
    };
    let forwards: String = options.ports.iter().map(forward).collect();
    args.pair("-netdev", format!("user,id=network,restrict=on{forwards}"));
    // An empty `romfile` avoids the dependency on the boot ROM package.
    args.pair("-device", "virtio-net-pci,netdev=network,romfile=");
}

fn source(disk: &Disk, number: usize) -> Result<Value, VmError> {
    let name = format!("source{number}");
    Ok(match &disk.source {
        DiskSource::Nbd { socket } => json!({
            "driver": "nbd",
            "node-name": name,
            "server": { "type": "unix", "path": socket },
            "reconnect-delay": 0,
            "discard": "unmap",
            "cache": { "direct": true, "no-flush": false },
        }),
        DiskSource::File { path, read_only } => {
            let facts = std::fs::metadata(path).map_err(VmError::file("use the disk", path))?;
            let is_device = facts.file_type().is_block_device();
            json!({
                "driver": if is_device { "host_device" } else { "file" },
                "node-name": name,
                "filename": path,
                "read-only": read_only,
                "discard": "unmap",
                "cache": { "direct": takes_direct(path), "no-flush": false },
            })
        }
    })
}

/// Some file systems (tmpfs before Linux 6.6) do not support direct I/O.
fn takes_direct(path: &Path) -> bool {
    File::options().read(true).custom_flags(libc::O_DIRECT).open(path).is_ok()
}

fn device(args: &mut Args, disk: &Disk, number: usize) {
    let common = format!("drive=source{number}");
    let serial = format!("serial=flashfit{number}");
    let sector = disk.sector_bytes;
    let mut blocks = format!("logical_block_size={sector},physical_block_size={sector}");
    if let Some(bytes) = disk.discard_bytes {
        blocks += &format!(",discard_granularity={bytes}");
    }
    let errors = "werror=report,rerror=report";
    match disk.device {
        DiskInterface::Virtio => {
            args.pair("-device", format!("virtio-blk-pci,{common},{serial},{blocks},{errors}"));
        }
        DiskInterface::Nvme => {
            args.pair("-device", format!("nvme,{common},{serial},{blocks}"));
        }
        DiskInterface::SdCard | DiskInterface::Emmc => {
            let card = disk.device.qemu_name();
            args.pair("-device", "sdhci-pci").pair("-device", format!("{card},{common}"));
        }
        DiskInterface::Ata => {
            let controller = format!("ahci{number}");
            args.pair("-device", format!("ahci,id={controller}"));
            let disk = format!("ide-hd,bus={controller}.0,{common},{serial},{blocks},{errors}");
            args.pair("-device", disk);
        }
        DiskInterface::Usb => {
            let usb = "usb-storage,bus=usb.0";
            args.pair("-device", format!("{usb},{common},{serial},{blocks},{errors}"));
        }
    }
}

/// A path in QEMU's option syntax, where commas are doubled.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kernel::Kernel;

    fn options(disks: Vec<Disk>, speed: ClockSpeed) -> VmOptions {
        VmOptions {
            kernel: Kernel {
                image: "/boot/vmlinuz".into(),
                modules: "/lib/modules/6".into(),
                release: "6".into(),
            },
            agent: "/bin/true".into(),
            agent_args: Vec::new(),
            programs: Vec::new(),
            modules: Vec::new(),
            files: Vec::new(),
            disks,
            ports: Vec::new(),
            memory_mib: 512,
            speed,
            seed: 7,
            ready_wait: Duration::from_secs(1),
        }
    }

    fn line(disks: Vec<Disk>, speed: ClockSpeed) -> Result<String, VmError> {
        line_of(&options(disks, speed))
    }

    fn line_of(options: &VmOptions) -> Result<String, VmError> {
        let initramfs = Initramfs {
            file: "/cache/a,b.cpio".into(),
            bytes: (3 << 20) + 1,
            lacking_programs: Vec::new(),
            lacking_modules: Vec::new(),
        };
        let decided = MachineDecisions {
            image: &options.kernel.image,
            initramfs: &initramfs,
            boot_modules: &["virtio_pci"],
            accelerator: Accelerator::Tcg,
            architecture: crate::architecture::host(),
            folder: Path::new("/tmp/vm"),
        };
        arguments(options, &decided).map(|args| args.join(" "))
    }

    #[test]
    fn requests_to_a_card_over_nbd_are_passed_through() {
        let line =
            line(vec![Disk::nbd("/tmp/card.sock", DiskInterface::Virtio)], ClockSpeed::RealTime)
                .unwrap();
        for expected in [
            "\"path\":\"/tmp/card.sock\"",
            "\"reconnect-delay\":0",
            "\"discard\":\"unmap\"",
            "virtio-blk-pci,drive=source0,serial=flashfit0,logical_block_size=512",
            "werror=report",
            "flashfit.disks=virtio",
            "-m 516M",
            "a,,b.cpio",
        ] {
            assert!(line.contains(expected), "{expected} in {line}");
        }
        assert!(!line.contains("-icount"));
    }

    #[test]
    fn counted_instructions_are_emulated() {
        let line = line(Vec::new(), ClockSpeed::Counted { shift: 3 }).unwrap();
        assert!(line.contains("-icount shift=3,sleep=off"), "{line}");
        assert!(line.contains("thread=single") && !line.contains("flashfit.disks"), "{line}");
    }

    #[test]
    fn an_emulated_processor_copies_words_not_bytes() {
        for speed in [ClockSpeed::RealTime, ClockSpeed::Counted { shift: 0 }] {
            let line = line(Vec::new(), speed).unwrap();
            let is_off = line.contains("-cpu max,erms=off,fsrm=off");
            assert!(is_off || cfg!(not(target_arch = "x86_64")), "{line}");
        }
    }

    #[test]
    fn idle_time_is_not_skipped_with_a_disk() {
        let disks = vec![Disk::nbd("/tmp/card.sock", DiskInterface::Virtio)];
        let line = line(disks, ClockSpeed::Counted { shift: 0 }).unwrap();
        assert!(line.contains("-icount shift=0,sleep=on"), "{line}");
    }

    #[test]
    fn invalid_options_are_refused() {
        assert!(line(Vec::new(), ClockSpeed::Counted { shift: 11 }).is_err());
        let mut disk = Disk::nbd("/x", DiskInterface::Virtio);
        disk.sector_bytes = 513;
        assert!(line(vec![disk], ClockSpeed::RealTime).is_err());
        let gone = Disk::file("/nowhere/card.img", false, DiskInterface::Usb);
        assert!(
            line(vec![gone], ClockSpeed::RealTime).unwrap_err().to_string().contains("/nowhere")
        );
    }

    #[test]
    fn ports_are_forwarded_into_the_guest_only() {
        let mut options = options(Vec::new(), ClockSpeed::Counted { shift: 0 });
        assert!(!line_of(&options).unwrap().contains("net"));
        options.ports = vec![Port { here: 2201, guest: 22 }, Port { here: 8001, guest: 80 }];
        let line = line_of(&options).unwrap();
        let forwards = "restrict=on,hostfwd=tcp:127.0.0.1:2201-10.0.2.15:22,hostfwd=tcp:";
        for expected in [forwards, "flashfit.address=10.0.2.15/24", "sleep=on"] {
            assert!(line.contains(expected), "{expected} in {line}");
        }
        assert_eq!(line.matches("virtio-net-pci").count(), 1, "{line}");
    }

    #[test]
    fn usb_disks_share_one_controller() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let disk = Disk::file(file, true, DiskInterface::Usb);
        let line = line(vec![disk.clone(), disk], ClockSpeed::RealTime).unwrap();
        assert_eq!(line.matches("qemu-xhci").count(), 1);
        assert_eq!(line.matches("usb-storage,bus=usb.0").count(), 2);
        assert!(line.contains("\"read-only\":true"));
    }
}
