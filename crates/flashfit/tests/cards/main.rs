//! Tests every card of the catalog with every file system: a complete fio run, a power cut during
//! another, the repair of the file system, and reading back all synced data.
//!
//! It has its own main function, because the mount namespace must be private before the first
//! thread starts. An argument selects pairs by name, such as `sd-c4-block/ext4` or `btrfs`. Needs
//! root, FUSE, loop devices, fio and the file systems' tools.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "it is its own test harness")]

mod life;
mod repair;
mod witness;

use std::process::ExitCode;

use flashfit_host::mount::enter_private_namespace;
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{HarnessTest, program, run_tests, simulated_cards, skip};

/// Cards mostly wait, so more tests than processors can run at a time.
const AT_A_TIME: usize = 8;

fn main() -> ExitCode {
    run_tests(tests(), AT_A_TIME, || {
        let missing = simulated_cards().or_else(|| program("fio"));
        if missing.is_none() {
            enter_private_namespace().unwrap();
            share_mounts();
        }
        missing
    })
}

/// Each card's process copies the mounts at its start. Unmounts must propagate to it, or it would
/// keep the device of another card in use.
fn share_mounts() {
    let mount = Program::new("mount").args(["--make-rshared", "/"]);
    SystemRunner::default().run_checked(&mount).unwrap();
}

/// Every card with every file system; only the first card unless all tests are requested.
fn tests() -> Vec<HarnessTest> {
    let mut tests = Vec::new();
    for filesystem in repair::FILE_SYSTEMS {
        for (number, model) in flashfit_card::catalog::all(None).unwrap().iter().enumerate() {
            let (name, card) = (format!("{}/{filesystem}", model.name), model.name.clone());
            let test = HarnessTest::new(name, move || live(&card, filesystem));
            tests.push(if number == 0 { test } else { test.only_in_full() });
        }
    }
    tests
}

fn live(card: &str, filesystem: &str) {
    if skip(repair::lacking(filesystem)) {
        return;
    }
    match life::of(card, filesystem) {
        Ok(told) => println!("{card}/{filesystem}: {told}"),
        Err(what) => panic!("{card}/{filesystem}: {what}"),
    }
}
