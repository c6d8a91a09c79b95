//! The real fio on a real file system. Needs root, loop devices, mkfs.ext4 and fio.
//!
//! No test harness: the process enters a mount namespace of its own before it has any thread, so
//! that no mount is left behind however it ends. Tests run one after the other.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test")]

mod bed;
mod files;
mod state;
mod traps;
mod workloads;

use std::process::ExitCode;

use flashfit_test_support::{HarnessTest, run_tests};

/// A test's name and what it does.
type Test = (&'static str, fn());

fn main() -> ExitCode {
    let tests = [traps::TESTS, files::TESTS, state::TESTS, workloads::TESTS].concat();
    let tests = tests.into_iter().map(|(name, test)| HarnessTest::new(name, test)).collect();
    run_tests(tests, 1, || bed::prepare().err())
}
