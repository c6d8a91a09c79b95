//! Where a trial happens. A stand takes a setup to the device, makes it true there, has the
//! workload measured, and brings back what was found.
//!
//! A [`Host`] is where that can be: this machine ([`LocalHost`]), or one that is reached through
//! an [`agent`] ([`RemoteHost`]), which is the same code behind a pair of pipes. What they say to
//! each other is in [`protocol`].

pub mod agent;
mod device_errors;
mod error;
mod facts;
pub mod host;
mod knob_guard;
mod local;
mod local_test_bed;
mod partition;
pub mod protocol;
pub mod remote;
mod scheduler_guard;
mod scheduler_modules;
mod spec;
pub mod vm;
pub mod writable_device;
mod written;

use flashfit_bench::{MeasurementLength, PointResult, StartingState, StateReached, Workload};
use flashfit_card::Counters;
use flashfit_filesystem::Setup;
use flashfit_host::processor::ProcessorTime;
use serde::{Deserialize, Serialize};

pub use device_errors::{DeviceErrors, ErrorSource};
pub use error::TrialError;
pub use facts::{CardFacts, MemoryFacts, TestBedFacts};
pub use host::{
    Capabilities, CardProgram, Host, LocalHost, OpenRequest, ProbeRequest, ProbeResult,
    Requirements, WriteGrant,
};
pub use local_test_bed::{LocalTestBed, LocalTestBedOptions};
pub use remote::RemoteHost;
pub use spec::{TestBedSpec, UnknownTestBed, UnknownVmDisk, VmChoice, VmDisk};
pub use writable_device::{WritableBlockDevice, WritableBlockDeviceError};

/// What is asked of a test bed.
#[derive(Debug, Clone, Copy)]
pub struct TrialRequest<'a> {
    /// The setup to make.
    pub setup: &'a Setup,
    /// The workload to measure under it.
    pub workload: &'a Workload,
    /// How much of the workload.
    pub profile: flashfit_bench::PointProfile,
    /// All of that, or a part.
    pub length: MeasurementLength,
    /// What the file system holds before the workload begins.
    pub state: StartingState,
    /// How much data it uses.
    pub data_bytes: u64,
    /// How much memory its programs and their page cache may use.
    pub memory_bytes: u64,
    /// When a stage ends although not all its data was moved.
    pub runtime_ns: u64,
    /// The seed of its randomness.
    pub seed: u64,
}

/// How long the phases of a trial took, in nanoseconds; 0 where a run that others wrote lacks one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrialPhases {
    /// Bringing the device to its initial state: the discard.
    pub prepare_ns: u64,
    /// Making the file system.
    pub mkfs_ns: u64,
    /// Mounting it.
    pub mount_ns: u64,
    /// Filling and ageing it, where that was asked for.
    #[serde(skip_serializing_if = "is_zero")]
    pub state_ns: u64,
    /// Laying out files that the workload only reads.
    pub fill_ns: u64,
    /// Writing back and dropping caches between the parts of a workload.
    pub settle_ns: u64,
    /// The workload's programs, and the writing back that is part of what they measure.
    pub fio_ns: u64,
    /// Unmounting it, which writes back what is left.
    pub unmount_ns: u64,
    /// All of it, flashfit's own time included.
    pub total_ns: u64,
}

impl TrialPhases {
    /// What flashfit itself took.
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

/// What was written to the device, in bytes, as its kernel counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytesWritten {
    /// In the whole trial, mkfs and state included.
    pub trial_bytes: u64,
    /// From when the file system was in its state to the end of the unmount: what the workload
    /// made the device write.
    pub workload_bytes: u64,
}

/// What a test bed brings back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialReport {
    /// How long its phases took; 0 for those that were not reached.
    pub phases: TrialPhases,
    /// The figures.
    pub points: Vec<PointResult>,
    /// Bytes of files that were laid out for the workload, no part of any figure.
    pub fill_bytes: u64,
    /// In which state the workload began, where it was not an empty file system.
    pub state: Option<StateReached>,
    /// What was written to the device, where the kernel counts that.
    pub written: Option<BytesWritten>,
    /// The simulated card's counters from when the file system was in its state to the end of the
    /// unmount.
    pub counters: Option<Counters>,
    /// What the processors did while the workload was measured, where the kernel tells.
    #[serde(default)]
    pub processor: Option<ProcessorTime>,
    /// What the kernel logged meanwhile.
    pub kernel_messages: Vec<String>,
    /// The device's I/O errors in the trial.
    #[serde(default)]
    pub device_errors: Option<DeviceErrors>,
    /// What could not be done as it should have been; usually nothing.
    pub notes: Vec<String>,
}

/// A place where trials are made.
pub trait TestBed {
    /// On what and where.
    fn facts(&self) -> &TestBedFacts;

    /// Makes one trial.
    ///
    /// # Errors
    /// [`TrialError::Setup`] when this setup does not work and others may; everything else ends the
    /// run. Nothing stays mounted in any case.
    fn run_trial(&mut self, request: &TrialRequest<'_>) -> Result<TrialReport, TrialError>;
}
