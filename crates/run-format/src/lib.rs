//! The format of a run, without the search: its configuration, its records and its directory.
//!
//! `docs/run-format.md` describes the files. Within a version, keys are only added.

pub mod budget;
pub mod choice;
pub mod config;
pub mod life;
pub mod prior;
pub mod quantity;
pub mod raw;
pub mod record;
pub mod run_dir;
mod shell_config;
pub mod spec;
pub mod sustained;

pub use budget::{Budget, Spent, TrialCost};
pub use choice::{Criterion, OptionChoice, StrategyKind};
pub use config::Config;
pub use flashfit_host::calendar::unix_seconds;
pub use life::RunLife;
pub use prior::{Likeness, PriorResult, PriorSource, RunPrior};
pub use quantity::{Percent, TimeSpan, Weight, Years};
pub use raw::{RawDevice, RawMeasurement};
pub use record::{RecordedOutcome, TrialDevice, TrialKey, TrialPurpose, TrialRecord};
pub use run_dir::{RunDir, RunDirLock, StoredRun};
pub use spec::{CatalogUsed, RunExtension, RunHeader, RunSpec, SearchPhase};
pub use sustained::SustainedTrials;
