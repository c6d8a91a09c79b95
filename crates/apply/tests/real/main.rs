//! Work carried out on real images through loop devices, and killed at every step. Needs root, loop
//! devices, sfdisk and mkfs.
//!
//! This test has a main function of its own, because it also is the program that is killed: started
//! with `work …` it carries out one work and dies where it is told to.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test")]

mod bed;
mod kills;
mod refusals;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

/// A test's name and what it does.
type Test = (&'static str, fn());

/// What a machine with two processors can do at once.
const THREADS: usize = 3;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == worker::NAME) {
        return worker::main(&args[1..]);
    }
    let tests = [kills::TESTS, refusals::TESTS].concat();
    if args.iter().any(|arg| arg == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if let Some(reason) = bed::missing() {
        println!("skipped: {reason}");
        return ExitCode::SUCCESS;
    }
    let word = args.iter().find(|arg| !arg.starts_with('-'));
    let wanted = |test: &Test| word.is_none_or(|word| test.0.contains(word.as_str()));
    run(tests.into_iter().filter(wanted).collect())
}

fn run(tests: Vec<Test>) -> ExitCode {
    let waiting = Mutex::new(tests);
    let failed = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().pop();
                    let Some((name, test)) = next else { break };
                    let started = Instant::now();
                    let ok = catch_unwind(AssertUnwindSafe(test)).is_ok();
                    let verdict = if ok { "ok" } else { "FAILED" };
                    println!("test {name} ... {verdict} ({} ms)", started.elapsed().as_millis());
                    *failed.lock().unwrap() += u32::from(!ok);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("test result: {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
