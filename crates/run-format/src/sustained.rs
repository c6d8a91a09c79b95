//! Trials of a run that went on for longer than the others, at its end: `sustained.json`, replaced
//! as a whole.
//!
//! A card may buffer a few seconds of work and tidy up later, so what is faster in short trials may
//! be slower in longer work.

use serde::{Deserialize, Serialize};

use crate::record::TrialRecord;

/// Identifies the document.
pub const SCHEMA: &str = "flashfit.sustained";
/// Incremented when a key changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SustainedTrials {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// When a stage ended although not all its data was moved.
    pub runtime_ms: u64,
    /// The amount of data of a workload.
    pub data_bytes: u64,
    /// Two setups under each workload, compared in rounds: the repeat of their keys.
    pub trials: Vec<TrialRecord>,
}

impl SustainedTrials {
    pub fn new(runtime_ms: u64, data_bytes: u64) -> Self {
        let (schema, schema_version) = (SCHEMA.to_owned(), SCHEMA_VERSION);
        Self { schema, schema_version, runtime_ms, data_bytes, trials: Vec::new() }
    }

    /// Whether this version understands it.
    pub fn is_known(&self) -> bool {
        self.schema == SCHEMA && self.schema_version == SCHEMA_VERSION
    }
}
