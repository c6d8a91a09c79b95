//! Runs tests like libtest in test programs with their own main function: programs that are also
//! the program under test, or that must enter a namespace before they start a thread.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::need::MissingNeed;
use crate::skip::{skip, with_test_name};

/// A test for [`run_tests`].
pub struct HarnessTest {
    name: String,
    is_long: bool,
    run: Box<dyn FnOnce() + Send>,
}

impl HarnessTest {
    /// A test that fails by panicking.
    pub fn new(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> Self {
        Self { name: name.into(), is_long: false, run: Box::new(run) }
    }

    /// Marks the test as ignored unless ignored tests are included.
    #[must_use]
    pub fn only_in_full(mut self) -> Self {
        self.is_long = true;
        self
    }
}

/// Runs the tests selected on the command line, at most `at_a_time` at once. All are skipped if
/// `missing` returns a need; it is not called for `--list`.
pub fn run_tests(
    tests: Vec<HarnessTest>,
    at_a_time: usize,
    missing: impl FnOnce() -> Option<MissingNeed>,
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(at_a_time);
    let missing = if arguments.list { None } else { missing() };
    // Parsed by scripts/run-tests.sh to compute durations.
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
    Trial::test(test.name, guarded).with_ignored_flag(test.is_long)
}
