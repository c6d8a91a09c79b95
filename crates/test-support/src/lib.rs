//! Skips tests that the machine cannot run, and isolates tests from each other.
//!
//! A skip is recorded, or fails the test if the environment requires the need:
//! `FLASHFIT_REQUIRE=root,loop,fuse` lists required needs. `FLASHFIT_SKIP_LOG` names a file to
//! which each skip is appended as `TEST<TAB>REASON`; the reason of a test that ran in part starts
//! with `in part: `. [`isolated`] runs a test in its own namespaces. Only for tests and benchmarks.

#![expect(clippy::print_stdout, reason = "it prints for tests")]

mod attempts;
mod golden;
mod harness;
mod help_pages;
mod isolated;
pub mod literals;
mod need;
pub mod power_loss;
mod skip;

use tempfile::TempDir;

pub use attempts::{ATTEMPTS_LOG, AttemptKind, attempted};
pub use golden::{BLESS, golden};
pub use harness::{HarnessTest, run_tests};
pub use help_pages::{HelpPage, help_pages};
pub use isolated::{
    is_isolated, isolated, isolated_as, isolated_if_root, isolated_if_root_as, name_of,
};
pub use need::{MissingNeed, TestNeed, block_devices, program, programs, simulated_cards};
pub use skip::{IN_PART, REQUIRE, SKIP_LOG, skip, skip_part, with_test_name};

/// A temporary folder in memory, for tests that do not need a disk; falls back to the disk.
pub fn tempdir_in_memory() -> std::io::Result<TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}
