//! A card behind this kernel: a FUSE file with a loop device over it.

mod attach;
pub mod device_file;
mod file_system;
pub mod fuse_thread;
mod queue;
mod way;

pub use attach::KernelCard;
