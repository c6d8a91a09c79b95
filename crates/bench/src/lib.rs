//! One trial's workload: fio job files of the catalog, running fio safely, reading its result.
//!
//! A [`Workload`] is a plain fio job file with a few lines for flashfit in its head;
//! [`run_workload`] lays out its files, settles, runs fio stage by stage and returns
//! [`WorkloadResult`]. What fio says is believed only when its exit code, its messages and its
//! figures agree ([`result`]).

pub mod catalog;
pub mod error;
pub mod figures;
pub mod fio;
pub mod job_keys;
mod jobfile;
pub mod plan;
pub mod result;
pub mod run;
pub mod state;
pub mod steady;
pub mod target;
pub mod workload;

pub use catalog::Workloads;
pub use error::BenchError;
pub use figures::{Figures, Latency, PointResult, StageResult, WorkloadResult};
pub use plan::{MeasurementLength, RunPlan, estimate_ns};
pub use run::run_workload;
pub use state::{StartingState, StateReached};
pub use steady::SteadyState;
pub use target::WorkloadTarget;
pub use workload::{
    Direction, FigureKind, Parameter, PointProfile, StageSpec, Workload, WorkloadPoint,
};
