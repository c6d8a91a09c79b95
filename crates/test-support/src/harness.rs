//! Runs tests like libtest, for test programs with their own main function: those that also are
//! the program under test, or that enter a namespace before their first thread.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::need::MissingNeed;
use crate::skip::{skip, with_test_name};

/// One test of a test program with its own main function.
pub struct HarnessTest {
    name: String,
    full: bool,
    run: Box<dyn FnOnce() + Send>,
}

impl HarnessTest {
    /// A test that fails by panicking.
    pub fn new(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> Self {
        Self { name: name.into(), full: false, run: Box::new(run) }
    }

    /// Ignored unless all tests are run.
    #[must_use]
    pub fn only_in_full(mut self) -> Self {
        self.full = true;
        self
    }
}

/// Runs what the arguments select, at most so many at a time. All are skipped where `missing`,
/// which is not called for a list, names something.
pub fn run_tests(
    tests: Vec<HarnessTest>,
    at_a_time: usize,
    missing: impl FnOnce() -> Option<MissingNeed>,
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(at_a_time);
    let missing = if arguments.list { None } else { missing() };
    // scripts/run-tests.sh computes durations with it.
    println!("at most {} at a time", arguments.test_threads.unwrap_or(at_a_time));
    let trials = tests.into_iter().map(|test| trial(test, missing.clone())).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(test: HarnessTest, missing: Option<MissingNeed>) -> Trial {
    let (name, run) = (test.name.clone(), test.run);
    let guarded = move || {
        with_test_name(&name, || {
            if !skip(missing) {
                run();
            }
        });
        Ok(())
    };
    Trial::test(test.name, guarded).with_ignored_flag(test.full)
}
