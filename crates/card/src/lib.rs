//! The simulated card: NAND, translation layer, cache, timing, and its sockets.
//!
//! A [`CardModel`] is read from the catalogue; a [`Card`] serves requests after it and says how
//! long each takes. [`InProcessCard`] passes that time on a clock, for probes and tests; [`served`]
//! puts the card behind a real kernel as a block device.
//!
//! Limits of this version: one request at a time, no background work in idle time, no faults but
//! the loss of the volatile cache, no static wear levelling, no overlap of bus and NAND.

pub mod cache;
pub mod card;
pub mod catalogue;
pub mod counters;
pub mod in_process;
pub mod layer;
pub mod model;
pub mod nand;
mod pieces;
pub mod served;
pub mod zeroed;

pub use card::{Card, Request};
pub use catalogue::CardError;
pub use counters::{Counters, ErasesPerUnit, Merges};
pub use in_process::InProcessCard;
pub use model::{CardModel, ModelError};
