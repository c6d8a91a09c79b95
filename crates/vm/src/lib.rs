//! A virtual machine with a program in it, for an ordinary user: a Debian kernel under QEMU, an
//! initramfs built here of that program and the host's own tools, and a byte channel to it.
//!
//! This room knows nothing of trials, agents or file systems: it is handed names of programs,
//! kernel modules and disks. Whoever starts a machine talks to its program through
//! [`Vm::channel`] in whatever protocol the two share.
//!
//! Limits: tried with QEMU 7.2 and Debian 12's kernel on x86-64, with its backported kernel (6.12),
//! and for eMMCs with QEMU 11.1; the arguments for 64-bit ARM are there and untried. The guest has
//! no network but ports that lead into it.

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
mod unfinished;
mod vm;

pub use error::VmError;
pub use facts::{Accelerator, VmFacts};
pub use kernel::{Kernel, KernelError};
pub use options::{ClockSpeed, Disk, DiskInterface, DiskSource, Port, VmOptions};
pub use vm::Vm;
