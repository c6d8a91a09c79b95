//! Replay: a search on recorded runs instead of a medium.
//!
//! ```text
//! recording   reads runs, also such as others have written, and refuses to mix media
//! urn         draws trials from the recorded ones
//! replayed    the search on them, and how its choice compares with what is recorded of all
//! ```

mod recording;
mod replayed;
mod urn;

pub use recording::{Recording, ReplayError};
pub use replayed::{ReplayRequest, Replayed, replay};
pub use urn::{ReplaySample, ReplaySampler};
