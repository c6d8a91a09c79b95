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

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// A test's name and what it does.
type Test = (&'static str, fn());

fn main() -> ExitCode {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let tests = [traps::TESTS, files::TESTS, state::TESTS, workloads::TESTS].concat();
    if std::env::args().any(|arg| arg == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if let Err(reason) = bed::prepare() {
        println!("skipped: {reason}");
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, test) in tests {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            let started = Instant::now();
            let ok = catch_unwind(AssertUnwindSafe(test)).is_ok();
            let verdict = if ok { "ok" } else { "FAILED" };
            println!("test {name} ... {verdict} ({} ms)", started.elapsed().as_millis());
            failed += u32::from(!ok);
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
