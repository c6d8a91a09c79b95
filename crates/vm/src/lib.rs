//! Runs a program in a virtual machine without root: a Debian kernel under QEMU, an initramfs with
//! the program and tools of the host, and a byte channel to the program ([`Vm::channel`]).
//!
//! The crate is independent of trials, agents and file systems: its input is names of programs,
//! kernel modules and disks.
//!
//! Limits: tested with QEMU 7.2 and Debian 12's kernels (6.1 and 6.12) on x86-64, and with QEMU
//! 11.1 for eMMCs; 64-bit ARM is untested. The guest has no network except forwarded ports.

pub mod doctor;
pub mod kernel;
pub mod modules;

mod architecture;
mod cache_folder;
mod command_line;
mod cpio;
mod elf;
mod error;
mod facts;
mod initramfs;
mod kvm;
mod options;
mod programs;
mod qemu;
mod qmp;
mod saved;
mod tree;
mod trimmed;
mod unfinished;
mod vm;

pub use error::VmError;
pub use facts::{Accelerator, VmFacts};
pub use kernel::{Kernel, KernelError};
pub use options::{ClockSpeed, Disk, DiskInterface, DiskSource, Port, VmOptions};
pub use vm::Vm;
