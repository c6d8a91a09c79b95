//! What the machine lends: programs to run, mounts, loop devices, memory limits, interrupts.
//!
//! This room knows nothing of flash. Every external program goes through [`program`], so that it
//! is recorded, bounded in time, ended with its whole process group, and replaceable in tests.

pub mod capability;
pub mod dir;
pub mod durable;
pub mod error_trace;
mod exchange;
pub mod input_file;
pub mod interrupt;
pub mod kernel_log;
pub mod known_keys;
pub mod lease;
pub mod loop_device;
pub mod memory_limit;
pub mod mount;
pub mod mountinfo;
pub mod peer;
pub mod piped;
pub mod private_folder;
pub mod processor;
pub mod program;
mod program_path;
pub mod room;
mod scripted_runner;
mod ssh_address;
mod system_runner;
pub mod waiting;

pub use program::{Program, ProgramError, ProgramOutcome, Runner, SystemRunner};
pub use ssh_address::SshAddress;
