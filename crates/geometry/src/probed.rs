//! The result of every probe: findings, evidence and cost.
//!
//! Plain data, from which plots, documents and twins can be made without the device.

use std::ops::ControlFlow;

use flashfit_device::BlockDevError;
use flashfit_user_error::{ExitClass, Hint, Task, UserError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::belief::GeometryBelief;
use crate::findings::GeometryFindings;

/// The result of a probe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    pub findings: GeometryFindings,
    pub evidence: ProbeEvidence,
    /// Number of reads, including failed ones.
    pub reads: u64,
    /// Bytes requested by the reads.
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Duration in nanoseconds of the probe's clock.
    pub elapsed_ns: u64,
    /// Failed requests, which no figure includes.
    pub errors: Vec<FailedRequest>,
    /// Remarks on the measurement for the user, one sentence each.
    pub notes: Vec<String>,
    /// Whether the observer ended it before all was measured.
    #[serde(skip)]
    pub interrupted: bool,
    /// Whether the device does not keep what is written to it, and no smaller capacity explains
    /// it. The finding of the capacity is the reason.
    #[serde(skip)]
    pub loses_data: bool,
    /// The posterior of the erase block, to which other evidence can be added.
    #[serde(skip)]
    pub belief: Option<GeometryBelief>,
}

impl Probed {
    /// Adds the cost and the evidence of an earlier probe of the same device.
    #[must_use]
    pub fn after(mut self, earlier: &Self) -> Self {
        self.reads += earlier.reads;
        self.read_bytes += earlier.read_bytes;
        self.written_bytes += earlier.written_bytes;
        let later = self.evidence.samples.iter();
        let later = later.map(|of| Sample { begin_ns: of.begin_ns + earlier.elapsed_ns, ..*of });
        self.evidence.samples = earlier.evidence.samples.iter().copied().chain(later).collect();
        self.evidence.series.extend(earlier.evidence.series.iter().cloned());
        self.errors.splice(0..0, earlier.errors.iter().cloned());
        self.notes.splice(0..0, earlier.notes.iter().cloned());
        self.elapsed_ns += earlier.elapsed_ns;
        self
    }
}

/// All samples, and series for plots.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ProbeEvidence {
    /// The successful requests in time order.
    pub samples: Vec<Sample>,
    /// What a plot shows.
    pub series: Vec<PlotSeries>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SamplePurpose {
    /// A read that spans a boundary.
    ReadAcross,
    /// A read of the same size close to a boundary.
    #[serde(rename = "read-beside")]
    ReadAdjacent,
    Read,
    /// A write in ascending order of offsets.
    WriteLinear,
    /// A write in random order.
    WriteRandom,
    Flush,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Sample {
    pub purpose: SamplePurpose,
    /// Where, in bytes from the start of the device.
    pub offset: u64,
    pub length_bytes: u32,
    /// Start time in nanoseconds of the probe's clock since the probe began.
    pub begin_ns: u64,
    pub elapsed_ns: u64,
}

#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PlotSeries {
    pub name: String,
    /// `bytes`, `count` or another unit.
    pub x_unit: String,
    /// `ns`, `bytes/s` or another unit.
    pub y_unit: String,
    /// In ascending order of x.
    pub points: Vec<PlotPoint>,
}

/// A point of a plot, with the 95 % interval of its y.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PlotPoint {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
}

/// How the message on lost data ends.
const NOT_READ_BACK: &str = " were not read back";

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FailedRequest {
    /// Where, in bytes from the start of the device.
    pub offset: u64,
    pub length_bytes: u64,
    /// The error of the device or the system.
    pub message: String,
}

impl FailedRequest {
    pub fn new(offset: u64, length_bytes: u64, error: &BlockDevError) -> Self {
        Self { offset, length_bytes, message: error.to_string() }
    }

    /// What was written and not read back, although no request failed.
    pub fn lost_data(offset: u64, length_bytes: u64) -> Self {
        let message = format!("{length_bytes} bytes written at offset {offset}{NOT_READ_BACK}");
        Self { offset, length_bytes, message }
    }

    /// Whether it is one of [`FailedRequest::lost_data`]. Documents have only its message.
    pub fn is_lost_data(&self) -> bool {
        self.message.ends_with(NOT_READ_BACK)
    }
}

/// Receives the progress of a probe and may interrupt it.
pub trait ProbeObserver {
    /// Called every few requests with the share done, 0 to 1, and the current step. Breaking ends
    /// the probe; what was found so far counts.
    fn step(&mut self, done: f64, what: &str) -> ControlFlow<()>;

    /// Called when a time limit is reached after so many nanoseconds, with findings still open:
    /// by how much it is extended, if at all.
    fn extend(&mut self, _elapsed_ns: u64) -> Option<u64> {
        None
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl ProbeObserver for NoObserver {
    fn step(&mut self, _done: f64, _what: &str) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Why a probe has no findings, or not all of them.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The device disappeared or lost power.
    #[error("the device disappeared after {requests} requests: {source}")]
    Vanished {
        requests: u64,
        /// What it or the system said.
        source: BlockDevError,
    },
    #[error("{failed} of {requests} requests failed, the last at offset {offset}: {source}")]
    Unreadable {
        failed: u64,
        requests: u64,
        /// In bytes.
        offset: u64,
        /// What it or the system said.
        source: BlockDevError,
    },
    #[error("{bytes} bytes are too few to probe: at least {least} bytes are required")]
    TooSmall { bytes: u64, least: u64 },
    /// The region exceeds the device or is not aligned to its sectors.
    #[error(
        "invalid region {start}..{end}: it must consist of whole sectors within the {capacity_bytes} bytes of the device"
    )]
    Region {
        /// In bytes.
        start: u64,
        /// In bytes, exclusive.
        end: u64,
        capacity_bytes: u64,
    },
    /// The observer ended it.
    #[error("the probe was interrupted")]
    Interrupted,
    /// An essential request failed.
    #[error(transparent)]
    Device(#[from] BlockDevError),
    /// The device failed while it was written to. What was found before counts.
    #[error("{error}")]
    EndedEarly { error: Box<ProbeError>, found: Box<Probed> },
}

impl UserError for ProbeError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Vanished { .. } | Self::Unreadable { .. } => ExitClass::Io,
            Self::TooSmall { .. } | Self::Region { .. } => ExitClass::Usage,
            Self::Interrupted => ExitClass::Interrupted,
            Self::Device(error) => error.class(),
            Self::EndedEarly { error, .. } => error.class(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Vanished { .. } => {
                Some("run `dmesg` to see kernel messages; reinsert the device".into())
            }
            Self::Unreadable { .. } => {
                Some("run `dmesg` to see kernel messages; try another card reader".into())
            }
            Self::TooSmall { .. } => {
                Some("probe a larger region, or name a larger device or image".into())
            }
            Self::Region { .. } => Some(
                Hint::from("run ").and(Task::Inspect(None)).and(" to see the size of the device"),
            ),
            Self::Interrupted => None,
            Self::Device(BlockDevError::WornOut) => {
                Some("copy its files elsewhere, and stop using the device".into())
            }
            Self::Device(error) if error.class() == ExitClass::Io => {
                Some("run `dmesg` to see kernel messages; stop using the device".into())
            }
            Self::Device(error) => error.hint(),
            Self::EndedEarly { error, .. } => error.hint(),
        }
    }
}
