//! Replay: a search on recorded runs instead of a device.
//!
//! ```text
//! recording   reads runs, also such as others have written, and refuses to mix media
//! urn         draws trials from the recorded ones
//! replayed    the search on them, and how its choice compares with what is recorded of all
//! ```

mod recording;
mod replayed;
mod sampler;

pub use recording::{RecordedCatalog, Recording, ReplayError};
pub use replayed::{ReplayRequest, Replayed, replay};
pub use sampler::{ReplaySample, ReplaySampler};
