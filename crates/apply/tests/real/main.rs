//! Work carried out on real images through loop devices, and killed at every step. Needs root, loop
//! devices, sfdisk and mkfs.
//!
//! This test has its own main function, because it also is the program that is killed: started
//! with `work …` it applies one plan and dies where the argument says.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test")]

mod bed;
mod handed;
mod improving;
mod kills;
mod refusals;
mod worker;

use std::process::ExitCode;

use flashfit_test_support::{HarnessTest, run_tests};

/// A test's name and what it does.
type Test = (&'static str, fn());

/// What a machine with two processors can do at once.
const THREADS: usize = 3;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == worker::NAME) {
        return worker::main(&args[1..]);
    }
    if args.first().is_some_and(|first| first == improving::NAME) {
        return improving::main(&args[1..]);
    }
    let plain = |&(name, test): &Test| HarnessTest::new(name, test);
    let daily = refusals::TESTS
        .iter()
        .chain(handed::TESTS)
        .chain(improving::TESTS)
        .chain(kills::DAILY)
        .map(plain);
    let full = kills::FULL.iter().map(plain).map(HarnessTest::only_in_full);
    run_tests(daily.chain(full).collect(), THREADS, bed::missing)
}
