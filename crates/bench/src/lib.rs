//! Runs the workload of one trial with fio and reads the result.
//!
//! A [`Workload`] is a plain fio job file with a TOML header in comments. [`run_workload`] lays out
//! its files, syncs and drops caches, runs fio stage by stage and returns a [`WorkloadResult`]. A
//! result is accepted only if the exit code, the messages and the values agree ([`result`]).

pub mod catalog;
mod command;
pub mod error;
pub mod exercise;
pub mod figures;
pub mod fio;
pub mod job_keys;
mod jobfile;
mod plain_file;
pub mod plan;
pub mod result;
pub mod run;
mod stage;
pub mod start;
pub mod start_kind;
pub mod state;
pub mod steady;
pub mod target;
mod task;
pub mod workload;

pub use catalog::Workloads;
pub use error::BenchError;
pub use exercise::{Exercise, ExerciseKind, PreparedExercise};
pub use figures::{Figures, Latency, PointResult, StageResult, WorkloadResult};
pub use plan::{MeasurementLength, RunPlan, estimate_ns, most_written_bytes};
pub use run::{lay_out_for_image, run_workload};
pub use stage::{CacheState, Direction, FigureKind, StageSpec};
pub use start::{MkfsMode, StartVariation};
pub use start_kind::StartKind;
pub use state::{StartingState, StateReached};
pub use steady::SteadyState;
pub use target::WorkloadTarget;
pub use task::{FileOrder, TaskKind};
pub use workload::{Parameter, PointProfile, TrialSize, Workload, WorkloadPoint};
