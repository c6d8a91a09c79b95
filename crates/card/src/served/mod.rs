//! A card behind a real kernel: a FUSE file with a loop device over it.
//!
//! [`run`] serves a card in a process of its own; [`CardProcess`] is how another process starts and
//! talks to it; [`stats`] asks any card that is being served. Nothing stays attached however the
//! process ends: its FUSE mount is taken off the tree as soon as the loop device holds the file,
//! and the loop device clears itself with its last user. What its queue was set to is undone by
//! whichever of the two processes is left; only when both are killed at once does it stay on the
//! free device.
//!
//! Limits: the device is called `loopN` and has no card's registers; one request at a time (the
//! kernel is not asked for `FUSE_ASYNC_DIO`); a loop device has no forced unit access, so a write
//! with it arrives as a write and a flush. A request to write zeros that allows discarding cannot
//! be told from a discard. Through the kernel's own caches, timers and schedulers, times are only
//! as exact as those of a real device.

mod control;
mod delay;
mod file_system;
mod process;
mod protocol;
mod queue;
mod renewal;
mod serve;
mod socket;

pub use process::{CardProcess, ProcessError};
pub use protocol::{Answer, Failure};
pub use serve::{ServeError, ServeOptions, refuse, run};
pub use socket::{StatsError, stats};
