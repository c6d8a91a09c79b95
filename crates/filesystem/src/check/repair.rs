//! What would repair a finding of a check: a command of the system, or something that flashfit
//! does.

use serde::Serialize;

use crate::improvement::Improvement;

/// A repair. The command line of those that flashfit does itself is up to the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repair {
    Command(String),
    /// A change that needs no mkfs.
    Improvement(Box<Improvement>),
    Replan(Replan),
}

/// A new plan for a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replan {
    /// The partition if it can be planned alone, otherwise the device.
    pub target: String,
    /// The kind of the file system, as blkid names it.
    pub kind: Option<String>,
    pub erase_block_bytes: Option<u64>,
    pub write_unit_bytes: Option<u64>,
    /// How many partitions or file systems carrying it out erases.
    pub erased: usize,
}

impl From<String> for Repair {
    fn from(command: String) -> Self {
        Self::Command(command)
    }
}

impl From<Improvement> for Repair {
    fn from(improvement: Improvement) -> Self {
        Self::Improvement(Box::new(improvement))
    }
}

impl From<Replan> for Repair {
    fn from(replan: Replan) -> Self {
        Self::Replan(replan)
    }
}
