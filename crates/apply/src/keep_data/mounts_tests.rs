//! Options of mounts in use, on loop devices in a mount namespace of the test.

use std::path::PathBuf;

use flashfit_device::{Device, SystemRoots};
use flashfit_filesystem::check::ExaminedDevice;
use flashfit_filesystem::facts;
use flashfit_filesystem::improvement::{ImprovedVolume, Improvement};
use flashfit_host::SystemRunner;
use flashfit_host::interrupt::Interrupt;
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_test_support::{isolated_if_root, skip, tempdir_in_memory};

use super::*;
use crate::UnfinishedRecords;
use crate::keep_data::{
    ChangeRequest, ImproveRequest, Improved, ImprovementJournal, ImprovementPlan, PinnedDevice,
    PlanContext, improve, restore,
};

/// The smallest that mkfs.xfs takes.
const IMAGE_BYTES: u64 = 320 << 20;

fn words(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

fn entry(options: &str, super_options: &str) -> MountEntry {
    MountEntry {
        id: 30,
        device: (7, 0),
        point: "/mnt".into(),
        options: options.to_owned(),
        kind: "ext4".to_owned(),
        source: "/dev/loop0".into(),
        super_options: super_options.to_owned(),
    }
}

/// A file system on a loop device, mounted on `m1`.
struct InUse {
    folder: tempfile::TempDir,
    device: LoopDevice,
    kind: String,
}

impl InUse {
    fn new(kind: &str, options: &str) -> Self {
        let folder = tempdir_in_memory().unwrap();
        let image = folder.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
        let direct = LoopOptions { direct_io: false, ..LoopOptions::default() };
        let device = LoopDevice::attach(&image, direct).unwrap();
        let in_use = Self { folder, device, kind: kind.to_owned() };
        for point in ["m1", "m2", "root/etc"] {
            std::fs::create_dir_all(in_use.path(point)).unwrap();
        }
        let node = in_use.device.node().display().to_string();
        run(&format!("mkfs.{kind} -q {node}"));
        run(&format!("mount -t {kind} -o {options} {node} {}", in_use.path("m1").display()));
        std::fs::create_dir(in_use.path("m1/sub")).unwrap();
        in_use
    }

    /// Mounts the folder `sub` on `m2`, too.
    fn bind(&self, options: &str) {
        let (sub, point) = (self.path("m1/sub"), self.path("m2"));
        run(&format!("mount --bind {} {}", sub.display(), point.display()));
        run(&format!("mount -o remount,bind,{options} {}", point.display()));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Options of the mount, and of the file system.
    fn options(&self, point: &str) -> (Vec<String>, Vec<String>) {
        let entry = mountinfo::at(&self.path(point)).unwrap().unwrap();
        (words(&entry.options), words(&entry.super_options))
    }

    fn describe(&self) -> Device {
        Device::from_sysfs(&SystemRoots::default(), self.device.node()).unwrap()
    }

    fn plan(&self, options: &str) -> ImprovementPlan {
        let facts = facts::read(&SystemRunner::default(), self.device.node()).unwrap().unwrap();
        let points = self.describe().mounts.into_iter();
        let volume = ImprovedVolume {
            name: self.device.node().display().to_string(),
            start_bytes: 0,
            kind: self.kind.clone(),
            uuid: facts.uuid,
            label: None,
            partition_uuid: None,
            mount_points: points.map(|mount| mount.point.display().to_string()).collect(),
        };
        let examined = ExaminedDevice {
            target: volume.name.clone(),
            disk: String::new(),
            capacity_bytes: IMAGE_BYTES,
            geometry: Default::default(),
            disagreements: Vec::new(),
            table: None,
            table_complaints: Vec::new(),
            table_is_lost: false,
            lost_header_bytes: None,
            repeated_entries: 0,
            is_optical: false,
            volumes: Vec::new(),
            queue: None,
            trim_timer: None,
            unfinished: None,
            unfinished_improvement: None,
        };
        let root = self.path("root");
        let context = PlanContext { examined: &examined, is_exclusive: false, root: &root };
        let wanted = options.split(' ').map(|options| Improvement::MountOptions {
            volume: volume.clone(),
            options: words(options),
            why: String::new(),
            risk: String::new(),
        });
        ImprovementPlan::of(&context, &[], wanted.collect()).unwrap()
    }

    fn with_tools<T>(&self, work: impl FnOnce(&ApplyTools<'_>, &DeviceAccess) -> T) -> T {
        let (system, runner) = (SystemRoots::default(), SystemRunner::default());
        let (records, interrupt) =
            (UnfinishedRecords::in_folder(&self.path("state")), Interrupt::new());
        let tools = ApplyTools {
            system: &system,
            runner: &runner,
            records: &records,
            interrupt: &interrupt,
            on_event: &|_| {},
        };
        let pinned = PinnedDevice::open(&system, &self.describe()).unwrap();
        work(&tools, &DeviceAccess::in_use(&system, pinned).unwrap())
    }

    fn improve(&self, plan: &ImprovementPlan) -> Improved {
        self.with_tools(|tools, access| {
            let request = ImproveRequest {
                access,
                folder: self.path("saved"),
                steps: plan.steps.clone(),
                asked: ChangeRequest::default(),
                resume_command: "again".to_owned(),
                restore_command: "undo".to_owned(),
            };
            improve(tools, &request).unwrap()
        })
    }

    fn restore(&self) -> Improved {
        self.with_tools(|tools, access| {
            let journal = ImprovementJournal::read(&self.path("saved")).unwrap().unwrap();
            restore(tools, access, journal, "undo").unwrap()
        })
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        for point in ["m2", "m1"] {
            let point = self.path(point);
            let _ = rustix::mount::unmount(&point, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

fn run(command: &str) {
    let mut words = command.split(' ');
    let program = Program::new(words.next().unwrap()).args(words.collect::<Vec<_>>());
    SystemRunner::default().run_checked(&program).unwrap();
}

/// Whether this machine cannot mount such a file system.
fn cannot(kind: &str) -> bool {
    let programs = [format!("mkfs.{kind}"), "mount".to_owned()];
    let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
    skip(flashfit_test_support::block_devices()) || skip(flashfit_test_support::programs(&programs))
}

#[track_caller]
fn assert_has(found: &[String], expected: &str) {
    for word in expected.split(',') {
        assert!(found.iter().any(|known| known == word), "{word} is not in {found:?}");
    }
}

#[test]
fn a_read_only_bind_mount_leaves_the_file_system_writable() {
    isolated_if_root(|| {
        if cannot("ext4") {
            return;
        }
        let in_use = InUse::new("ext4", "commit=7");
        in_use.bind("ro,nosuid");
        let before = (in_use.options("m1"), in_use.options("m2"));
        // Open for writing, so that the kernel refuses to make all of it read-only.
        let open = std::fs::File::create(in_use.path("m1/open")).unwrap();
        let plan = in_use.plan("noatime,commit=60");
        assert_eq!(plan.skipped, []);
        assert_eq!(in_use.improve(&plan).notes, [""; 0]);
        drop(open);
        std::fs::write(in_use.path("m1/after"), "it is writable").unwrap();
        let (own, of_file_system) = in_use.options("m1");
        assert_has(&own, "rw,noatime");
        assert_has(&of_file_system, "rw,commit=60");
        assert_has(&in_use.options("m2").0, "ro,nosuid,noatime");
        assert_eq!(in_use.restore().notes, [""; 0]);
        assert_eq!((in_use.options("m1"), in_use.options("m2")), before);
    });
}

#[test]
fn a_read_only_file_system_does_not_become_writable() {
    isolated_if_root(|| {
        if cannot("ext4") {
            return;
        }
        let in_use = InUse::new("ext4", "commit=7");
        // As the kernel leaves a file system with errors: only the mount may be written.
        let point = in_use.path("m1").display().to_string();
        run(&format!("mount -o remount,ro {point}"));
        run(&format!("mount -o remount,bind,rw {point}"));
        assert_eq!(in_use.options("m1").1[0], "ro");
        let plan = in_use.plan("noatime commit=60");
        let [skipped] = &plan.skipped[..] else { panic!("{:?}", plan.skipped) };
        assert!(skipped.reason.contains("the kernel has made it read-only"), "{skipped:?}");
        in_use.improve(&plan);
        let (own, of_file_system) = in_use.options("m1");
        assert_has(&own, "rw,noatime");
        assert_has(&of_file_system, "ro,commit=7");
        in_use.restore();
        assert_has(&in_use.options("m1").1, "ro,commit=7");
    });
}

#[test]
fn no_option_of_the_file_system_is_lost() {
    isolated_if_root(|| {
        for (kind, options, asked) in [
            ("xfs", "inode32,largeio", "noatime"),
            ("xfs", "inode32,largeio", "noatime,discard"),
            ("btrfs", "compress=zstd:3,thread_pool=3,subvolid=5", "noatime,commit=60"),
            ("ext4", "stripe=4,nodelalloc,errors=continue", "noatime,commit=60"),
        ] {
            if cannot(kind) {
                return;
            }
            let in_use = InUse::new(kind, options);
            let before = in_use.options("m1");
            assert_eq!(in_use.improve(&in_use.plan(asked)).notes, [""; 0]);
            let (own, of_file_system) = in_use.options("m1");
            assert_has(&own, "rw,noatime");
            assert_has(&of_file_system, &before.1.join(","));
            in_use.restore();
            assert_has(&in_use.options("m1").1, &before.1.join(","));
            assert_eq!(in_use.options("m1").0, before.0);
        }
    });
}

#[test]
fn what_another_remount_dropped_is_reported() {
    isolated_if_root(|| {
        if cannot("ext4") {
            return;
        }
        let in_use = InUse::new("ext4", "nodelalloc");
        in_use.improve(&in_use.plan("noatime"));
        run(&format!("mount -o remount,delalloc {}", in_use.path("m1").display()));
        let restored = in_use.restore();
        let [note] = &restored.notes[..] else { panic!("{restored:?}") };
        assert!(note.ends_with("nodelalloc was in effect before, and is not now"), "{note}");
    });
}

#[test]
fn a_remount_names_the_options_that_it_would_drop() {
    let options = |options, super_options, new| {
        remount_options(&entry(options, super_options), &words(new)).unwrap()
    };
    let own = "rw,nosuid,nodev,relatime";
    assert_eq!(options(own, "rw,sync,stripe=4", "noatime"), "bind,rw,nosuid,nodev,noatime");
    assert_eq!(options("ro", "rw,sync", "nosuid"), "bind,ro,strictatime,nosuid");
    assert_eq!(
        options(own, "rw,sync,stripe=4,commit=7", "noatime,commit=60"),
        "rw,nosuid,nodev,sync,stripe=4,noatime,commit=60"
    );
    assert_eq!(
        options("ro,noatime", "ro,ssd,subvolid=5,subvol=/", "nodiscard"),
        "ro,noatime,ssd,nodiscard"
    );
    for (own, of_file_system) in [("ro", "rw"), ("rw", "ro")] {
        assert!(remount_options(&entry(own, of_file_system), &words("commit=60")).is_err());
    }
}

#[test]
fn a_word_that_an_option_replaces_is_not_lost() {
    let lost = |before, now, options| lost_words(before, now, &words(options));
    assert_eq!(lost("rw,inode32", "rw,inode64", "noatime"), ["inode32"]);
    assert_eq!(lost("rw,relatime", "ro,noatime", "noatime"), ["rw"]);
    assert_eq!(lost("rw,discard=async,commit=7", "rw", "nodiscard,commit=5"), [""; 0]);
}

#[test]
fn an_option_that_the_kernel_shows_otherwise_is_not_in_effect() {
    assert!(check_shown(&words("rw,noatime"), &words("noatime")).is_ok());
    assert!(check_shown(&words("rw,relatime"), &words("noatime")).is_err());
    assert!(check_shown(&words("rw,commit=30"), &words("commit=60")).is_err());
    assert!(check_shown(&words("rw"), &words("commit=60")).is_ok(), "it may not be shown");
}

#[test]
fn a_mount_that_another_one_hides_is_not_changed_in_its_place() {
    isolated_if_root(|| {
        if cannot("ext4") {
            return;
        }
        let in_use = InUse::new("ext4", "rw");
        let other = in_use.path("m1").display().to_string();
        run(&format!("mount -t tmpfs none {other}"));
        let error = PinnedDevice::open(&SystemRoots::default(), &in_use.describe()).unwrap_err();
        assert!(error.to_string().contains("hides that of this device"), "{error}");
        run(&format!("umount {other}"));
        let pinned = PinnedDevice::open(&SystemRoots::default(), &in_use.describe()).unwrap();
        assert!(pinned.mount(&in_use.path("m1")).is_ok());
        // A tmpfs may have any name as its source.
        let node = in_use.device.node().display();
        run(&format!("mount -t tmpfs {node} {other}"));
        assert!(PinnedDevice::open(&SystemRoots::default(), &in_use.describe()).is_err());
        assert!(pinned.mount(&in_use.path("m1")).is_err());
        run(&format!("umount {other}"));
    });
}
