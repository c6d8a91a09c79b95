//! What a test needs of the machine, and what happens without it: the test is skipped and the skip
//! is recorded, or it fails where the environment requires the need.
//!
//! `FLASHFIT_REQUIRE=root,loop,fuse` lists needs whose absence is a failure. `FLASHFIT_SKIP_LOG`
//! names a file to which each skip is appended as `TEST<TAB>REASON`; the reason of a test that ran
//! in part starts with `in part: `. [`isolated`] gives a test its own namespaces. Only for
//! tests and benchmarks.

#![expect(clippy::print_stdout, reason = "it prints for tests")]

mod harness;
mod isolated;
mod need;
pub mod power_loss;
mod skip;

use tempfile::TempDir;

pub use harness::{HarnessTest, run_tests};
pub use isolated::{
    is_isolated, isolated, isolated_as, isolated_if_root, isolated_if_root_as, name_of,
};
pub use need::{MissingNeed, TestNeed, block_devices, program, programs, simulated_cards};
pub use skip::{IN_PART, REQUIRE, SKIP_LOG, skip, skip_part, with_test_name};

/// A temporary folder where syncing costs nothing, for tests that are not about the disk; on the
/// disk where there is no such place.
pub fn tempdir_in_memory() -> std::io::Result<TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}
