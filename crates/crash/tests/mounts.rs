//! What keeps a mount of a crash state busy.
//!
//! Needs root, FUSE, loop devices and the programs of ext4.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flashfit_crash::campaign::MountPoints;
use flashfit_crash::device::{CrashDevice, OverlayDisk};
use flashfit_crash::observe::{await_free, mount_with, unmount_at};
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{isolated, programs, simulated_cards, skip};

fn is_missing() -> bool {
    skip(simulated_cards().or(programs(&["mkfs.ext4"])))
}

fn device(points: &MountPoints, name: &str) -> CrashDevice {
    let shown = points.folder(name).unwrap();
    CrashDevice::attach(OverlayDisk::unwritten(64 << 20), &shown, false).unwrap()
}

/// A mounted ext4.
fn mounted(device: &CrashDevice, points: &MountPoints) -> PathBuf {
    let mkfs = Program::new("mkfs.ext4").arg("-q").arg(device.node());
    SystemRunner::default().run_checked(&mkfs).unwrap();
    let point = points.folder("mounted").unwrap();
    mount_with(device.node(), "ext4", &point, &[]).unwrap();
    point
}

/// A worker attaches its devices while others work, so the thread that serves the device must not
/// keep what they have open then.
#[test]
fn a_new_device_keeps_no_file_of_another_mount() {
    if is_missing() {
        return;
    }
    isolated(|| {
        let points = MountPoints::take(&[]).unwrap();
        let first = device(&points, "first");
        let point = mounted(&first, &points);
        let open = File::create(point.join("f")).unwrap();
        let (mut input, output) = UnixStream::pair().unwrap();
        let second = device(&points, "second");
        drop((open, output));
        input.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(input.read(&mut [0]).unwrap(), 0, "its other end is still open");
        let start = Instant::now();
        unmount_at(&point).unwrap();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        // Both are still served.
        for device in [&first, &second] {
            assert_eq!(std::fs::read(device.node()).unwrap().len(), 64 << 20);
        }
    });
}

/// The kernel would show the file system as it is in memory, and not what the device contains now.
#[test]
fn a_device_is_not_mounted_again_while_another_namespace_has_it() {
    if is_missing() || skip(programs(&["unshare"])) {
        return;
    }
    isolated(|| {
        let points = MountPoints::take(&[]).unwrap();
        let device = device(&points, "device");
        let point = mounted(&device, &points);
        let mut unshare = std::process::Command::new("unshare");
        let mut other = unshare.args(["--mount", "sleep", "3"]).spawn().unwrap();
        let name = format!("/proc/{}/comm", other.id());
        while std::fs::read_to_string(&name).unwrap().trim() != "sleep" {
            std::thread::sleep(Duration::from_millis(5));
        }
        unmount_at(&point).unwrap();
        let has_ended = |other: &mut std::process::Child| other.try_wait().unwrap().is_some();
        assert!(!has_ended(&mut other), "it is too late");
        await_free(device.node()).unwrap();
        // A process leaves its namespace shortly before its end can be seen.
        let end = Instant::now() + Duration::from_secs(1);
        while !has_ended(&mut other) {
            assert!(Instant::now() < end, "the other process still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
        mount_with(device.node(), "ext4", &point, &[]).unwrap();
        unmount_at(&point).unwrap();
    });
}

/// Who looks for partitions, or for a free loop device, has it for a moment.
#[test]
fn a_device_that_is_in_use_for_a_moment_is_mounted() {
    if is_missing() {
        return;
    }
    isolated(|| {
        let points = MountPoints::take(&[]).unwrap();
        let device = device(&points, "device");
        let point = mounted(&device, &points);
        unmount_at(&point).unwrap();
        await_free(device.node()).unwrap();
        let exclusive = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::EXCL;
        let user = rustix::fs::open(device.node(), exclusive, rustix::fs::Mode::empty()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                drop(user);
            });
            mount_with(device.node(), "ext4", &point, &[]).unwrap();
        });
        unmount_at(&point).unwrap();
    });
}
