//! Makes a plan true on a medium, and takes it back.
//!
//! What a medium held is saved and read back before anything is written ([`backup`]); each step is
//! written down before it is begun ([`journal`]), and until the last one the medium itself says
//! that it is unfinished ([`marker`], [`unfinished()`]). Killed at any point, the same call goes
//! on.

pub mod backup;
mod beginning;
mod checksum;
pub mod clock;
mod error;
pub mod install;
pub mod journal;
pub mod marker;
pub mod partition;
mod planned;
mod queue;
mod region;
pub mod restore;
pub mod steps;
mod unfinished;
pub mod verify;
pub mod who;
pub mod work;

pub use backup::Backup;
pub use checksum::Checksum;
pub use error::ApplyError;
pub use install::Install;
pub use journal::{Journal, Records, Stage};
pub use planned::Unworkable;
pub use restore::restore;
pub use steps::{Applied, Event, Request, Tools, apply};
pub use unfinished::{Unfinished, unfinished};
pub use who::Who;
pub use work::Work;
