//! A lab: a rack of boards that many share, reserved, locked, reached and switched through labgrid.
//!
//! labgrid's own client program does the talking, so that whatever a lab has set up (proxies, power
//! switches, its version) works as it does by hand; this room knows nothing of trials. A place is
//! held by a [`LockedPlace`] and given back when that is dropped; a [`Lab`] works under a client
//! name of its own, and a record of that name lets the next start give back what a killed process
//! left.
//!
//! Limits: labgrid 25.0 or later (gRPC). Its client prints text alone, which `listing` and
//! `resource` read; a call takes about a second. Locks have no lease: what was left by a machine
//! that never comes back stays, and `labgrid-client release-from` frees it.
//!
//! Source: labgrid 26.0.1, `remote/client.py` and `remote/coordinator.py`.

mod address;
mod client;
mod error;
mod lab;
mod listing;
mod literal;
mod lock;
mod owner;
mod record;
mod recovery;
mod reservation;
mod resource;
mod session;
mod settings;
mod tags;

pub use error::LabError;
pub use lab::Lab;
pub use listing::LabPlace;
pub use lock::{LockState, LockedPlace, PowerState};
pub use recovery::UnreleasedResources;
pub use reservation::Reservation;
pub use settings::LabSettings;
pub use tags::Tags;
