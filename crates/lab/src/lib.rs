//! Reserves, locks and power-cycles shared boards of a lab through labgrid.
//!
//! All calls go through labgrid's client program, so the lab's proxies, power switches and version
//! work as on the command line. A [`LockedPlace`] is released on drop. Each process uses its own
//! client name and records it on disk, so that the next process can release what a killed one left.
//! A *place* is labgrid's term for a board with its resources.
//!
//! Limits: needs labgrid 25.0 or later (gRPC). The client's text output is parsed (`listing`,
//! `resource`), and a call takes about a second. Locks have no lease: locks left by a machine that
//! never returns must be released with `labgrid-client release-from`.
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
