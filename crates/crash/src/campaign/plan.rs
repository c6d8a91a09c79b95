//! What a campaign checks, as its directory records it.

use std::collections::BTreeMap;

use flashfit_card::{CardModel, EnabledFault, FaultClass};
use flashfit_device::{Bytes, Device};
use flashfit_wear::replica::scaled;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::definition::SetupDefinition;
use crate::CrashError;
use crate::import::RequestsPlan;
use crate::setup::CrashSetup;
use crate::state::FlushFault;
use crate::workload::CrashWorkload;

/// What decides the states of a campaign, and must be the same when it continues.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct CampaignPlan {
    pub setups: Vec<String>,
    pub workload: CrashWorkload,
    pub seed: u64,
    /// States for each setup; without it, as many as there is time for.
    pub states: Option<u64>,
    pub unit_sectors: u32,
    pub flushes: FlushFault,
    /// The simulated card that decides what a power cut leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<CardPlan>,
    /// The kernel of the virtual machine whose power is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The board whose power is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<BoardPlan>,
    /// The requests that were recorded elsewhere, in place of work that is recorded here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestsPlan>,
    /// What else it began with; campaigns of earlier versions have nothing here.
    #[serde(default, skip_serializing_if = "CampaignStart::is_unknown")]
    pub start: CampaignStart,
}

/// What a campaign began with besides what was asked of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct CampaignStart {
    /// This system's kernel, where it mounts the states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_kernel: Option<String>,
    /// The erase block for options that need one, if no card of the plan has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erase_block_bytes: Option<u64>,
    /// The time for all states or power cuts, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
    /// The states of a log, and their order, depend on this number of the version that began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enumeration: Option<u32>,
    /// The power cuts that may break a promise before it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_broken: Option<u64>,
    /// How the catalog defined the setups.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub definitions: BTreeMap<String, SetupDefinition>,
}

/// How the catalog defines these setups.
pub fn definitions(setups: &[CrashSetup]) -> BTreeMap<String, SetupDefinition> {
    setups.iter().map(|setup| (setup.label.clone(), setup.into())).collect()
}

impl CampaignStart {
    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

impl CampaignPlan {
    /// The release of the kernel that mounts the states: that of a virtual machine, or this one's.
    pub fn mounting_kernel(&self) -> Option<&String> {
        self.kernel.as_ref().or(self.start.host_kernel.as_ref())
    }
}

/// A board and its device.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct BoardPlan {
    /// `ssh:HOST`, or `lab:TAGS`.
    pub on: String,
    /// The name of the device there.
    pub target: String,
    /// What the device says of itself, with its size.
    pub device: String,
    /// SHA-256 of its CID, or else of its serial number; without it, it reports neither, or the
    /// campaign is of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_hash: Option<String>,
    /// The name of a lab's board; campaigns of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl BoardPlan {
    pub fn new(on: String, target: &str, device: &Device) -> Self {
        let identity = &device.identity;
        let number = identity.cid.as_ref().or(identity.serial.as_ref());
        Self {
            on,
            target: target.to_owned(),
            device: format!("{}, {} B", identity.summary(), device.capacity.0),
            device_hash: number.map(|number| format!("{:x}", Sha256::digest(number))),
            place: None,
        }
    }
}

/// A simulated card and its faults.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct CardPlan {
    pub model: CardModel,
    /// What it does at every power cut besides what a correct card does.
    pub faults: Vec<EnabledFault>,
}

impl CardPlan {
    /// The model with at least this size.
    ///
    /// # Errors
    /// When there is no such card.
    pub fn of_size(&self, bytes: u64) -> Result<CardModel, CrashError> {
        let capacity = bytes.next_multiple_of(self.model.erase_block_bytes());
        Ok(scaled(&self.model, Bytes(capacity))?)
    }

    /// For how long the card must be able to undo writes, in milliseconds.
    pub fn history_ms(&self) -> u64 {
        let rollbacks = self.faults.iter().filter(|fault| fault.class == FaultClass::Rollback);
        rollbacks.map(|fault| fault.value_or_default()).max().unwrap_or(0)
    }
}

#[cfg(test)]
impl CampaignPlan {
    /// A plan for tests: small files on ext4.
    pub(crate) fn sample() -> Self {
        Self {
            setups: vec!["ext4".to_owned()],
            workload: CrashWorkload::Files,
            seed: 1,
            states: None,
            unit_sectors: 8,
            flushes: FlushFault::None,
            card: None,
            kernel: None,
            board: None,
            requests: None,
            start: CampaignStart::default(),
        }
    }
}
