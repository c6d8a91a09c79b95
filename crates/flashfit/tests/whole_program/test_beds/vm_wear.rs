//! Wear counters of QEMU's drives, read and measured by the command inside a virtual machine.
//! QEMU's NVMe drive counts what is written to it; its ATA drive has a health log and no wear;
//! Debian 12's QEMU has no eMMC.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use flashfit_host::SystemRunner;
use flashfit_host::interrupt::Interrupt;
use flashfit_host::program::find;
use flashfit_test_support::TestNeed;
use flashfit_vm::{ClockSpeed, Disk, DiskInterface, Kernel, Vm, VmOptions};
use serde_json::Value;

use super::vm::lacking;
use crate::fixture::{FLASHFIT, skip};

/// Runs each line and answers with its output on one line.
const SHELL: &str =
    "#!/bin/sh\nwhile read -r line; do eval \"$line\" 2>&1 | tr '\\n' '\\t'; echo; done\n";
const ANSWER_WAIT: Duration = Duration::from_secs(120);

const PROGRAMS: [&str; 18] = [
    FLASHFIT,
    "nvme",
    "smartctl",
    "mkfs.ext4",
    "tune2fs",
    "e2fsck",
    "dumpe2fs",
    "mount",
    "umount",
    "blkid",
    "blkdiscard",
    "sfdisk",
    "partx",
    "wipefs",
    "losetup",
    "sync",
    "fio",
    "dd",
];

struct Guest {
    _folder: tempfile::TempDir,
    vm: Vm,
    shell: BufReader<UnixStream>,
}

impl Guest {
    /// A guest with these disks of 64 MiB; `None` if this machine cannot run it.
    fn with(disks: &[DiskInterface]) -> Option<Self> {
        if skip(lacking(&["nvme", "ahci", "sd_mod", "ext4"])) {
            return None;
        }
        let tools = ["nvme", "smartctl"];
        let missing = tools.into_iter().find(|name| find(name).is_none());
        let missing = missing.map(|name| TestNeed::Tool.missing(format!("there is no {name}")));
        if flashfit_test_support::skip(missing) {
            return None;
        }
        let unavailable = disks
            .iter()
            .find_map(|disk| disk.check_available(&SystemRunner::default()).err())
            .map(|error| TestNeed::Tool.missing(error.to_string()));
        if flashfit_test_support::skip(unavailable) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let agent = folder.path().join("shell");
        std::fs::write(&agent, SHELL).unwrap();
        std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
        let image = |number: usize| {
            let path = folder.path().join(format!("disk{number}"));
            std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
            path
        };
        let modules = ["ext4", "loop"].map(str::to_owned).to_vec();
        let options = VmOptions {
            kernel: Kernel::find(&modules, &SystemRunner::default()).unwrap(),
            agent,
            agent_args: Vec::new(),
            programs: PROGRAMS.map(str::to_owned).to_vec(),
            modules,
            files: Vec::new(),
            disks: disks
                .iter()
                .enumerate()
                .map(|(number, disk)| Disk::file(image(number), false, *disk))
                .collect(),
            ports: Vec::new(),
            memory_mib: 512,
            speed: ClockSpeed::RealTime,
            seed: 1,
            ready_wait: Duration::from_secs(300),
        };
        let vm = Vm::start(&options, &Interrupt::new()).unwrap();
        let channel = vm.channel().unwrap();
        channel.set_read_timeout(Some(ANSWER_WAIT)).unwrap();
        Some(Self { _folder: folder, vm, shell: BufReader::new(channel) })
    }

    fn run(&mut self, command: &str) -> String {
        self.shell.get_mut().write_all(format!("{command}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.shell.read_line(&mut line).unwrap();
        line.trim_end().replace('\t', "\n")
    }

    /// Runs flashfit there and returns the data of its JSON document.
    #[track_caller]
    fn data(&mut self, arguments: &str) -> Value {
        let said = self.run(&format!("{FLASHFIT} {arguments} --json"));
        let document: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
        document["data"].clone()
    }

    fn stop(self) {
        self.vm.stop().unwrap();
    }
}

/// The counter of that name.
#[track_caller]
fn value(reading: &Value, id: &str) -> u64 {
    let counters = reading["counters"].as_array().unwrap();
    let counter = counters.iter().find(|counter| counter["id"] == id);
    counter.unwrap_or_else(|| panic!("no {id}: {reading:#}"))["value"].as_u64().unwrap()
}

#[test]
#[ignore = "full: boots virtual machines"]
fn qemus_nvme_drive_counts_what_is_written() {
    let Some(mut guest) = Guest::with(&[DiskInterface::Nvme]) else { return };
    let before = guest.data("wear show /dev/nvme0n1");
    guest.run("dd if=/dev/zero of=/dev/nvme0n1 bs=1M count=50 oflag=direct");
    let after = guest.data("wear show /dev/nvme0n1");
    for (id, most) in [("kernel.written", 52_428_800), ("nvme.host_written", 52_428_800 + 512_000)]
    {
        let written = value(&after, id) - value(&before, id);
        assert!((52_428_800 - 512_000..=most).contains(&written), "{id}: {written}");
    }
    assert_eq!(value(&after, "nvme.life_used"), 0);
    // A file system is written to, and the drive's counter and the kernel's agree.
    // The kernel counts zeros that it writes later, and the drive does not.
    let now = "-E lazy_itable_init=0,lazy_journal_init=0";
    guest.run(&format!("mkfs.ext4 -q -F {now} /dev/nvme0n1"));
    guest.run("mount -t ext4 /dev/nvme0n1 /mnt");
    let write = "dd if=/dev/urandom of=/mnt/file bs=64k count=160 conv=fsync";
    let arguments = "wear measure /dev/nvme0n1 --counter nvme.host_written --json -- ";
    let said = guest.run(&format!("{FLASHFIT} {arguments} {write} 2>/dev/null"));
    let document: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    let data = &document["data"];
    assert_eq!(data["end"], "resolved", "{data:#}");
    // Such a drive's share of used life stays 0.
    let unmoved = "none of the device's own counters of wear moved (`nvme.life_used`)";
    let notes = data["notes"].as_array().unwrap();
    assert!(notes.len() == 1 && notes[0].as_str().unwrap().starts_with(unmoved), "{data:#}");
    let counters = data["counters"].as_array().unwrap();
    let total = |id: &str| {
        let counter = counters.iter().find(|counter| counter["id"] == id);
        counter.unwrap_or_else(|| panic!("no {id}: {data:#}"))["total"].as_u64().unwrap()
    };
    let (drive, kernel) = (total("nvme.host_written"), total("kernel.written"));
    assert!(drive.abs_diff(kernel) < 2 * 512_000, "{drive} {kernel}");
    assert!(kernel >= data["runs"].as_u64().unwrap() * 160 * 65_536, "{data:#}");
    println!("{}", guest.run("nvme endurance-log /dev/nvme0n1 -g 1 -o json; echo $?; nvme ocp smart-add-log /dev/nvme0n1 -o json; echo $?"));
    guest.stop();
}

/// One trial of the file system of this test's drive.
const CONFIG: &str = "filesystems = ['ext4']\\nworkloads = ['sync-files']\\nschedulers = ['none']\\n\
    strategy = 'random'\\nrepeats = 1\\nconfirm_rounds = 0\\ndata_size = '4MiB'\\nruntime_ms = 200\\n";

#[test]
#[ignore = "full: boots virtual machines"]
fn trials_record_the_counters_of_qemus_nvme_drive() {
    let Some(mut guest) = Guest::with(&[DiskInterface::Nvme]) else { return };
    guest.run(&format!("printf \"{CONFIG}\" >/tmp/short.toml"));
    // Without varied starts: the kernel counts zeros for inode tables, the drive does not.
    let tune = "tune /dev/nvme0n1 --confirm nvme0n1 --config /tmp/short.toml --dir /tmp/run --trials 1 --fresh --on here";
    let said = guest.run(&format!("{FLASHFIT} {tune} --progress never"));
    let trials = guest.run("cat /tmp/run/trials.jsonl");
    let first = trials.lines().next().unwrap_or_else(|| panic!("no trials: {said}"));
    let trial: Value = serde_json::from_str(first).unwrap_or_else(|_| panic!("{trials}\n{said}"));
    let mut counted = trial["wear"].as_array().unwrap_or_else(|| panic!("{trial:#}")).iter();
    let written = counted.find(|one| one["id"] == "nvme.host_written").unwrap();
    let kernel = trial["written"]["workload_bytes"].as_u64().unwrap();
    let drive = written["counted"].as_u64().unwrap();
    assert!(drive.abs_diff(kernel) < 2 * 512_000, "{trial:#}");
    guest.stop();
}

#[test]
#[ignore = "full: boots virtual machines"]
fn qemus_ata_drive_reports_no_wear() {
    let Some(mut guest) = Guest::with(&[DiskInterface::Ata]) else { return };
    let reading = guest.data("wear show /dev/sda");
    let asked = reading["asked"].as_array().unwrap();
    assert!(asked.iter().any(|asked| asked["source"] == "smartctl"), "{reading:#}");
    assert!(value(&reading, "ata.power_cycle_count") > 0 || !asked.is_empty(), "{reading:#}");
    let text = guest.run(&format!("{FLASHFIT} wear show /dev/sda"));
    assert!(text.contains("reports nothing about the wear of its flash"), "{text}");
    guest.stop();
}

#[test]
#[ignore = "full: boots virtual machines"]
fn qemus_emmc_has_a_register_with_life_times() {
    let Some(mut guest) = Guest::with(&[DiskInterface::Emmc]) else { return };
    let reading = guest.data("wear show /dev/mmcblk0");
    let asked = reading["asked"].as_array().unwrap();
    assert!(asked.iter().any(|asked| asked["source"] == "EXT_CSD"), "{reading:#}");
    guest.stop();
}
