//! What every probe gives back: findings, the evidence for them, and what getting it cost.
//!
//! Plain data, so that a plot, a document and a twin can be made of it without the device.

use std::ops::ControlFlow;

use flashfit_device::BlockDevError;
use flashfit_user_error::{ExitClass, UserError};
use serde::{Deserialize, Serialize};

use crate::belief::GeometryBelief;
use crate::findings::GeometryFindings;

/// The result of a probe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    /// What was found, and what was not.
    pub findings: GeometryFindings,
    /// What was measured.
    pub evidence: ProbeEvidence,
    /// How many reads were asked for, those that failed among them.
    pub reads: u64,
    /// How many bytes they asked for.
    pub read_bytes: u64,
    /// How many bytes were written.
    pub written_bytes: u64,
    /// How long it took, in nanoseconds of the probe's clock.
    pub elapsed_ns: u64,
    /// The requests that failed; they are in no figure.
    pub errors: Vec<FailedRequest>,
    /// What the user should know of how it was measured. One sentence each.
    pub notes: Vec<String>,
    /// What it says of the erase block, for evidence of another kind to be added to.
    #[serde(skip)]
    pub belief: Option<GeometryBelief>,
}

/// Every sample, and what a plot shows of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeEvidence {
    /// The requests that succeeded, in the order in which they were made.
    pub samples: Vec<Sample>,
    /// What a plot shows.
    pub series: Vec<PlotSeries>,
}

/// What a sample was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SamplePurpose {
    /// A read that spans a boundary.
    ReadAcross,
    /// A read of the same size that does not.
    ReadBeside,
    /// Any other read.
    Read,
    /// A write, in the order of the offsets.
    WriteLinear,
    /// A write in a mixed order.
    WriteRandom,
    /// A flush.
    Flush,
}

/// One request and how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// What for.
    pub purpose: SamplePurpose,
    /// Where, in bytes from the start of the device.
    pub offset: u64,
    /// How much, in bytes.
    pub length_bytes: u32,
    /// When it was asked for, in nanoseconds of the probe's clock since the probe began.
    pub begin_ns: u64,
    /// How long it took, in nanoseconds.
    pub elapsed_ns: u64,
}

/// A line of a plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlotSeries {
    /// What it shows; the legend.
    pub name: String,
    /// What x is: `bytes`, `count` or another unit.
    pub x_unit: String,
    /// What y is: `ns`, `bytes/s` or another unit.
    pub y_unit: String,
    /// Its points, in ascending order of x.
    pub points: Vec<PlotPoint>,
}

/// A point of a plot, with the 95 % interval of its y.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlotPoint {
    /// Where.
    pub x: f64,
    /// How much.
    pub y: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRequest {
    /// Where, in bytes from the start of the device.
    pub offset: u64,
    /// How much was asked for, in bytes.
    pub length_bytes: u64,
    /// What the device or the system said.
    pub message: String,
}

impl FailedRequest {
    /// The fault of a request.
    pub fn new(offset: u64, length_bytes: u64, error: &BlockDevError) -> Self {
        Self { offset, length_bytes, message: error.to_string() }
    }
}

/// Who looks on while a probe works, and may end it.
pub trait ProbeObserver {
    /// Told every few requests: which share is done, 0 to 1, of what. Breaking ends the probe with
    /// [`ProbeError::Interrupted`].
    fn step(&mut self, done: f64, what: &str) -> ControlFlow<()>;
}

/// Nobody looks on.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl ProbeObserver for NoObserver {
    fn step(&mut self, _done: f64, _what: &str) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Why a probe gives no findings at all.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The device went away, or lost its power.
    #[error("the medium vanished after {requests} requests: {source}")]
    Vanished {
        /// How many requests it had answered.
        requests: u64,
        /// What it or the system said.
        source: BlockDevError,
    },
    /// Hardly any request succeeds.
    #[error("{failed} of {asked} requests failed, the last at offset {offset}: {source}")]
    Unreadable {
        /// How many failed.
        failed: u64,
        /// How many were made.
        asked: u64,
        /// Where the last failed, in bytes.
        offset: u64,
        /// What it or the system said.
        source: BlockDevError,
    },
    /// There is too little of it.
    #[error("{bytes} bytes are too few to probe: at least {least} are needed")]
    TooSmall {
        /// How much there is, in bytes.
        bytes: u64,
        /// How much there must be, in bytes.
        least: u64,
    },
    /// The region that was named does not lie on the device, or not on its sectors.
    #[error("the region {start}..{end} is not whole sectors of a medium of {capacity_bytes} bytes")]
    Region {
        /// Where it begins, in bytes.
        start: u64,
        /// Where it ends, in bytes.
        end: u64,
        /// The size of the device.
        capacity_bytes: u64,
    },
    /// Whoever looked on ended it.
    #[error("the probe was interrupted")]
    Interrupted,
    /// A request that the probe cannot do without failed.
    #[error(transparent)]
    Medium(#[from] BlockDevError),
}

impl UserError for ProbeError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Vanished { .. } | Self::Unreadable { .. } => ExitClass::Io,
            Self::TooSmall { .. } | Self::Region { .. } => ExitClass::Usage,
            Self::Interrupted => ExitClass::Interrupted,
            Self::Medium(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Vanished { .. } => {
                Some("dmesg tells what the kernel saw; put the medium in again".into())
            }
            Self::Unreadable { .. } => {
                Some("dmesg tells what the kernel saw; try another reader".into())
            }
            Self::TooSmall { .. } => Some("probe the whole disk instead of a partition".into()),
            Self::Region { .. } => Some("flashfit inspect shows the size of a medium".into()),
            Self::Interrupted => None,
            Self::Medium(error) => error.hint(),
        }
    }
}
