//! Test beds: a test bed applies a setup to a device, runs the workload and returns the
//! measurements.
//!
//! A [`Host`] is a machine with test beds: this one ([`LocalHost`]), or another one
//! ([`RemoteHost`]), where an [`agent`] runs the same code and speaks [`protocol`].

pub mod agent;
mod change_record;
mod device_errors;
mod device_wear;
mod error;
mod facts;
pub mod host;
mod knob_guard;
mod local;
mod local_test_bed;
mod partition;
pub mod protocol;
pub mod recording;
pub mod remote;
mod scheduler_guard;
mod scheduler_modules;
mod spec;
mod trial_failure;
pub mod vm;
pub mod writable_device;
mod written;

use flashfit_bench::{
    Exercise, MeasurementLength, PointResult, StartVariation, StartingState, StateReached, Workload,
};
use flashfit_card::Counters;
use flashfit_filesystem::Setup;
use flashfit_host::processor::ProcessorTime;
use flashfit_wear_counters::CounterDifference;
use serde::{Deserialize, Serialize};

pub use device_errors::{DeviceErrors, ErrorSource};
pub use error::TrialError;
pub use facts::{CardFacts, MemoryFacts, TestBedFacts};
pub use host::{
    Capabilities, CardProgram, Host, LocalHost, OpenRequest, ProbeRequest, ProbeResult,
    Requirements, WriteGrant, lacks_programs,
};
pub use local_test_bed::{LocalTestBed, LocalTestBedOptions, MOST_SETTLED_BYTES};
pub use remote::RemoteHost;
pub use spec::{TestBedSpec, UnknownTestBed, UnknownVmDisk, VmChoice, VmDisk};
pub use writable_device::{WritableBlockDevice, WritableBlockDeviceError};

#[derive(Debug, Clone, Copy)]
pub struct TrialRequest<'a> {
    pub setup: &'a Setup,
    pub workload: &'a Workload,
    /// Which points of the workload to measure.
    pub profile: flashfit_bench::PointProfile,
    /// Whether to measure all of them, or a part.
    pub length: MeasurementLength,
    /// Content of the file system before the workload starts.
    pub state: StartingState,
    /// How the file system is used then, before the workload starts; without this, every trial
    /// discards the device to start from the same state.
    pub start: Option<&'a StartVariation>,
    pub data_bytes: u64,
    /// Limit for the workload's programs and their page cache.
    pub memory_bytes: u64,
    /// Time limit of a stage.
    pub runtime_ns: u64,
    pub seed: u64,
    /// Runs this instead of the workload, which is then only a name.
    pub exercise: Option<Exercise>,
}

/// Durations of the phases of a trial; 0 if missing in a run from elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrialPhases {
    /// The discard of the whole device: in the first trial, or in all if all start alike.
    pub prepare_ns: u64,
    pub mkfs_ns: u64,
    pub mount_ns: u64,
    /// Filling and aging the file system, if requested, and the use before the workload.
    #[serde(skip_serializing_if = "is_zero")]
    pub state_ns: u64,
    /// Creating files that the workload only reads.
    pub fill_ns: u64,
    /// Writeback and dropping caches between the parts of a workload.
    pub settle_ns: u64,
    /// The workload's programs, including the writeback that they measure.
    pub fio_ns: u64,
    /// The unmount, including the remaining writeback.
    pub unmount_ns: u64,
    /// The whole trial, including flashfit's own time.
    pub total_ns: u64,
}

impl TrialPhases {
    /// The time that flashfit itself used.
    pub fn own_ns(&self) -> u64 {
        let others = self.prepare_ns
            + self.mkfs_ns
            + self.mount_ns
            + self.state_ns
            + self.fill_ns
            + self.settle_ns
            + self.fio_ns
            + self.unmount_ns;
        self.total_ns.saturating_sub(others)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Bytes written to the device, as counted by its kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytesWritten {
    /// In the whole trial, including mkfs and the initial state.
    pub trial_bytes: u64,
    /// From the initial state to the end of the unmount: what the workload caused.
    pub workload_bytes: u64,
}

/// The result of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialReport {
    /// 0 for phases that were not reached.
    pub phases: TrialPhases,
    pub points: Vec<PointResult>,
    /// Bytes of files created for the workload, which are not part of any measurement.
    pub fill_bytes: u64,
    /// Bytes that an exercise passed to write(2), if one was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exercised_bytes: Option<u64>,
    /// The initial state, if it was not an empty file system.
    pub state: Option<StateReached>,
    /// `None` if the kernel does not count it.
    pub written: Option<BytesWritten>,
    /// Counters of the simulated card, from the initial state to the end of the unmount.
    pub counters: Option<Counters>,
    /// What the device's own counters counted in the same time, without those that stood still.
    #[serde(default)]
    pub wear: Vec<CounterDifference>,
    /// Processor time during the workload, if the kernel reports it.
    #[serde(default)]
    pub processor: Option<ProcessorTime>,
    /// Kernel log lines of the trial.
    pub kernel_messages: Vec<String>,
    #[serde(default)]
    pub device_errors: Option<DeviceErrors>,
    /// Deviations from the procedure; usually empty.
    pub notes: Vec<String>,
}

/// A machine with a device that trials may overwrite.
pub trait TestBed {
    fn facts(&self) -> &TestBedFacts;

    /// Runs one trial. Leaves nothing mounted, even after an error.
    ///
    /// # Errors
    /// [`TrialError::Setup`] if this setup fails; all other errors end the run.
    fn run_trial(&mut self, request: &TrialRequest<'_>) -> Result<TrialReport, TrialError>;

    /// Runs the workload, which must be a raw one, on the bare device: there is no file system, and
    /// only the setup's scheduler counts. `None` where the test bed does not offer it.
    ///
    /// # Errors
    /// As [`TestBed::run_trial`].
    fn run_without_filesystem(
        &mut self,
        request: &TrialRequest<'_>,
    ) -> Result<Option<TrialReport>, TrialError> {
        let _ = request;
        Ok(None)
    }
}
