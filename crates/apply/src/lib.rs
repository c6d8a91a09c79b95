//! Makes a plan true on a device, and takes it back.
//!
//! What a device held is saved and read back before anything is written ([`backup`]); each step is
//! written down before it is begun ([`journal`]), and until the last one the device itself says
//! that it is unfinished ([`marker`], [`unfinished()`]). Killed at any point, the same call goes
//! on.

pub mod backup;
mod beginning;
mod checksum;
mod error;
pub mod fingerprint;
pub mod install;
pub mod job;
pub mod journal;
pub mod keep_data;
pub mod marker;
mod packing;
pub mod partition;
mod planned;
mod region;
pub mod restore;
pub mod steps;
mod sysfs_queue;
mod unfinished;
pub mod verify;

pub use backup::Backup;
pub use checksum::PartChecksum;
pub use error::{ApplyError, FaultyPlace};
pub use fingerprint::DeviceFingerprint;
pub use install::{InstallTarget, RulePlacement};
pub use job::ApplyJob;
pub use journal::{ApplyJournal, ApplyStage, UnfinishedRecords};
pub use planned::InfeasiblePlan;
pub use restore::restore;
pub use steps::{Applied, ApplyEvent, ApplyRequest, ApplyTools, WrittenPart, apply, mount};
pub use unfinished::{UnfinishedChange, unfinished};
