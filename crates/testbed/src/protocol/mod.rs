//! What a test bed and the place of its trials say to each other: lines of JSON over any pair of
//! pipes, be they a virtual machine's port, an SSH channel or a local process.
//!
//! ```text
//! {"ask":{"id":7,"request":{"trial":{…}}}}      to the agent
//! {"working":{"id":7}}                           from it, every two seconds meanwhile
//! {"in-state":{"id":7}}                          the workload begins, once whoever asked says
//! {"go-on":{"id":7}}                             so; only where that was asked for
//! {"answer":{"id":7,"reply":{"trial":{…}}}}
//! ```
//!
//! One request is under way at a time, and their numbers grow. One that is sent again under its
//! number, because a connection was lost, is not carried out again: its answer is. `{"end":{}}`, or
//! the end of the pipe where nobody can come back, ends what is under way and undoes what it did;
//! `{"ended":{}}` is the last that is heard.
//!
//! Limits: a line holds at most [`LONGEST_LINE_BYTES`]; an agent speaks one version of the
//! protocol, of one build of flashfit.

mod failure;
mod line;

use std::collections::BTreeMap;

use flashfit_bench::{MeasurementLength, PointProfile, StartingState};
use flashfit_device::{Bytes, Device};
use flashfit_filesystem::{Conditions, Setup};
use flashfit_option_probe::OptionFindings;
use serde::{Deserialize, Serialize};

use crate::host::{Capabilities, OpenRequest, ProbeRequest, ProbeResult, Requirements};
use crate::{TestBedFacts, TrialReport};

pub use failure::WireFailure;
pub use line::{LONGEST_LINE_BYTES, LineError, MessageReader, line};

/// Changes whenever a message does.
pub const PROTOCOL_VERSION: u32 = 1;

/// To the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToAgent {
    /// Do this.
    Ask {
        /// Its number, larger than those before.
        id: u64,
        /// What.
        request: Box<AgentRequest>,
    },
    /// The answer to [`FromAgent::InState`].
    GoOn {
        /// The request that waits.
        id: u64,
    },
    /// End what is under way, undo it, and end.
    End {},
}

/// From the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromAgent {
    /// It is done, or why not.
    Answer {
        /// The request.
        id: u64,
        /// What came of it.
        reply: Box<Reply>,
    },
    /// It is still at it.
    Working {
        /// The request.
        id: u64,
    },
    /// The file system is in its state, and the workload begins when it is told to go on.
    InState {
        /// The trial.
        id: u64,
    },
    /// It has undone what was under way, and ends.
    Ended {},
    /// What it was sent is no message of this protocol.
    Unreadable {
        /// Why.
        reason: String,
    },
}

/// What an agent can be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AgentRequest {
    /// Who are you? Comes first.
    Hello(ClientHello),
    /// What is there of this?
    Describe(Requirements),
    /// What is this device like?
    Look {
        /// Its node or image file.
        target: String,
    },
    /// Would the guard let this device be written to, if the user agreed?
    Ask {
        /// As it was shown.
        shown: Box<Device>,
        /// The name that the user gave, where one was asked.
        named: Option<String>,
    },
    /// What do this file system's options do?
    Findings {
        /// Its name in the catalog.
        filesystem: String,
        /// What its place offers.
        conditions: Conditions,
        /// What the kernel takes the device for, where that is known.
        rotational: Option<bool>,
    },
    /// Probe a device.
    Probe(ProbeRequest),
    /// Take this device over.
    Open(Box<OpenRequest>),
    /// Make a trial on it.
    Trial(Box<WireTrial>),
    /// Give it back.
    Close {},
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientHello {
    /// [`PROTOCOL_VERSION`].
    pub protocol: u32,
    /// The version of flashfit.
    pub version: String,
    /// The files of the user's own catalog, by their path in it.
    pub catalogue: BTreeMap<String, String>,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentHello {
    /// [`PROTOCOL_VERSION`].
    pub protocol: u32,
    /// The version of flashfit.
    pub version: String,
    /// The kernel's release.
    pub kernel: String,
}

/// What a trial is; see [`crate::TrialRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireTrial {
    /// The setup to make.
    pub setup: Setup,
    /// The name of the workload to measure.
    pub workload: String,
    /// How much of the workload.
    pub profile: PointProfile,
    /// All of that, or a part.
    pub length: MeasurementLength,
    /// What the file system holds before the workload begins.
    pub state: StartingState,
    /// How much data it uses.
    pub data_bytes: u64,
    /// How much memory its programs and their page cache may use, in bytes.
    pub memory_bytes: u64,
    /// When a stage ends although not all its data was moved.
    pub runtime_ns: u64,
    /// The seed of its randomness.
    pub seed: u64,
    /// Whether to wait before the workload begins, until told to go on.
    pub wait_in_state: bool,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// To [`AgentRequest::Hello`].
    Hello(AgentHello),
    /// To [`AgentRequest::Describe`].
    Offers(Capabilities),
    /// To [`AgentRequest::Look`].
    Medium(Box<Device>),
    /// To [`AgentRequest::Ask`] and [`AgentRequest::Close`].
    Done {},
    /// To [`AgentRequest::Findings`].
    Findings(OptionFindings),
    /// To [`AgentRequest::Probe`].
    Probed(ProbeResult),
    /// To [`AgentRequest::Open`].
    Opened(Box<TestBedFacts>),
    /// To [`AgentRequest::Trial`].
    Trial(Box<TrialReport>),
    /// Why not.
    Failed(Box<WireFailure>),
}

impl Reply {
    /// Its kind, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Offers(_) => "offers",
            Self::Medium(_) => "medium",
            Self::Done {} => "done",
            Self::Findings(_) => "findings",
            Self::Probed(_) => "probed",
            Self::Opened(_) => "opened",
            Self::Trial(_) => "trial",
            Self::Failed(_) => "failed",
        }
    }
}

/// A size as it is said in messages.
pub(crate) fn longest_line() -> Bytes {
    Bytes(LONGEST_LINE_BYTES as u64)
}
