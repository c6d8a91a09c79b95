//! Replay: a search on recorded runs instead of a device.
//!
//! ```text
//! recording   reads runs, including those of other tools, and refuses to mix devices
//! sampler     samples trials from the recorded ones
//! replayed    the search on them, and a comparison of its choice with all recorded setups
//! ```

mod recording;
mod replayed;
mod sampler;

pub(crate) use recording::baseline_of;
pub use recording::{RecordedCatalog, Recording, ReplayError};
pub use replayed::{ReplayRequest, Replayed, UnrankedReason, replay};
pub use sampler::{ReplaySample, ReplaySampler};
