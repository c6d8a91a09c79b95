//! The lock of a partition is that of its whole disk, on real loop devices.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use flashfit_device::in_use::DeviceUse;
use flashfit_device::{
    ConsentMethod, Device, DeviceLock, DeviceLockError, Refusal, SystemRoots, WriteConsent,
};
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{AttemptKind, attempted, block_devices, programs, skip};
use flashfit_user_error::{ExitClass, UserError};

/// A disk with two partitions.
struct Disk {
    _folder: tempfile::TempDir,
    device: LoopDevice,
    runner: SystemRunner,
}

impl Disk {
    /// `None`, with the reason printed, if the test cannot run here.
    fn new() -> Option<Self> {
        if skip(block_devices().or_else(|| programs(&["sfdisk", "partx"]))) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("card.img");
        std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
        let device = LoopDevice::attach(&image, options).unwrap();
        let runner = SystemRunner::default();
        let script = "label: gpt\nsize=16MiB\nsize=16MiB\n";
        let sfdisk = Program::new("sfdisk").arg("--quiet").arg(device.node()).stdin(script);
        runner.run_checked(&sfdisk).unwrap();
        // Not every kernel reads the new table at once.
        runner.run_checked(&Program::new("partx").arg("--update").arg(device.node())).unwrap();
        Some(Self { _folder: folder, device, runner })
    }

    fn partition(&self, number: u32) -> PathBuf {
        PathBuf::from(format!("{}p{number}", self.device.node().display()))
    }

    fn consent(&self, node: PathBuf) -> Result<WriteConsent, Refusal> {
        let system = SystemRoots::default();
        let shown = Device::from_node(&system, &self.runner, &node).unwrap();
        let agreed = ConsentMethod::Named(node.display().to_string());
        WriteConsent::ask(&system, &self.runner, &shown, &agreed)
    }
}

#[test]
fn the_lock_of_a_partition_covers_its_disk() {
    let Some(disk) = Disk::new() else { return };
    let consents = [1, 2].map(|number| disk.consent(disk.partition(number)).unwrap());
    let [first, second] = consents;
    let whole = disk.consent(disk.device.node().to_owned()).unwrap();
    let lock = DeviceLock::node(first).unwrap();
    attempted(AttemptKind::TargetInUse, 2);
    let refused = DeviceLock::node(second.clone()).unwrap_err();
    let DeviceLockError::Refused(Refusal::DiskLocked { disk: locked, .. }) = &refused else {
        panic!("{refused}")
    };
    assert_eq!(locked, disk.device.node());
    assert_eq!(refused.class(), ExitClass::Refused);
    assert!(refused.hint().is_some());
    DeviceLock::node(whole.clone()).unwrap_err();
    drop(lock);
    drop(DeviceLock::node(second.clone()).unwrap());
    let lock = DeviceLock::node(whole).unwrap();
    DeviceLock::node(second).unwrap_err();
    drop(lock);
}

/// A process that is killed when the test ends.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that has a partition locked is seen before the user of another one is asked.
#[test]
fn a_partition_is_in_use_while_its_disk_is_open() {
    let Some(disk) = Disk::new() else { return };
    let script = "exec 3<\"$0\"; exec sleep 60";
    let mut other = std::process::Command::new("sh");
    let other = Killed(other.args(["-c", script]).arg(disk.device.node()).spawn().unwrap());
    attempted(AttemptKind::TargetInUse, 1);
    let opened = format!("/proc/{}/fd/3", other.0.id());
    let deadline = Instant::now() + Duration::from_secs(50);
    while std::fs::read_link(&opened).ok().as_deref() != Some(disk.device.node()) {
        assert!(Instant::now() < deadline, "the other process does not open the disk");
        std::thread::sleep(Duration::from_millis(10));
    }
    let refused = disk.consent(disk.partition(2));
    drop(other);
    let Err(Refusal::InUse { uses, .. }) = refused else { panic!("{refused:?}") };
    assert!(matches!(&uses[..], [DeviceUse::Open { .. }]), "{uses:?}");
}
