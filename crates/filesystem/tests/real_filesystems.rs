//! The built-in file systems, made by the real programs and mounted by the real kernel.
//!
//! Needs root, loop devices, e2fsprogs and btrfs-progs; where one is lacking it says so and ends.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::path::{Path, PathBuf};

use flashfit_device::Bytes;
use flashfit_filesystem::{
    Conditions, FileSystem, FileSystemCatalog, LayoutStart, PartitionLayout, Recipe, Scheduler,
    Setup, plan_layout, scheduler,
};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::mount::Mounted;
use flashfit_host::{Program, Runner, SystemRunner, mountinfo};
use flashfit_test_support::{self as test_support, TestNeed, block_devices, skip};

const SIZE: Bytes = Bytes::mib(256);

fn conditions() -> Conditions {
    let known = |bytes| Some(Sourced::new(bytes, QuantitySource::Given));
    Conditions {
        geometry: Geometry { erase_block: known(Bytes::mib(8)), ..Geometry::default() }
            .or(Geometry { write_unit: known(Bytes::kib(8)), ..Geometry::default() }),
        discard: true,
        volatile_cache: true,
        ..Conditions::default()
    }
}

fn run(program: &Program) -> String {
    SystemRunner::default().run_checked(program).unwrap().stdout
}

/// An empty image on a loop device, as long as the value lives.
struct TestDevice {
    device: LoopDevice,
    folder: tempfile::TempDir,
}

impl TestDevice {
    fn new(size: Bytes) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(size.0).unwrap();
        std::fs::create_dir(folder.path().join("point")).unwrap();
        let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
        match LoopDevice::attach(&image, options) {
            Ok(device) => Some(Self { device, folder }),
            Err(error) => {
                let refused = TestNeed::Loop.missing(error.to_string());
                assert!(skip(block_devices().or(Some(refused))));
                None
            }
        }
    }

    fn node(&self) -> &Path {
        self.device.node()
    }

    fn point(&self) -> PathBuf {
        self.folder.path().join("point")
    }
}

fn file_system(name: &str, programs: &[&str]) -> Option<FileSystem> {
    if skip(test_support::programs(programs)) {
        return None;
    }
    let filesystem = FileSystemCatalog::load(None).unwrap().filesystem(name).unwrap().clone();
    let listed = std::fs::read_to_string("/proc/filesystems").unwrap();
    if filesystem.is_listed_in(&listed) {
        Some(filesystem)
    } else {
        let reason = format!("this kernel does not list {name}");
        assert!(skip(Some(TestNeed::Kernel.missing(reason))));
        None
    }
}

/// What is seen of a setup once it is made and mounted.
struct Seen {
    /// All options of the mount table, with commas around each.
    mount: String,
    /// What the file system's own program says of its superblock.
    superblock: String,
}

impl Seen {
    fn mounted_with(&self, option: &str) -> bool {
        self.mount.contains(&format!(",{option},"))
    }

    fn superblock_has(&self, name: &str, value: &str) -> bool {
        self.superblock
            .lines()
            .filter_map(|line| line.trim().strip_prefix(name))
            .any(|rest| rest.trim_start_matches(':').trim() == value)
    }
}

/// Makes, mounts, writes to, unmounts and checks one setup.
fn try_out(filesystem: &FileSystem, options: &[&str], device: &TestDevice) -> Seen {
    let setup = Setup::new(filesystem, options, Scheduler::new("none"), &conditions()).unwrap();
    let recipe = Recipe::new(filesystem, &setup, &conditions()).unwrap();
    let node = device.node();
    run(&recipe.mkfs(node));
    for tune in recipe.tune(node) {
        run(&tune);
    }
    let superblock = run(&match recipe.kind() {
        "ext4" => Program::new("dumpe2fs").arg("-h").arg(node),
        _ => Program::new("btrfs").args(["inspect-internal", "dump-super"]).arg(node),
    });
    let runner = SystemRunner::default();
    let mounted =
        Mounted::new(&runner, node, recipe.kind(), &device.point(), recipe.mount_options())
            .unwrap_or_else(|error| panic!("{}: {error}", setup.label()));
    let entry = mountinfo::at(mounted.point()).unwrap().unwrap();
    std::fs::write(mounted.point().join("file"), "flash").unwrap();
    mounted.unmount().unwrap();
    run(&recipe.fsck(node));
    Seen { mount: format!(",{},{},", entry.options, entry.super_options), superblock }
}

#[test]
fn every_usual_option_of_ext4_is_there_once_mounted() {
    let Some(ext4) = file_system("ext4", &["mkfs.ext4", "dumpe2fs", "e2fsck"]) else { return };
    let Some(device) = TestDevice::new(SIZE) else { return };
    let base = try_out(&ext4, &[], &device);
    assert!(base.superblock_has("Block size", "4096"));
    assert!(base.superblock.contains("has_journal"));
    for absent in ["noatime", "discard", "nobarrier", "data=writeback", "stripe=2048"] {
        assert!(!base.mounted_with(absent), "{absent} in {}", base.mount);
    }
    for option in ext4.options.iter().filter(|option| option.tried) {
        check_ext4(&option.name, &try_out(&ext4, &[&option.name], &device));
    }
    for together in [
        vec!["noatime", "nojournal", "geometry"],
        vec!["noatime", "discard", "writeback", "nobarrier", "geometry"],
        vec!["nojournal", "nobarrier"],
    ] {
        let seen = try_out(&ext4, &together, &device);
        for option in together {
            check_ext4(option, &seen);
        }
    }
}

fn check_ext4(option: &str, seen: &Seen) {
    let fine = match option {
        "noatime" | "discard" | "nobarrier" => seen.mounted_with(option),
        "writeback" => seen.mounted_with("data=writeback"),
        "nojournal" => !seen.superblock.contains("has_journal"),
        "fast_commit" => seen.superblock.contains("fast_commit"),
        "geometry" => {
            seen.superblock_has("RAID stride", "2")
                && seen.superblock_has("RAID stripe width", "2048")
                && seen.mounted_with("stripe=2048")
        }
        _ => panic!("this test does not know {option}"),
    };
    assert!(fine, "{option}: {}\n{}", seen.mount, seen.superblock);
}

#[test]
fn every_usual_option_of_btrfs_is_there_once_mounted() {
    let Some(btrfs) = file_system("btrfs", &["mkfs.btrfs", "btrfs"]) else { return };
    let Some(device) = TestDevice::new(SIZE) else { return };
    let base = try_out(&btrfs, &[], &device);
    assert!(base.superblock_has("nodesize", "16384"));
    for absent in ["noatime", "discard", "nobarrier", "ssd_spread"] {
        assert!(!base.mounted_with(absent), "{absent} in {}", base.mount);
    }
    for option in btrfs.options.iter().filter(|option| option.tried) {
        check_btrfs(&option.name, &try_out(&btrfs, &[&option.name], &device));
    }
    for together in [
        vec!["noatime", "ssd", "geometry"],
        vec!["noatime", "nodiscard", "nodesize-64k", "ssd_spread", "nobarrier"],
    ] {
        let seen = try_out(&btrfs, &together, &device);
        for option in together {
            check_btrfs(option, &seen);
        }
    }
}

fn check_btrfs(option: &str, seen: &Seen) {
    let fine = match option {
        "noatime" | "discard" | "nobarrier" | "ssd" | "ssd_spread" => seen.mounted_with(option),
        // The mount table shows it by showing neither form of discard.
        "nodiscard" => !seen.mounted_with("discard") && !seen.mounted_with("discard=async"),
        "geometry" => seen.superblock_has("nodesize", "8192"),
        "nodesize-4k" => seen.superblock_has("nodesize", "4096"),
        "nodesize-32k" => seen.superblock_has("nodesize", "32768"),
        "nodesize-64k" => seen.superblock_has("nodesize", "65536"),
        _ => panic!("this test does not know {option}"),
    };
    assert!(fine, "{option}: {}\n{}", seen.mount, seen.superblock);
}

#[test]
fn the_least_device_of_ext4_is_the_least_with_a_journal() {
    let Some(ext4) = file_system("ext4", &["mkfs.ext4", "dumpe2fs", "e2fsck"]) else { return };
    for (size, has_journal) in
        [(ext4.min_device_size, true), (Bytes(ext4.min_device_size.0 - ext4.block_bytes), false)]
    {
        let Some(device) = TestDevice::new(size) else { return };
        let seen = try_out(&ext4, &[], &device);
        assert_eq!(seen.superblock.contains("has_journal"), has_journal, "{size}");
    }
}

#[test]
fn the_least_device_of_btrfs_is_enough() {
    let Some(btrfs) = file_system("btrfs", &["mkfs.btrfs", "btrfs"]) else { return };
    for options in [[].as_slice(), &["nodesize-64k"]] {
        let Some(device) = TestDevice::new(btrfs.min_device_size) else { return };
        let seen = try_out(&btrfs, options, &device);
        assert!(seen.superblock_has("total_bytes", &btrfs.min_device_size.0.to_string()));
    }
}

#[test]
fn a_planned_partition_is_made_where_it_was_planned() {
    if skip(test_support::program("sfdisk")) {
        return;
    }
    for (erase_block, capacity) in [
        (Bytes::kib(64), Bytes::mib(9)),
        (Bytes::mib(8), Bytes(200_000_512)),
        (Bytes::mib(12), Bytes::mib(100)),
        (Bytes::mib(24), Bytes::mib(73)),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(capacity.0).unwrap();
        let known = Sourced::new(erase_block, QuantitySource::Given);
        let geometry = Geometry::of_sizes(Some(known), None);
        let plan = plan_layout(capacity.0, 512, &geometry, LayoutStart::Auto).unwrap();
        let PartitionLayout::Partition { start_bytes, size_bytes, .. } = plan.layout else {
            panic!("{plan:?}")
        };
        run(&plan.layout.partitioning(&image, 512).unwrap());
        let table = run(&Program::new("sfdisk").arg("--dump").arg(image));
        let numbers: Vec<u64> = table
            .lines()
            .find(|line| line.contains("start="))
            .unwrap()
            .split(['=', ','])
            .filter_map(|word| word.trim().parse().ok())
            .collect();
        assert_eq!(numbers, [start_bytes / 512, size_bytes / 512], "{table}");
    }
}

#[test]
fn a_loop_devices_queue_takes_another_scheduler_and_gives_the_first_back() {
    let Some(device) = TestDevice::new(Bytes::mib(1)) else { return };
    let queue = device.device.queue();
    let first = scheduler::current(&queue).unwrap();
    let offered = scheduler::available(&queue).unwrap();
    assert!(offered.contains(&first));
    let Some(other) = offered.iter().find(|scheduler| **scheduler != first) else {
        let reason = format!("this kernel offers only {first}");
        assert!(skip(Some(TestNeed::Kernel.missing(reason))));
        return;
    };
    scheduler::set(&queue, other).unwrap();
    assert_eq!(scheduler::current(&queue).unwrap(), *other);
    scheduler::set(&queue, &first).unwrap();
    assert_eq!(scheduler::current(&queue).unwrap(), first);
    assert!(scheduler::set(&queue, &Scheduler::new("nonsense")).is_err());
}
