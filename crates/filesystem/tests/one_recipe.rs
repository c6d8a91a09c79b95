//! What a trial makes is what a plan makes: for every file system, option and geometry the command
//! of one is that of the other, and what one cannot use the other refuses.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::path::{Path, PathBuf};

use flashfit_device::Bytes;
use flashfit_device::describe::DeviceKind;
use flashfit_device::identity::DeviceIdentity;
use flashfit_filesystem::plan::{
    Plan, PlanRequest, PlannedDevice, StripeWidth, choose, fitted_conditions,
};
use flashfit_filesystem::{
    Conditions, Durability, FileSystem, FileSystemCatalog, PartitionTable, Recipe, Scheduler, Setup,
};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SECTOR_BYTES: u64 = 512;

fn device(capacity_bytes: u64) -> PlannedDevice {
    PlannedDevice {
        path: PathBuf::from("/dev/mmcblk0"),
        disk: "mmcblk0".to_owned(),
        kind: DeviceKind::SdCard,
        identity: DeviceIdentity::default(),
        capacity_bytes,
        sector_bytes: SECTOR_BYTES,
        partition_start_bytes: None,
        discard: true,
        volatile_cache: true,
    }
}

fn request(options: &[String]) -> PlanRequest {
    PlanRequest {
        table: Some(PartitionTable::Gpt),
        start_bytes: None,
        end: None,
        options: Some(options.to_vec()),
        scheduler: Scheduler::new("none"),
        label: None,
        second: None,
        stripe_width: StripeWidth::Blocks,
        recipe: None,
        mount_point: PathBuf::from("/mnt/flash"),
        allow: Durability::MayCorrupt,
    }
}

fn geometry(erase_block: Option<u64>, write_unit: Option<u64>) -> Geometry {
    let known = |bytes: u64| Sourced::new(Bytes(bytes), QuantitySource::Given);
    Geometry::of_sizes(erase_block.map(known), write_unit.map(known))
}

fn plan(
    filesystem: &FileSystem,
    size: u64,
    geometry: &Geometry,
    options: &[String],
) -> Option<Plan> {
    let none = Geometry::default();
    let inputs =
        choose(filesystem, device(size), geometry.clone(), none, &request(options)).ok()?;
    Plan::make(filesystem, &inputs).ok()
}

/// As trials make it, without what they set in addition.
fn trial(
    filesystem: &FileSystem,
    plan: &Plan,
    geometry: &Geometry,
    options: &[String],
) -> Option<Recipe> {
    let offers = Conditions {
        geometry: geometry.clone(),
        discard: true,
        volatile_cache: true,
        ..Conditions::default()
    };
    let conditions = fitted_conditions(filesystem, &offers, plan.place, SECTOR_BYTES);
    let setup = Setup::new(filesystem, options, Scheduler::new("none"), &conditions).ok()?;
    Some(Recipe::for_trial(filesystem, &setup, &conditions).unwrap())
}

/// How many options were made, and how many refused, by both.
fn compared(catalog: &FileSystemCatalog, name: &str, size: u64, geometry: &Geometry) -> [usize; 2] {
    let mut filesystem = catalog.filesystem(name).unwrap().clone();
    filesystem.trial = flashfit_filesystem::filesystem::TrialOptions::default();
    // Where it goes does not depend on its options.
    let Some(base) = plan(&filesystem, size, geometry, &[]) else { return [0, 0] };
    let (node, mut counts) = (Path::new("/dev/mmcblk0"), [0, 0]);
    for option in &filesystem.options {
        let label = format!("{name} {} {size} {geometry:?}", option.name);
        let options = [option.name.clone()];
        let planned = plan(&filesystem, size, geometry, &options);
        match (planned, trial(&filesystem, &base, geometry, &options)) {
            (None, None) => counts[1] += 1,
            (Some(planned), Some(recipe)) => {
                counts[0] += 1;
                let programs = planned.programs(catalog, node).unwrap();
                let made = recipe.mkfs(&programs.place_node);
                assert_eq!(made.command_line(), programs.mkfs.command_line(), "{label}");
                assert_eq!(recipe.tune(&programs.place_node).len(), programs.tune.len(), "{label}");
                let mount = recipe.mount(&programs.place_node, &planned.mount_point);
                assert_eq!(mount.command_line(), programs.mount.command_line(), "{label}");
            }
            (planned, trial) => {
                let (planned, trial) = (planned.is_some(), trial.is_some());
                panic!("{label}: planned {planned}, tried {trial}");
            }
        }
    }
    counts
}

#[test]
fn what_is_tried_is_what_is_planned() {
    let catalog = FileSystemCatalog::load(None).unwrap();
    let geometries = [
        (None, None),
        (None, Some(16 * KIB)),
        (Some(4 * MIB), None),
        (Some(4 * MIB), Some(16 * KIB)),
        (Some(12 * MIB), Some(48 * KIB)),
        (Some(512 * KIB), Some(2 * KIB)),
        (Some(3 * MIB / 2), Some(8 * KIB)),
        (Some(64 * MIB), Some(64 * KIB)),
        (Some(256 * MIB), Some(4 * KIB)),
    ];
    let [mut made, mut refused] = [0, 0];
    for filesystem in catalog.filesystems().iter().filter(|one| one.layered.is_none()) {
        for (erase_block, write_unit) in geometries {
            for size in [300 * MIB, 1 << 30, 31_914_983_424] {
                let geometry = geometry(erase_block, write_unit);
                let counts = compared(&catalog, &filesystem.name, size, &geometry);
                made += counts[0];
                refused += counts[1];
            }
        }
    }
    assert!(made > 1000 && refused >= 50, "{made} {refused}");
}
