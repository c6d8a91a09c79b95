//! A run's resolved configuration, and the header that is kept of a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flashfit_bench::plan::Points;
use flashfit_bench::{PointProfile, RunPlan, StartKind, StartingState};
use flashfit_catalog::{CatalogChecksum, CatalogEntry, CatalogEntryError};
use flashfit_device::Bytes;
use flashfit_filesystem::plan::SecondPartition;
use flashfit_filesystem::{Durability, PartitionEnd, PartitionTable, Scheduler};
use flashfit_geometry::Geometry;
use flashfit_host::known_keys::known_keys;
use flashfit_testbed::{TestBedFacts, TestBedSpec};
use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::choice::{Criterion, OptionChoice, StrategyKind};
use crate::life::RunLife;
use crate::prior::RunPrior;
use crate::quantity::Weight;
use crate::record::{TrialPurpose, TrialRecord};

/// The name of the format in `run.json`.
pub const SCHEMA: &str = "flashfit.run";
/// The version that is written, and the only one that is read.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything that decides what a run does, defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    /// Where trials are made; runs of earlier versions were made here.
    #[serde(default, skip_serializing_if = "TestBedSpec::is_here")]
    pub on: TestBedSpec,
    /// The device as the user named it.
    pub target: String,
    /// File systems, in order.
    pub filesystems: Vec<String>,
    /// Options of each file system that are not up for search.
    #[serde(deserialize_with = "known_keys")]
    pub options: BTreeMap<String, OptionChoice>,
    pub workloads: Vec<String>,
    /// Schedulers, by today's names; empty for all those of the kernel.
    pub schedulers: Vec<Scheduler>,
    /// How the next setup is chosen.
    pub strategy: StrategyKind,
    /// How long each trial measures.
    pub profile: PointProfile,
    /// What is ranked by.
    pub by: Criterion,
    /// Trials of each setup under each workload.
    pub repeats: u32,
    /// Rounds of confirming trials.
    pub confirm_rounds: u32,
    /// The seed of everything random.
    pub seed: u64,
    /// Where the file system starts, as given.
    pub start: String,
    /// The partition table, where the user named one; otherwise a GPT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<PartitionTable>,
    /// Where its partition ends; runs of earlier versions have whole erase blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<PartitionEnd>,
    /// The label that the recommended setup gets; trials have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The partition behind that of the file systems; in trials it is there and empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<SecondPartition>,
    /// The least safety of an adopted or recommended setup.
    pub allow: Durability,
    /// How much data a workload uses.
    pub data_size: Bytes,
    /// How much memory a workload's programs and their page cache may use.
    pub memory: Bytes,
    /// When a stage of a workload ends although not all its data was moved, in milliseconds.
    pub runtime_ms: u64,
    /// The erase block, where the user gave it.
    #[serde(rename = "erase_unit")]
    pub erase_block: Option<Bytes>,
    /// The write unit, where the user gave it.
    pub write_unit: Option<Bytes>,
    /// What a probe found.
    #[serde(default)]
    pub probed: Geometry,
    /// Where file systems are mounted, where the user said it. Not used again: a run that goes on
    /// mounts in its own directory.
    #[serde(default, with = "flashfit_host::path_text::optional")]
    pub mount_dir: Option<PathBuf>,
    /// The user's own catalog. Not read again: see [`RunHeader::catalog`].
    #[serde(default, with = "flashfit_host::path_text::optional")]
    pub catalog_dir: Option<PathBuf>,
    /// How much workloads count that do not count once, in thousandths; earlier runs have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights_thousandths: BTreeMap<String, u32>,
    /// The longest that 99 of 100 writes may take under a recommended setup, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_write_max_ns: Option<u64>,
    /// How long setups last, where a usage model was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<RunLife>,
    /// What a survey knew of devices like this one, or trials of a twin gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior: Option<RunPrior>,
    /// What the run may spend.
    #[serde(default)]
    pub limits: Budget,
    /// The contents of the file system when a workload begins.
    #[serde(default)]
    pub state: StartingState,
    /// The kinds of starts of which each trial has one, where `state` says that starts vary;
    /// earlier runs did not have kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StartKind>,
    /// How many crash states of the recommended setup are checked at the end, where the user asked
    /// for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash_states: Option<u64>,
    /// Where the search began again, in a run that was extended.
    #[serde(default, skip_serializing_if = "SearchPhase::is_first")]
    pub phase: SearchPhase,
}

/// Where the present part of a search begins. Earlier confirming trials chose nothing then, and may
/// choose now: they count as trials of the search, and the answer is confirmed by fresh ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchPhase {
    /// Its first batch.
    pub batch: u32,
    /// Its first confirming round.
    pub confirm_round: u32,
}

impl SearchPhase {
    /// Whether the run was never extended.
    pub fn is_first(&self) -> bool {
        *self == Self::default()
    }

    /// The part that begins after these trials.
    pub fn after(trials: &[TrialRecord]) -> Self {
        // Trials without a batch count as one.
        let batch = |trial: &TrialRecord| trial.batch.map_or(0, |batch| batch.number) + 1;
        let confirming = trials.iter().filter(|trial| trial.key.purpose == TrialPurpose::Confirm);
        Self {
            batch: trials.iter().map(batch).max().unwrap_or(0),
            confirm_round: confirming.map(|trial| trial.key.repeat + 1).max().unwrap_or(0),
        }
    }
}

/// What a run was before it was extended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunExtension {
    /// When it was extended, in seconds since 1970.
    pub unix_s: u64,
    /// The flashfit that extended it.
    pub tool_version: String,
    /// The kernel of the trials that follow.
    pub kernel: String,
    /// How many trials were recorded before.
    pub trials: usize,
    /// The configuration until then.
    pub before: RunSpec,
}

impl RunSpec {
    /// When a stage of a workload ends although not all its data was moved, in nanoseconds.
    pub fn runtime_ns(&self) -> u64 {
        self.runtime_ms.saturating_mul(1_000_000)
    }

    /// How much of each workload is measured.
    pub fn run_plan(&self) -> RunPlan {
        RunPlan {
            points: Points::Profile(self.profile),
            data_size_bytes: self.data_size.0,
            memory_bytes: self.memory.0,
            runtime_ns: self.runtime_ns(),
            seed: self.seed,
            scratch: PathBuf::new(),
        }
    }

    /// How much a workload counts.
    pub fn weight(&self, workload: &str) -> f64 {
        let weight = self.weights_thousandths.get(workload).map_or(Weight::ONE, |w| Weight(*w));
        weight.value()
    }
}

/// What is tried of one file system, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChoiceNames {
    pub filesystem: String,
    /// Options that every setup has.
    pub always: Vec<String>,
    /// Options that may be on or off.
    pub free: Vec<String>,
    /// Schedulers that are tried.
    pub schedulers: Vec<Scheduler>,
}

/// Which catalog a run used: a run directory does not carry it, and names no folder that is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogUsed {
    /// SHA-256 of the file systems, workloads and settings of the machine that the run used.
    pub sha256: String,
    /// Whether all of them are built in.
    pub built_in: bool,
}

/// The contents of `run.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHeader {
    /// The name of the format.
    pub schema: String,
    pub schema_version: u32,
    /// The flashfit that wrote it.
    pub tool_version: String,
    /// When the run was begun, in seconds since 1970.
    pub created_unix_s: u64,
    pub spec: RunSpec,
    /// On what and where it does it.
    pub facts: TestBedFacts,
    /// What is tried of each file system.
    pub choices: Vec<ChoiceNames>,
    /// What the user saw before it began.
    pub warnings: Vec<String>,
    /// What is not tried, each with the reason; earlier runs do not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Which catalog it used; earlier runs do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogUsed>,
    /// How it was extended, the first time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<RunExtension>,
}

impl CatalogUsed {
    /// The entries that a run of these file systems and workloads uses.
    ///
    /// # Errors
    /// When a file of the user's catalog cannot be read.
    pub fn of(spec: &RunSpec, user_dir: Option<&Path>) -> Result<Self, CatalogEntryError> {
        Self::of_names(&spec.filesystems, &spec.workloads, user_dir)
    }

    /// The same of these names.
    ///
    /// # Errors
    /// As [`CatalogUsed::of`].
    pub fn of_names(
        filesystems: &[String],
        workloads: &[String],
        user_dir: Option<&Path>,
    ) -> Result<Self, CatalogEntryError> {
        let mut used = Vec::new();
        for (kind, ending, names) in [
            ("filesystems", "toml", Some(filesystems)),
            ("knobs", "toml", None),
            ("workloads", "fio", Some(workloads)),
            ("workloads", "toml", Some(workloads)),
        ] {
            let entries = flashfit_catalog::entries(kind, ending, user_dir)?;
            let is_used =
                |entry: &CatalogEntry| names.is_none_or(|names| names.contains(&entry.name));
            used.extend(entries.into_iter().filter(is_used).map(|entry| (kind, entry)));
        }
        let CatalogChecksum { sha256, built_in } =
            CatalogChecksum::of(used.iter().map(|(kind, entry)| (*kind, entry)));
        Ok(Self { sha256, built_in })
    }
}

impl RunHeader {
    /// A header of today's format.
    pub fn new(
        tool_version: &str,
        spec: RunSpec,
        facts: TestBedFacts,
        choices: Vec<ChoiceNames>,
        warnings: Vec<String>,
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            tool_version: tool_version.to_owned(),
            created_unix_s: crate::unix_seconds(),
            spec,
            facts,
            choices,
            warnings,
            left_out: Vec::new(),
            catalog: None,
            extensions: Vec::new(),
        }
    }
}
