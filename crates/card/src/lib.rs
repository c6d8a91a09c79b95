//! The simulated card: NAND, translation layer, cache, timing.
//!
//! A [`CardModel`] is read from the catalog; a [`Card`] serves requests after it and says how
//! long each takes. [`InProcessCard`] passes that time on a clock, for probes and tests.
//! `flashfit-card-server` puts a card behind a real kernel as a block device.
//!
//! [`cut`] takes its power away, with what honest devices and others do then; [`snapshot`] saves
//! and loads it whole.
//!
//! Limits: flash has no errors but those of a cut, does not forget, and works on beyond its rated
//! endurance, which is only counted. Wear is levelled by the least worn free unit everywhere, by
//! moving what never changes in page-mapped layers alone; these also collect and fold in idle time,
//! the others do not.

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
mod request_parts;
pub mod snapshot;
pub mod zeroed;

pub use card::{Card, CardRequest};
pub use catalog::CardError;
pub use counters::{Counters, ErasesPerBlock, Merges};
pub use cut::{CutMoment, CutOptions, CutReport, EnabledFault, FaultClass};
pub use in_process::InProcessCard;
pub use model::{CardModel, ModelError};
pub use snapshot::SnapshotError;
