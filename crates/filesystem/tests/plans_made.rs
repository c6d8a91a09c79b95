//! Plans carried out by the real programs on loop devices: what the file systems then say of
//! themselves are the planned numbers, and their data start on erase blocks.
//!
//! Needs root, loop devices and the programs; where one is lacking it says so and goes on.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]
#![expect(clippy::print_stdout, reason = "what is skipped is told")]

use std::path::{Path, PathBuf};

use flashfit_device::{Bytes, Device, SystemRoots};
use flashfit_filesystem::plan::{
    Plan, PlanNumber, PlanRequest, PlannedCommand, PlannedDevice, Programs, StripeWidth, choose,
    choose_layered,
};
use flashfit_filesystem::{
    Durability, FileSystemCatalog, FileSystemFacts, PartitionTable, Scheduler, facts,
};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::mount::enter_private_namespace;
use flashfit_host::mountinfo;
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{self as test_support, TestNeed, block_devices, skip, skip_part};

const MIB: u64 = 1 << 20;

fn request(table: Option<PartitionTable>) -> PlanRequest {
    PlanRequest {
        table,
        start_bytes: None,
        end: None,
        options: None,
        scheduler: Scheduler::new("none"),
        label: None,
        second: None,
        stripe_width: StripeWidth::Blocks,
        recipe: None,
        mount_point: PathBuf::from("/mnt/flash"),
        allow: Durability::Safe,
    }
}

fn geometry(erase_block: u64, write_unit: Option<u64>) -> Geometry {
    let known = |bytes| Sourced::new(Bytes(bytes), QuantitySource::Given);
    Geometry::of_sizes(Some(known(erase_block)), write_unit.map(known))
}

/// An image on a loop device, as long as the value lives.
struct Bed {
    device: LoopDevice,
    _folder: tempfile::TempDir,
}

impl Bed {
    fn new(size: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(size).unwrap();
        let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
        let device = LoopDevice::attach(&image, options).unwrap();
        Self { device, _folder: folder }
    }

    fn device(&self) -> PlannedDevice {
        let system = SystemRoots::default();
        PlannedDevice::of(&Device::from_sysfs(&system, self.device.node()).unwrap())
    }

    fn carry_out(&self, programs: &Programs) {
        let runner = SystemRunner::default();
        if let Some(partitioning) = &programs.partitioning {
            runner.run_checked(partitioning).unwrap();
            let node = self.device.node().display().to_string();
            runner.run_checked(&Program::new("partx").args(["--update", &node])).unwrap();
        }
        runner.run_checked(&programs.mkfs).unwrap();
        for program in &programs.tune {
            runner.run_checked(program).unwrap();
        }
    }
}

/// What the file system says where the plan gave a number of that name.
fn found(facts: &FileSystemFacts, number: &PlanNumber) -> Option<u64> {
    match number.name.as_str() {
        "data_start_bytes" => facts.data_start_bytes,
        name => facts.number(name),
    }
}

/// Makes `name` on a device of this size and geometry, and compares.
fn made(name: &str, size: u64, geometry: Geometry, table: Option<PartitionTable>) -> Option<Plan> {
    let catalog = FileSystemCatalog::load(None).unwrap();
    let filesystem = catalog.filesystem(name).unwrap();
    if skip_part(test_support::program(&filesystem.mkfs.tool.program)) {
        return None;
    }
    let unit = geometry.erase_block.as_ref().unwrap().bytes.0;
    let bed = Bed::new(size);
    let none = Geometry::default();
    let inputs = choose(filesystem, bed.device(), geometry, none, &request(table)).unwrap();
    let plan = Plan::make(filesystem, &inputs).unwrap();
    let programs = plan.programs(&catalog, bed.device.node()).unwrap();
    bed.carry_out(&programs);
    let facts = read(&programs.place_node);
    assert_eq!(facts.kind, filesystem.kind);
    let mut compared = 0;
    for number in &plan.numbers {
        let Some(value) = found(&facts, number) else {
            println!("{name}: {} is not read back", number.name);
            continue;
        };
        compared += 1;
        assert_eq!(value, number.value, "{name} {unit}: {}", number.name);
    }
    assert!(compared > 0 || plan.numbers.is_empty(), "{name}: nothing was compared");
    if let ("vfat" | "exfat", Some(start)) = (facts.kind.as_str(), facts.data_start_bytes) {
        let power = 1 << unit.trailing_zeros();
        // FAT32 reaches 32 MiB, with sectors of 512 bytes.
        let border = if name == "fat32" && unit <= 32 * MIB { unit } else { power.min(32 * MIB) };
        assert_eq!((plan.place.start_bytes + start) % border, 0, "{name} {unit}");
    }
    Some(plan)
}

fn read(node: &Path) -> FileSystemFacts {
    facts::read(&SystemRunner::default(), node).unwrap().expect("a file system was made")
}

fn lacking() -> bool {
    skip(block_devices())
}

const ALL: [&str; 9] = ["ext2", "ext3", "ext4", "btrfs", "f2fs", "fat32", "exfat", "xfs", "nilfs2"];

#[test]
fn on_a_partition_every_file_system_has_the_planned_numbers() {
    if lacking() {
        return;
    }
    for name in ALL {
        made(name, 1 << 30, geometry(4 * MIB, Some(16 << 10)), None);
    }
}

#[test]
fn erase_blocks_of_three_times_a_power_of_two_are_met() {
    if lacking() {
        return;
    }
    for name in ALL {
        // A section of three segments costs too much of a smaller device; the others write more,
        // the larger it is.
        let size = if name == "f2fs" { 4 << 30 } else { 1 << 30 };
        made(name, size, geometry(12 * MIB, Some(48 << 10)), None);
    }
}

#[test]
fn without_a_write_unit_and_without_a_table() {
    if lacking() {
        return;
    }
    for name in ALL {
        made(name, 1 << 30, geometry(512 << 10, None), Some(PartitionTable::None));
    }
}

#[test]
fn a_large_erase_block_brings_the_data_of_fat_on_it_or_on_a_part_of_it() {
    if lacking() {
        return;
    }
    for unit in [24 * MIB, 64 * MIB] {
        let plan = made("fat32", 31_914_983_424, geometry(unit, None), None);
        let Some(plan) = plan else { return };
        assert_eq!(plan.table, PartitionTable::Mbr);
        assert_eq!(plan.number("data_start_bytes").unwrap() % unit.min(32 * MIB), 0);
        assert_eq!(plan.number("cluster_bytes"), Some(32 << 10));
    }
}

fn program(command: &PlannedCommand, folder: &Path) -> Program {
    let folder = folder.display().to_string();
    let replaced = |word: &String| if word == "FOLDER" { folder.clone() } else { word.clone() };
    Program::new(&command.program).args(command.args.iter().map(replaced))
}

/// Reads in its own process: a file that is open here is open in every child that another
/// test starts meanwhile, and keeps what it lies on from being unmounted.
fn cat(file: &Path) -> Option<String> {
    let program = Program::new("cat").arg(file);
    SystemRunner::default().run_checked(&program).ok().map(|outcome| outcome.stdout)
}

fn tee(file: &Path, text: &str) {
    let program = Program::new("tee").arg(file).stdin(text);
    SystemRunner::default().run_checked(&program).unwrap();
}

/// Unmounts what is below a folder, the newest first, however the test ends.
struct Below(PathBuf);

impl Drop for Below {
    fn drop(&mut self) {
        let mounts = mountinfo::read().unwrap_or_default();
        for entry in mounts.iter().rev().filter(|entry| entry.point.starts_with(&self.0)) {
            let program = Program::new("umount").arg(&entry.point);
            let _ = SystemRunner::default().run(&program);
        }
    }
}

fn layers_lack() -> bool {
    let listed = std::fs::read_to_string("/proc/filesystems").unwrap();
    let kind = ["squashfs", "overlay", "ext4"].into_iter().find(|kind| !listed.contains(kind));
    let kind = kind.map(|kind| TestNeed::Kernel.missing(format!("this kernel has no {kind}")));
    skip(kind.or_else(|| test_support::programs(&["mksquashfs", "mkfs.ext4", "e2fsck"])))
}

#[test]
fn an_image_under_a_writable_layer_is_made_used_and_renewed_as_planned() {
    if lacking() || layers_lack() {
        return;
    }
    if let Err(error) = enter_private_namespace() {
        assert!(skip(Some(TestNeed::Isolation.missing(error.to_string()))));
        return;
    }
    let catalog = FileSystemCatalog::load(None).unwrap();
    let squashfs = catalog.filesystem("squashfs").unwrap();
    let (bed, parent) = (Bed::new(256 * MIB), tempfile::tempdir().unwrap());
    let folder = parent.path().canonicalize().unwrap();
    let (system, point) = (folder.join("system"), folder.join("point"));
    for folder in [&system, &point] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(system.join("kept"), "packed".repeat(1000)).unwrap();
    std::fs::write(system.join("changed"), "before").unwrap();
    let request = PlanRequest { mount_point: point.clone(), ..request(None) };
    let both = [geometry(4 * MIB, Some(16 << 10)), Geometry::default()];
    let inputs = choose_layered(&catalog, squashfs, None, bed.device(), both, &request).unwrap();
    let plan = Plan::of(&catalog, &inputs).unwrap();
    assert_eq!(plan.rebuild(&catalog).unwrap(), plan);
    let programs = plan.programs(&catalog, bed.device.node()).unwrap();
    bed.carry_out(&programs);
    let layers = plan.layers.as_ref().unwrap();
    let runner = SystemRunner::default();
    {
        let _below = Below(folder.clone());
        runner.run_checked(&programs.mount).unwrap();
        for command in &layers.commands {
            runner.run_checked(&program(command, &system)).unwrap();
        }
        let facts = read(&layers.image);
        assert_eq!(facts.number("block_bytes"), Some(16 << 10));
        assert_eq!(facts.word("compressor"), Some("zstd"));
        let at = |name: &str| layers.point.join(name);
        assert_eq!(cat(&at("kept")), Some("packed".repeat(1000)));
        tee(&at("changed"), "after");
        tee(&at("new"), "new");
        assert_eq!(cat(&point.join("lower/changed")).as_deref(), Some("before"));
        for command in &layers.renewal {
            runner.run_checked(&program(command, &system)).unwrap();
        }
        assert_eq!(cat(&point.join("lower/changed")).as_deref(), Some("after"));
        assert_eq!(cat(&point.join("lower/new")).as_deref(), Some("new"));
        assert_eq!(cat(&point.join("upper/new")), None, "the writable layer is empty");
        tee(&at("new"), "newer");
        assert_eq!(cat(&at("new")).as_deref(), Some("newer"));
    }
    let recipe = plan.recipe(&catalog).unwrap();
    runner.run_checked(&recipe.fsck(&programs.place_node)).unwrap();
}
