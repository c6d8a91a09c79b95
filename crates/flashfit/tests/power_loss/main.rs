//! Power cuts at any moment of `tune`, `apply` and `restore`: checks that flashfit can continue
//! from every possible state of the disk (`flashfit_test_support::power_loss`).
//!
//! The built command runs under strace. Every state that its writes may leave is recreated in
//! memory and checked in this process; for some states, the command itself continues to the end.
//! Needs root, loop devices and strace.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking")]

mod bed;
mod campaign;
mod device;
mod run;

use std::sync::Mutex;

use bed::skip_without_strace;
use campaign::Tally;
use device::DeviceScenario::{Apply, Restore};
use device::{large, small};
use flashfit_test_support::power_loss::CrashEffort;
use flashfit_test_support::{AttemptKind, attempted, isolated};
use run::RunScenario::{Fresh, Resumed};

/// Few enough for `cargo test`.
const DAILY: CrashEffort = CrashEffort { singles: 3, random: 2, seed: 23 };
const FEW: CrashEffort = CrashEffort { singles: 1, random: 1, ..DAILY };
const FULL: CrashEffort = CrashEffort { singles: 20, random: 80, seed: 23 };
/// For large devices, whose states take long to check.
const LESS: CrashEffort = CrashEffort { singles: 4, random: 4, seed: 23 };
/// For runs and for `restore`, where most random states are equal to earlier ones.
const MORE: CrashEffort = CrashEffort { singles: 40, random: 500, seed: 23 };
/// What all campaigns must come to.
const MANY: usize = 10_000;

#[test]
fn a_run_can_be_resumed_after_a_power_cut() {
    isolated(|| {
        if !skip_without_strace() {
            run::tally(DAILY, Fresh, 1, 1).assert_none_lost();
            run::tally(DAILY, Resumed, 1, 0).assert_none_lost();
        }
    });
}

#[test]
fn a_device_is_never_lost_by_a_power_cut() {
    isolated(|| {
        if !skip_without_strace() {
            device::tally(FEW, Apply(small("gpt")), 1).assert_none_lost();
            device::tally(FEW, Restore(small("gpt")), 1).assert_none_lost();
        }
    });
}

#[test]
fn a_missing_sync_is_noticed() {
    isolated(|| {
        if !skip_without_strace() {
            run::every_sync_of_a_result_is_needed();
        }
    });
}

/// Each campaign is on its own device and in its own directory; they run on all processors.
#[test]
#[ignore = "full: thousands of states"]
fn many_power_cuts_lose_nothing() {
    isolated(|| {
        if skip_without_strace() {
            return;
        }
        let mut campaigns: Vec<Box<dyn Fn() -> Tally + Send>> = Vec::new();
        for scenario in [Fresh, Resumed] {
            campaigns.push(Box::new(move || run::tally(MORE, scenario, 3, 6)));
        }
        campaigns.push(Box::new(|| device::tally(LESS, Apply(large("gpt")), 4)));
        campaigns.push(Box::new(|| device::tally(LESS, Restore(large("gpt")), 4)));
        for table in ["gpt", "mbr", "none"] {
            campaigns.push(Box::new(move || device::tally(FULL, Apply(small(table)), 6)));
            campaigns.push(Box::new(move || device::tally(MORE, Restore(small(table)), 6)));
        }
        let campaigns = Mutex::new(campaigns.into_iter());
        let together = Mutex::new(Tally::default());
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    loop {
                        let next = campaigns.lock().unwrap().next();
                        let Some(campaign) = next else { return };
                        let tally = campaign();
                        together.lock().unwrap().add(tally);
                    }
                });
            }
        });
        let together = together.into_inner().unwrap();
        println!("power-cut states: {together}");
        // The daily tests check a part of these states again, which is not counted.
        attempted(AttemptKind::PowerCutState, together.states);
        together.assert_none_lost();
        assert!(together.states >= MANY, "only {} distinct states", together.states);
    });
}

#[test]
#[ignore = "full: a campaign for each sync"]
fn an_unsynced_backup_is_noticed() {
    isolated(|| {
        if !skip_without_strace() {
            device::every_sync_before_the_device_is_needed();
        }
    });
}
