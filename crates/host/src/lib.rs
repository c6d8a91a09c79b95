//! Access to the host: programs, mounts, loop devices, memory limits, signals, durable files.
//!
//! Every external program runs through [`program`], which records the command, limits its run time,
//! kills its whole process group, and can be replaced in tests.

pub mod at_panic;
pub mod byte_text;
pub mod calendar;
pub mod capability;
mod confinement;
mod descendants;
pub mod dir;
pub mod durable;
pub mod error_trace;
mod exchange;
pub mod file_lock;
pub mod free_space;
mod handed_file;
pub mod input_file;
pub mod interrupt;
pub mod kernel_log;
pub mod known_keys;
pub mod lease;
pub mod loop_device;
pub mod loop_renewal;
pub mod memory_limit;
pub mod mount;
pub mod mount_users;
pub mod mountinfo;
pub mod new_folder;
pub mod path_text;
pub mod peer;
pub mod piped;
pub mod private_folder;
pub mod processor;
pub mod program;
mod program_path;
pub mod replaceable_file;
mod scripted_runner;
mod ssh_address;
mod system_runner;
pub mod visible;
pub mod waiting;

pub use confinement::Confinement;
pub use program::{Program, ProgramError, ProgramOutcome, Runner, SystemRunner};
pub use ssh_address::SshAddress;
