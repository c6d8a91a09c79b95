//! Campaigns on the file systems of this kernel: honest ones raise no alarm, and each fault is
//! noticed.
//!
//! Needs root, FUSE, loop devices and the programs of the file systems.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flashfit_crash::campaign::{
    Campaign, CampaignFolder, CampaignLimits, CampaignPlan, MountPoints, SetupResult,
};
use flashfit_crash::model::Oracle;
use flashfit_crash::setup::CrashSetup;
use flashfit_crash::state::FlushFault;
use flashfit_crash::workload::WorkloadKind;
use flashfit_filesystem::{Conditions, FileSystemCatalog, Promise};
use flashfit_host::SystemRunner;
use flashfit_test_support::{isolated, programs, simulated_cards, skip};

/// As many as a fault may take to be noticed.
const STATES: u64 = 300;

fn is_missing(label: &str) -> bool {
    let programs = match label.split(':').next().unwrap() {
        "btrfs" => programs(&["mkfs.btrfs", "btrfs"]),
        "xfs" => programs(&["mkfs.xfs", "xfs_repair"]),
        _ => programs(&["mkfs.ext4", "e2fsck"]),
    };
    skip(simulated_cards().or(programs))
}

fn plan(label: &str, states: u64) -> CampaignPlan {
    CampaignPlan {
        setups: vec![label.to_owned()],
        workload: WorkloadKind::Files,
        seed: 20_000,
        states: Some(states),
        unit_sectors: 8,
        flushes: FlushFault::None,
    }
}

fn run(plan: &CampaignPlan) -> SetupResult {
    let catalog = FileSystemCatalog::load(None).unwrap();
    let conditions = Conditions { discard: true, volatile_cache: true, ..Conditions::default() };
    let setup = CrashSetup::parse(&plan.setups[0], &catalog, &conditions).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let points = MountPoints::take(&[dir.path()]).unwrap();
    let folder = CampaignFolder::open(dir.path(), plan).unwrap();
    let runner = SystemRunner::default();
    let setups = [setup];
    let campaign =
        Campaign { plan, setups: &setups, folder: &folder, points: &points, runner: &runner };
    let limits = CampaignLimits { time: None, workers: 2, keeps_logs: false };
    let results = campaign.run(&limits, &|_| {}).unwrap();
    let result = results.into_iter().next().unwrap();
    assert!(result.counts.states >= plan.states.unwrap(), "{result:?}");
    assert!(result.counts.mounted > 0 && result.counts.recovery_cuts > 0, "{result:?}");
    assert_eq!(result.counts.mismatched, 0, "{result:?}");
    result
}

#[track_caller]
fn assert_honest(result: &SetupResult) {
    assert_eq!(result.counts.broken, 0, "{:#?}", result.examples);
}

#[track_caller]
fn assert_caught(plan: &CampaignPlan, promise: Promise) {
    let result = run(plan);
    let count = result.counts.by_promise.get(&promise).copied().unwrap_or(0);
    assert!(count > 0, "{promise} of {:?}: {:?}", plan.setups, result.counts);
}

#[test]
fn ext4_keeps_its_promises() {
    if is_missing("ext4") {
        return;
    }
    isolated(|| assert_honest(&run(&plan("ext4", 60))));
}

#[test]
#[ignore = "full: thousands of states"]
fn honest_file_systems_raise_no_alarm() {
    if is_missing("ext4") || is_missing("xfs") {
        return;
    }
    isolated(|| {
        for workload in WorkloadKind::ALL {
            for label in ["ext4", "xfs", "ext4:fast_commit", "ext4:journal-data", "ext3"] {
                assert_honest(&run(&CampaignPlan { workload, ..plan(label, 1000) }));
            }
        }
    });
}

#[test]
#[ignore = "full: thousands of states"]
fn options_that_give_up_promises_are_noticed() {
    if is_missing("ext4") || is_missing("btrfs") {
        return;
    }
    isolated(|| {
        for (label, promise) in [
            ("ext4:nobarrier", Promise::Synced),
            ("btrfs:nobarrier", Promise::Synced),
            ("ext4:nojournal", Promise::Consistent),
            ("ext4:writeback", Promise::ReplaceWithoutFsync),
            ("ext4:noauto_da_alloc", Promise::ReplaceWithoutFsync),
        ] {
            assert_caught(&plan(label, STATES), promise);
        }
    });
}

#[test]
#[ignore = "full: hundreds of states"]
fn ignored_flushes_are_noticed() {
    if is_missing("ext4") || is_missing("btrfs") {
        return;
    }
    isolated(|| {
        for flushes in [FlushFault::One, FlushFault::All] {
            for label in ["ext4", "btrfs"] {
                let plan = CampaignPlan { flushes, ..plan(label, STATES) };
                assert_caught(&plan, Promise::Synced);
            }
        }
    });
}

#[test]
#[ignore = "full: thousands of states"]
fn a_file_that_btrfs_loses_is_noticed() {
    if is_missing("btrfs") {
        return;
    }
    isolated(|| {
        let result = run(&plan("btrfs", 2000));
        assert!(result.counts.by_oracle.contains_key(&Oracle::Replace), "{:?}", result.counts);
    });
}
