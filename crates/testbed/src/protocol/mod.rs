//! The protocol between a client and an agent: lines of JSON over any pair of pipes, such as a port
//! of a virtual machine or an SSH channel.
//!
//! ```text
//! {"ask":{"id":7,"request":{"trial":{…}}}}      client: a request
//! {"working":{"id":7}}                           agent: heartbeat every two seconds
//! {"in-state":{"id":7}}                          agent: ready for the workload, if requested
//! {"go-on":{"id":7}}                             client: start the workload
//! {"answer":{"id":7,"reply":{"trial":{…}}}}     agent: the reply
//! ```
//!
//! One request is active at a time, and request numbers increase. If a request is repeated under
//! its number after a lost connection, only its answer is repeated. `{"end":{}}`, or a closed pipe
//! if the client cannot reconnect, cancels the active request and cleans up. `{"ended":{}}` is the
//! agent's last message.
//!
//! Limits: a line has at most [`MAX_LINE_BYTES`]. Client and agent must be built from the same
//! source.

mod failure;
mod line;

use std::collections::BTreeMap;

use flashfit_bench::{Exercise, MeasurementLength, PointProfile, StartVariation, StartingState};
use flashfit_device::{Bytes, Device};
use flashfit_filesystem::{Conditions, Setup};
use flashfit_option_probe::OptionFindings;
use serde::{Deserialize, Serialize};

use crate::host::{Capabilities, OpenRequest, ProbeRequest, ProbeResult, Requirements};
use crate::{TestBedFacts, TrialReport};

pub use failure::WireFailure;
pub use line::{LineError, MAX_LINE_BYTES, MessageReader, line};

/// Incremented when a message changes.
pub const PROTOCOL_VERSION: u32 = 3;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToAgent {
    Ask {
        /// Larger than all earlier numbers.
        id: u64,
        request: Box<AgentRequest>,
    },
    /// The answer to [`FromAgent::InState`].
    #[serde(rename = "go-on")]
    Continue { id: u64 },
    /// Cancel the active request, clean up, and end.
    End {},
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromAgent {
    Answer {
        id: u64,
        reply: Box<Reply>,
    },
    /// Heartbeat of the active request.
    Working {
        id: u64,
    },
    /// The initial state is reached; the trial waits for [`ToAgent::Continue`].
    InState {
        id: u64,
    },
    /// The agent has cleaned up and ends.
    Ended {},
    /// The agent received an invalid message.
    Unreadable {
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AgentRequest {
    /// Must be the first request.
    Hello(ClientHello),
    /// See [`crate::Host::describe`].
    Describe(Requirements),
    /// See [`crate::Host::inspect`].
    #[serde(rename = "look")]
    Inspect {
        /// Node or image file.
        target: String,
    },
    /// See [`crate::Host::check_consent`].
    #[serde(rename = "ask")]
    CheckConsent {
        #[serde(rename = "shown")]
        device: Box<Device>,
        /// The name that the user entered, if asked.
        #[serde(rename = "named")]
        name: Option<String>,
    },
    /// See [`crate::Host::option_findings`].
    Findings {
        /// Name in the catalog.
        filesystem: String,
        conditions: Conditions,
        /// The queue's `rotational` attribute, if known.
        rotational: Option<bool>,
    },
    Probe(ProbeRequest),
    /// Take over a device.
    Open(Box<OpenRequest>),
    /// Run a trial on the open device.
    Trial(Box<WireTrial>),
    Close {},
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientHello {
    /// [`PROTOCOL_VERSION`].
    pub protocol: u32,
    /// The version of flashfit, with what it was built from.
    pub version: String,
    /// The files of the user's catalog, by their path in it.
    #[serde(rename = "catalogue")]
    pub catalog: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentHello {
    /// [`PROTOCOL_VERSION`].
    pub protocol: u32,
    /// The version of flashfit, with what it was built from.
    pub version: String,
    pub kernel: String,
}

/// [`crate::TrialRequest`] in serializable form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireTrial {
    pub setup: Setup,
    pub workload: String,
    pub profile: PointProfile,
    pub length: MeasurementLength,
    pub state: StartingState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartVariation>,
    pub data_bytes: u64,
    pub memory_bytes: u64,
    pub runtime_ns: u64,
    pub seed: u64,
    /// Whether to wait for [`ToAgent::Continue`] before the workload.
    #[serde(rename = "wait_in_state")]
    pub wait_before_workload: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exercise: Option<Exercise>,
    /// See [`crate::TestBed::run_without_filesystem`].
    #[serde(default)]
    pub without_filesystem: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// To [`AgentRequest::Hello`].
    Hello(AgentHello),
    /// To [`AgentRequest::Describe`].
    #[serde(rename = "offers")]
    Capabilities(Capabilities),
    /// To [`AgentRequest::Inspect`].
    #[serde(rename = "medium")]
    Device(Box<Device>),
    /// To [`AgentRequest::CheckConsent`] and [`AgentRequest::Close`].
    Done {},
    /// To [`AgentRequest::Findings`].
    Findings(OptionFindings),
    /// To [`AgentRequest::Probe`].
    Probed(ProbeResult),
    /// To [`AgentRequest::Open`].
    Opened(Box<TestBedFacts>),
    /// To [`AgentRequest::Trial`].
    Trial(Box<TrialReport>),
    Failed(Box<WireFailure>),
}

impl Reply {
    /// The key in JSON, for error messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Capabilities(_) => "offers",
            Self::Device(_) => "medium",
            Self::Done {} => "done",
            Self::Findings(_) => "findings",
            Self::Probed(_) => "probed",
            Self::Opened(_) => "opened",
            Self::Trial(_) => "trial",
            Self::Failed(_) => "failed",
        }
    }
}

pub(crate) fn max_line_size() -> Bytes {
    Bytes(MAX_LINE_BYTES as u64)
}
