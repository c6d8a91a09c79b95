//! Serves a simulated card: behind the kernel, as a FUSE file with a loop device over it, or over
//! NBD.
//!
//! [`run`] serves a card in its own process; `flashfit-card-client` is how another process
//! starts it and how any process asks it. Nothing stays attached however the process ends: its FUSE
//! mount is taken off the tree as soon as the loop device has the file open, and the loop device
//! clears itself with its last user. What its queue was set to is undone by whichever of the two
//! processes is left; only when both are killed at once does it stay on the free device. A socket
//! that a killed card has left is removed by the next.
//!
//! Limits: the device is called `loopN` and has no card's registers; a loop device has no forced
//! unit access, so a write with it arrives as a write and a flush; flushes, discards and zeros do
//! not overlap with other requests, since the loop driver waits for them. A request to write zeros
//! that allows discarding is tied with a discard. Through the kernel's own caches, timers
//! and schedulers, times are only as exact as those of a real device.

mod buffers;
mod control;
mod delay;
mod kernel;
pub mod live;
pub mod nbd;
mod paths;
mod recording;
mod replies;
mod serve;
mod socket;
mod state;
mod state_error;
mod state_lock;
#[cfg(test)]
mod test_model;
mod way;

pub use kernel::{device_file, fuse_thread};
pub use serve::{ServeError, ServeOptions, refuse, run};
pub use state_error::StateError;
