//! Every file system of the catalog, made by its real mkfs in a partition of a loop device, read
//! back by [`flashfit_filesystem::facts`], and mounted and checked where this kernel supports it.
//!
//! Needs root, loop devices and the tools; what is lacking is said, and that part is left out.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod card;
mod discards;
mod layers;
mod options;
mod read_back;
