//! Two swap areas on partitions of one disk: the guard refuses the disk and both partitions, and
//! leaves the third partition to its user.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flashfit_device::in_use::DeviceUse;
use flashfit_device::{ConsentMethod, Device, Refusal, SystemRoots, WriteConsent};
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{AttemptKind, TestNeed, attempted, block_devices, programs, skip};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A disk with three partitions, of which the first two are made for swap.
struct Disk {
    folder: tempfile::TempDir,
    device: LoopDevice,
    /// Names under which swap is on.
    on: Vec<PathBuf>,
}

impl Disk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("card.img");
        std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
        let device = LoopDevice::attach(&image, options).unwrap();
        let disk = Self { folder, device, on: Vec::new() };
        let script = "label: gpt\nsize=16MiB\nsize=16MiB\nsize=16MiB\n";
        let sfdisk = Program::new("sfdisk").arg("--quiet").arg(disk.device.node()).stdin(script);
        run(&sfdisk).unwrap();
        // Not every kernel reads the new table at once.
        run(&Program::new("partx").arg("--update").arg(disk.device.node())).unwrap();
        for number in [1, 2] {
            run(&Program::new("mkswap").arg(disk.partition(number))).unwrap();
        }
        disk
    }

    fn partition(&self, number: u32) -> PathBuf {
        PathBuf::from(format!("{}p{number}", self.device.node().display()))
    }

    /// Another node of a partition, as `/dev/disk/by-id` would name it if it had nodes, not links.
    fn second_name(&self, number: u32) -> PathBuf {
        let path = self.folder.path().join(format!("swap{number}"));
        let device = std::fs::metadata(self.partition(number)).unwrap().rdev();
        mknodat(CWD, &path, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, device).unwrap();
        path
    }

    /// Whether this kernel swaps to it.
    fn swap_on(&mut self, node: PathBuf) -> bool {
        match run(&Program::new("swapon").arg(&node)) {
            Ok(()) => self.on.push(node),
            Err(error) => {
                let reason = format!("this kernel does not swap to {}: {error}", node.display());
                return !skip(Some(TestNeed::Kernel.missing(reason)));
            }
        }
        true
    }

    fn swap_off(&mut self) {
        for node in self.on.drain(..) {
            run(&Program::new("swapoff").arg(node)).unwrap();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for node in self.on.drain(..) {
            let _ = run(&Program::new("swapoff").arg(node));
        }
    }
}

fn run(program: &Program) -> Result<(), flashfit_host::ProgramError> {
    SystemRunner::default().run_checked(program).map(drop)
}

fn ask(node: &Path) -> Result<WriteConsent, Refusal> {
    let (system, runner) = (SystemRoots::default(), SystemRunner::default());
    let shown = Device::from_node(&system, &runner, node).unwrap();
    let named = ConsentMethod::Named(shown.short_name());
    WriteConsent::ask(&system, &runner, &shown, &named)
}

/// The names under which a refused device is used as swap.
#[track_caller]
fn swaps<T: std::fmt::Debug>(asked: Result<T, Refusal>) -> Vec<PathBuf> {
    attempted(AttemptKind::TargetInUse, 1);
    let Err(Refusal::InUse { uses, .. }) = asked else { panic!("not refused for use: {asked:?}") };
    let swaps = uses.into_iter().filter_map(|found| match found {
        DeviceUse::Swap { node } => Some(node),
        _ => None,
    });
    swaps.collect()
}

#[test]
fn two_swap_areas_on_partitions_are_in_use() {
    if skip(block_devices().or_else(|| programs(&["sfdisk", "partx", "mkswap", "swapon"]))) {
        return;
    }
    let mut disk = Disk::new();
    let whole = disk.device.node().to_owned();
    let before = ask(&whole).unwrap();
    let (first, second) = (disk.partition(1), disk.second_name(2));
    if !disk.swap_on(first.clone()) || !disk.swap_on(second.clone()) {
        return;
    }
    assert_eq!(swaps(ask(&whole)), [first.clone(), second.clone()]);
    assert_eq!(swaps(before.check(&SystemRunner::default())), [first.clone(), second.clone()]);
    assert_eq!(swaps(ask(&first)), [first]);
    // Under the kernel's name as well, although swap is on under another one.
    assert_eq!(swaps(ask(&second)), std::slice::from_ref(&second));
    assert_eq!(swaps(ask(&disk.partition(2))), [second]);
    ask(&disk.partition(3)).unwrap().check(&SystemRunner::default()).unwrap();
    disk.swap_off();
    ask(&whole).unwrap();
}
