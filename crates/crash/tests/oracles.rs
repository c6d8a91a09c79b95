//! Campaigns on the file systems of this kernel: honest ones raise no alarm, and each fault is
//! noticed.
//!
//! Needs root, FUSE, loop devices and the programs of the file systems.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;

use flashfit_crash::CrashError;
use flashfit_crash::campaign::{
    BrokenState, Campaign, CampaignFolder, CampaignLimits, CampaignPlan, CampaignStart,
    MountPoints, SetupResult, StateBatch,
};
use flashfit_crash::model::Oracle;
use flashfit_crash::replay::{FoundState, replay};
use flashfit_crash::setup::CrashSetup;
use flashfit_crash::shrink::shrink;
use flashfit_crash::state::{ENUMERATION, FlushFault};
use flashfit_crash::workload::CrashWorkload;
use flashfit_device::Bytes;
use flashfit_filesystem::{Conditions, FileSystemCatalog, Promise};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
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
        workload: CrashWorkload::Files,
        seed: 20_000,
        states: Some(states),
        unit_sectors: 8,
        flushes: FlushFault::None,
        card: None,
        kernel: None,
        board: None,
        requests: None,
        start: CampaignStart { enumeration: Some(ENUMERATION), ..CampaignStart::default() },
    }
}

fn setup(label: &str) -> CrashSetup {
    let catalog = FileSystemCatalog::load(None).unwrap();
    let known = |bytes| Some(Sourced::new(bytes, QuantitySource::Given));
    let geometry = Geometry::of_sizes(known(Bytes::mib(4)), known(Bytes::kib(8)));
    let conditions =
        Conditions { geometry, discard: true, volatile_cache: true, ..Conditions::default() };
    CrashSetup::parse(label, &catalog, &conditions).unwrap()
}

fn result(plan: &CampaignPlan) -> SetupResult {
    let setup = setup(&plan.setups[0]);
    let dir = tempfile::tempdir().unwrap();
    let points = MountPoints::take(&[dir.path()]).unwrap();
    let folder = CampaignFolder::open(dir.path(), plan).unwrap();
    let runner = SystemRunner::default();
    let setups = [setup];
    let campaign = Campaign {
        plan,
        setups: &setups,
        folder: &folder,
        points: &points,
        machine: None,
        requests: None,
        runner: &runner,
    };
    let limits = CampaignLimits { time: None, workers: 2, keeps_logs: false, looks_at_all: false };
    let results = campaign.run(&limits, &|_| {}).unwrap();
    let result = results.into_iter().next().unwrap();
    assert!(result.counts.states >= plan.states.unwrap(), "{result:?}");
    result
}

fn run(plan: &CampaignPlan) -> SetupResult {
    let result = result(plan);
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
fn options_that_need_a_larger_device_are_made_and_mounted() {
    if is_missing("btrfs") || is_missing("xfs") {
        return;
    }
    isolated(|| {
        for label in
            ["btrfs:data-dup", "btrfs:nodesize-64k", "xfs:geometry", "xfs:geometry+swalloc"]
        {
            let counts = result(&plan(label, 40)).counts;
            assert_eq!(counts.by_promise.get(&Promise::Consistent), None, "{label}: {counts:?}");
        }
    });
}

#[test]
#[ignore = "full: thousands of states"]
fn honest_file_systems_raise_no_alarm() {
    if is_missing("ext4") || is_missing("xfs") {
        return;
    }
    isolated(|| {
        for workload in ["files", "metadata", "sqlite:wal-full", "sqlite:delete-full"] {
            let workload = CrashWorkload::parse(workload).unwrap();
            for label in ["ext4", "xfs", "ext4:journal-data", "ext3"] {
                assert_honest(&run(&CampaignPlan {
                    workload: workload.clone(),
                    ..plan(label, 150)
                }));
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
            ("ext4:writeback+nodelalloc", Promise::OwnData),
            ("ext4:noauto_da_alloc", Promise::ReplaceNotEmpty),
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

/// `write f; fsync f; write t; rename t f; fsync other`: after a power cut, f is neither.
#[test]
#[ignore = "full: thousands of states, and minutes of shrinking"]
fn a_file_that_btrfs_loses_is_found_and_shrunk() {
    if is_missing("btrfs") {
        return;
    }
    isolated(|| {
        let plan = CampaignPlan { seed: 1, ..plan("btrfs", 2400) };
        let dir = tempfile::tempdir().unwrap();
        let points = MountPoints::take(&[dir.path()]).unwrap();
        let folder = CampaignFolder::open(dir.path(), &plan).unwrap();
        let runner = SystemRunner::default();
        let setups = [setup("btrfs")];
        let campaign = Campaign {
            plan: &plan,
            setups: &setups,
            folder: &folder,
            points: &points,
            machine: None,
            requests: None,
            runner: &runner,
        };
        let limits =
            CampaignLimits { time: None, workers: 2, keeps_logs: false, looks_at_all: false };
        let results = campaign.run(&limits, &|_| {}).unwrap();
        let is_lost = |broken: &&BrokenState| {
            broken.violations.iter().any(|found| found.oracle == Oracle::Replace)
        };
        let lost = results[0].examples.iter().find(is_lost).expect("the file is lost");
        let found = FoundState::find(&folder, &plan, &lost.id).unwrap();
        let seen = replay(&found, &setups[0], &plan, &runner, &points, None, None).unwrap();
        assert_eq!(seen.violations, lost.violations);
        let shrunk = shrink(&found, &setups[0], &plan, &runner, &points, None, &|_| {}).unwrap();
        assert!(shrunk.operations.len() <= 6, "{:#?}", shrunk.operations);
        assert!(shrunk.state.dropped.is_empty(), "{:?}", shrunk.state);
    });
}

/// Batches enough for several interruptions.
const FIRST_ROUND: u64 = 400;

/// A campaign that ends at any batch continues with the same log, and counts no state twice.
#[test]
fn an_interrupted_campaign_continues() {
    if is_missing("ext4") {
        return;
    }
    isolated(|| {
        let plan = CampaignPlan { flushes: FlushFault::All, ..plan("ext4", FIRST_ROUND) };
        let dir = tempfile::tempdir().unwrap();
        let points = MountPoints::take(&[dir.path()]).unwrap();
        for attempt in 1.. {
            // As with a catalog that changed meanwhile: a log keeps the size of its device.
            let mut setups = [setup("ext4")];
            setups[0].device_bytes += attempt << 26;
            let folder = CampaignFolder::open(dir.path(), &plan).unwrap();
            let runner = SystemRunner::default();
            let campaign = Campaign {
                plan: &plan,
                setups: &setups,
                folder: &folder,
                points: &points,
                machine: None,
                requests: None,
                runner: &runner,
            };
            let limits =
                CampaignLimits { time: None, workers: 1, keeps_logs: true, looks_at_all: false };
            // As a kill in the middle of the next record leaves it.
            let watch = |_: &StateBatch| runner.interrupt().raise();
            match campaign.run(&limits, &watch) {
                Err(CrashError::Interrupted) => {
                    let records = dir.path().join("records.jsonl");
                    let mut file = File::options().append(true).open(records).unwrap();
                    file.write_all(b"{\"setup\": \"ext4\", \"rou").unwrap();
                    assert!(attempt < 30, "it does not end");
                }
                ended => {
                    let results = ended.unwrap();
                    let expected = FIRST_ROUND + results[0].counts.recovery_cuts;
                    assert_eq!(results[0].counts.states, expected, "{:?}", results[0].counts);
                    assert!(attempt > 2, "it was never interrupted");
                    break;
                }
            }
        }
        let folder = CampaignFolder::open(dir.path(), &plan).unwrap();
        let mut next = BTreeMap::new();
        for batch in folder.batches().unwrap() {
            let at = next.entry(batch.round).or_insert(0);
            assert_eq!(*at, batch.from, "a state is missing or counted twice");
            *at = batch.to;
        }
    });
}

#[test]
#[ignore = "full: hundreds of states"]
fn a_device_that_ignores_flushes_damages_databases() {
    if is_missing("ext4") || skip(programs(&["sqlite3"])) {
        return;
    }
    isolated(|| {
        for mode in ["sqlite:wal-full", "sqlite:delete-extra"] {
            let workload = CrashWorkload::parse(mode).unwrap();
            let plan = CampaignPlan { workload, flushes: FlushFault::All, ..plan("ext4", STATES) };
            assert_caught(&plan, Promise::Synced);
        }
    });
}
