//! What the bare device did under the raw workloads of a run: `raw.json`, replaced as a whole.
//!
//! It shows how much of the device a file system leaves. Nothing is ranked by it.

use flashfit_bench::PointResult;
use flashfit_filesystem::Scheduler;
use serde::{Deserialize, Serialize};

use crate::budget::TrialCost;

/// Identifies the document.
pub const SCHEMA: &str = "flashfit.raw";
/// Incremented when a key changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawDevice {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// In the order in which they were measured.
    pub workloads: Vec<RawMeasurement>,
}

/// A workload on the bare device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawMeasurement {
    pub workload: String,
    pub scheduler: Scheduler,
    /// Empty if it failed.
    #[serde(default)]
    pub points: Vec<PointResult>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long it took, with what was written before.
    #[serde(default)]
    pub time_ns: u64,
    /// What was written to the device.
    #[serde(default)]
    pub written_bytes: u64,
}

impl RawDevice {
    pub fn new(workloads: Vec<RawMeasurement>) -> Self {
        Self { schema: SCHEMA.to_owned(), schema_version: SCHEMA_VERSION, workloads }
    }

    /// Whether this version understands it.
    pub fn is_known(&self) -> bool {
        self.schema == SCHEMA && self.schema_version == SCHEMA_VERSION
    }
}

impl RawMeasurement {
    pub fn cost(&self) -> TrialCost {
        TrialCost { time_ns: self.time_ns, written_bytes: self.written_bytes }
    }
}
