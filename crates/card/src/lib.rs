//! Simulates a flash card: NAND, translation layer, cache, timing.
//!
//! A [`CardModel`] is parsed from a card file; a [`Card`] serves requests and returns how long each
//! takes. [`InProcessCard`] advances a clock by that time, for probes and tests.
//! `flashfit-card-server` attaches a card to the kernel as a block device. [`cut`] simulates power
//! cuts with honest and faulty devices; [`snapshot`] saves and loads a whole card.
//!
//! Limits: the only flash errors are those of a power cut; data does not decay; worn blocks keep
//! working and are only counted. All layers level wear dynamically by taking the least worn free
//! block; only page-mapped layers level statically, and only they collect and fold in idle time.

pub mod cache;
pub mod card;
pub mod catalog;
pub mod counters;
pub mod cut;
pub mod in_process;
mod large_table;
pub mod layer;
pub mod model;
pub mod nand;
pub mod noise;
pub mod patterns;
mod request_parts;
pub mod snapshot;
pub mod trace;
pub mod zeroed;

pub use card::{Card, CardRequest};
pub use catalog::CardError;
pub use counters::{Counters, ErasesPerBlock, Merges};
pub use cut::{CutMoment, CutOptions, CutReport, EnabledFault, FaultClass};
pub use in_process::InProcessCard;
pub use model::{CardModel, ModelError};
pub use nand::BlockWear;
pub use nand::life::SpareBlocks;
pub use snapshot::SnapshotError;
