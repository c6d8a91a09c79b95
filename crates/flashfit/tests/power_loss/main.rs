//! A power cut at any moment of a run, of `apply` and of `restore`: what the disk may hold then
//! (`flashfit_test_support::power_loss`), and whether flashfit goes on from there.
//!
//! The built command runs under strace. Every state that its writes may leave is put on a disk in
//! memory and checked in this process; of some, the command itself goes on to the end. Needs root,
//! loop devices and strace.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking")]

mod bed;
mod campaign;
mod device;
mod run;

use bed::skip_without_strace;
use flashfit_test_support::power_loss::CrashEffort;

/// What `cargo test` can wait for.
const DAILY: CrashEffort = CrashEffort { singles: 3, random: 2, seed: 23 };
const FULL: CrashEffort = CrashEffort { singles: 40, random: 60, seed: 23 };

#[test]
fn a_run_goes_on_after_a_power_cut() {
    if skip_without_strace() {
        return;
    }
    run::tally(DAILY, 1, 1).assert_none_lost();
}

#[test]
fn a_device_is_never_lost_by_a_power_cut() {
    if skip_without_strace() {
        return;
    }
    let few = CrashEffort { singles: 1, random: 1, ..DAILY };
    device::tally(few, 1, &["gpt"]).assert_none_lost();
}

#[test]
fn a_sync_that_is_left_out_is_noticed() {
    if skip_without_strace() {
        return;
    }
    run::every_sync_of_a_result_is_needed();
}

#[test]
#[ignore = "full: thousands of states"]
fn many_power_cuts_lose_nothing() {
    if skip_without_strace() {
        return;
    }
    let mut tally = run::tally(FULL, 3, 20);
    tally.add(device::tally(FULL, 40, &["gpt", "mbr", "none"]));
    println!("together: {tally}");
    tally.assert_none_lost();
}

#[test]
#[ignore = "full: a campaign for each sync"]
fn a_backup_that_is_not_synced_is_noticed() {
    if skip_without_strace() {
        return;
    }
    device::every_sync_before_the_device_is_needed();
}
