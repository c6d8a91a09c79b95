//! A card behind this kernel: a FUSE file with a loop device over it.

mod attach;
mod file_system;
mod queue;
pub(super) mod renewal;
mod way;

pub use attach::KernelCard;
