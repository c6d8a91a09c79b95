//! What is kept of a trial: one line of `trials.jsonl`.
//!
//! The format is versioned; within a version keys are only added. Sizes are in bytes and times in
//! nanoseconds, integers all.

use flashfit_bench::{MeasurementLength, PointResult, StateReached};
use flashfit_card::Counters;
use flashfit_filesystem::Setup;
use flashfit_host::processor::ProcessorTime;
use flashfit_testbed::{BytesWritten, DeviceErrors, TrialPhases};
use flashfit_wear_counters::CounterDifference;
use serde::{Deserialize, Serialize};

use crate::budget::TrialCost;

/// The version that is written.
pub const RECORD_VERSION: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialPurpose {
    /// Looking for a good setup.
    Search,
    /// Repeating the baseline to detect drift.
    #[serde(rename = "sentinel")]
    Baseline,
    /// Comparing the best setups with the baseline, with fresh trials.
    Confirm,
    /// Comparing devices: the baseline on each of several. The search does not see it.
    Overlap,
}

/// The batch that a trial was asked for in: a strategy decides between batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialBatch {
    /// Counted from 0.
    pub number: u32,
    /// How many trials it has.
    pub size: u32,
}

/// Which trial it is: no two of a run have the same key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TrialKey {
    /// What it is for.
    pub purpose: TrialPurpose,
    pub setup: Setup,
    pub workload: String,
    /// How long it measures; a whole trial where it is absent.
    #[serde(default, skip_serializing_if = "MeasurementLength::is_full")]
    pub length: MeasurementLength,
    /// Counts the trials of this setup under this workload, of this length and for this purpose,
    /// from 0.
    #[serde(default)]
    pub repeat: u32,
}

/// One of several places of a run. A device in another board is another one: what is measured is
/// both of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TrialDevice {
    /// The board's name in its lab.
    pub board: String,
    /// The device by its name, and by its serial number where it has one.
    #[serde(rename = "medium")]
    pub device: String,
}

impl std::fmt::Display for TrialDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.device, self.board)
    }
}

/// A trial that was made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TrialRecord {
    /// [`RECORD_VERSION`] of the writer.
    pub version: u32,
    /// Its number in the run, from 1; names its files under `fio/` and `kernel/`.
    #[serde(default)]
    pub number: u32,
    pub key: TrialKey,
    /// The batch it was asked for in; records of earlier versions do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<TrialBatch>,
    /// On which board and device it was made, where the run had several to choose from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_on: Option<TrialDevice>,
    /// When it began, in seconds since 1970.
    #[serde(default)]
    pub started_unix_s: u64,
    /// How long its phases took.
    #[serde(default)]
    pub phases: TrialPhases,
    /// What came of it.
    pub outcome: RecordedOutcome,
    /// In which state the workload began, where it was not an empty file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateReached>,
    /// Bytes of files that were laid out for the workload, no part of any figure.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fill_bytes: u64,
    /// What was written to the device, where the kernel counts that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<BytesWritten>,
    /// The simulated card's counters over the trial, where the device is one.
    #[serde(default)]
    pub counters: Option<Counters>,
    /// What the device's own counters counted in the same time, without those that stood still.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wear: Vec<CounterDifference>,
    /// What the processors did while the workload was measured, where the kernel reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<ProcessorTime>,
    /// How many lines the kernel logged.
    #[serde(default)]
    pub kernel_messages: u32,
    /// The device's I/O errors in the trial; absent in old runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_errors: Option<DeviceErrors>,
    /// What could not be done as it should have been; usually nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// What came of a trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedOutcome {
    Completed {
        /// The figures, point by point.
        points: Vec<PointResult>,
    },
    /// The setup did not work; the run goes on without it.
    Failed { message: String },
}

impl TrialRecord {
    /// The figures, if it was measured.
    pub fn points(&self) -> Option<&[PointResult]> {
        match &self.outcome {
            RecordedOutcome::Completed { points } => Some(points),
            RecordedOutcome::Failed { .. } => None,
        }
    }

    pub fn cost(&self) -> TrialCost {
        TrialCost { time_ns: self.phases.total_ns, written_bytes: self.written_bytes() }
    }

    /// Bytes written to the device in the whole trial, by the best count there is; 0 without any.
    pub fn written_bytes(&self) -> u64 {
        let counted = self.counters.as_ref().map_or(0, |counters| counters.host_written_bytes);
        self.written.map_or(counted, |written| written.trial_bytes)
    }
}
