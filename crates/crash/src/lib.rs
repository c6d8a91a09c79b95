//! Power cuts: what a file system keeps, checked on crash states.
//!
//! A workload is recorded once on a real file system of this kernel ([`log`]). From the log, every
//! state is built that a power cut could have left ([`state`]), and looked at through the kernel
//! ([`observe`]). A model of the workload judges what was found ([`model`]), by what the catalog
//! says that the file system promises.
//!
//! Sources: dm-log-writes (Documentation/admin-guide/device-mapper/log-writes.rst); Mohan et al.,
//! CrashMonkey (OSDI 2018); Pillai et al., ALICE (OSDI 2014).
//!
//! Limits: one process writes, one operation after another, so operations do not overlap.

pub mod blocks;
pub mod board;
pub mod bound;
pub mod campaign;
pub mod content;
pub mod cuts;
pub mod device;
pub mod equivalence;
mod error;
pub mod examination;
pub mod import;
pub mod log;
pub mod model;
pub mod mounting;
pub mod observe;
pub mod record;
pub mod replay;
pub mod setup;
pub mod shrink;
pub mod state;
pub mod timeline;
pub mod verdict;
pub mod workload;

pub use error::{CrashError, MOST_NAMED_USERS};
