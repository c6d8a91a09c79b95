//! Tests with fio on a file system. They need root, loop devices, mkfs.ext4 and fio.
//!
//! They do not use the standard harness: the process enters its own mount namespace before it
//! starts any thread, so no mount can be left behind. Tests run sequentially.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test")]

mod bed;
mod files;
mod state;
mod traps;
mod workloads;

use std::process::ExitCode;

use flashfit_test_support::{HarnessTest, run_tests};

type Test = (&'static str, fn());

fn main() -> ExitCode {
    let tests = [traps::TESTS, files::TESTS, state::TESTS, workloads::TESTS].concat();
    let tests = tests.into_iter().map(|(name, test)| HarnessTest::new(name, test)).collect();
    run_tests(tests, 1, || bed::prepare().err())
}
