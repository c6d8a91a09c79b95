//! What is kept of a trial: one line of `trials.jsonl`.
//!
//! The format is versioned; within a version keys are only added. Sizes are in bytes and times in
//! nanoseconds, integers all.

use flashfit_bench::PointResult;
use flashfit_card::Counters;
use flashfit_filesystem::Setup;
use flashfit_stand::Phases;
use serde::{Deserialize, Serialize};

/// The version that is written.
pub const RECORD_VERSION: u32 = 1;

/// What a trial is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Looking for a good setup.
    Search,
    /// Comparing the winner with the untuned file system, with fresh trials.
    Confirm,
}

/// Which trial it is: no two of a run have the same key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialKey {
    /// What it is for.
    pub purpose: Purpose,
    /// The setup.
    pub setup: Setup,
    /// The workload's name.
    pub workload: String,
    /// Counts the trials of this setup under this workload, from 0.
    pub repeat: u32,
}

/// A trial that was made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TrialRecord {
    /// [`RECORD_VERSION`] of the writer.
    pub version: u32,
    /// Its number in the run, from 1; names its files under `fio/` and `kernel/`.
    pub number: u32,
    /// Which trial.
    pub key: TrialKey,
    /// When it began, in seconds since 1970.
    pub started_unix_s: u64,
    /// How long its phases took.
    pub phases: Phases,
    /// What came of it.
    pub outcome: Outcome,
    /// The simulated card's counters over the trial, where the medium is one.
    pub counters: Option<Counters>,
    /// How many lines the kernel logged.
    pub kernel_messages: u32,
    /// What could not be done as it should have been; usually nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What came of a trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was measured.
    Completed {
        /// The figures, point by point.
        points: Vec<PointResult>,
    },
    /// The setup did not work; the run goes on without it.
    Failed {
        /// What went wrong.
        message: String,
    },
}

impl TrialRecord {
    /// The figures, if it was measured.
    pub fn points(&self) -> Option<&[PointResult]> {
        match &self.outcome {
            Outcome::Completed { points } => Some(points),
            Outcome::Failed { .. } => None,
        }
    }
}
