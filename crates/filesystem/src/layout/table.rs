//! Partition tables: how much of the device each keeps to itself, how far it reaches, and the
//! script for sfdisk(8) that makes it with its partitions.
//!
//! Sources: UEFI specification, section 5.2 (the legacy MBR: one sector at the start, positions of
//! 32 bits in sectors) and section 5.3 (GPT: a protective MBR and a header at the start, a header
//! at the end, and after each header at least 16 KiB of entries).

use std::fmt;
use std::path::Path;

use flashfit_host::Program;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const GPT_ENTRIES_BYTES: u64 = 16 << 10;

/// A partition table, or that there is none.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum PartitionTable {
    /// The file system starts where the device starts.
    None,
    /// The GUID partition table.
    #[default]
    Gpt,
    /// The table of the master boot record.
    Mbr,
}

/// What a partition contains, as far as tables tell it apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartitionContent {
    /// A file system of Linux.
    #[default]
    Linux,
    Fat32,
    Exfat,
    Swap,
}

/// A partition of a script for sfdisk(8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePartition {
    pub start_bytes: u64,
    pub size_bytes: u64,
    pub content: PartitionContent,
    /// Its name in a GPT; an MBR has none.
    pub name: Option<String>,
}

impl PartitionTable {
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gpt => "gpt",
            Self::Mbr => "mbr",
        }
    }

    /// Whether it is the default; for serialization.
    pub(super) fn is_gpt(&self) -> bool {
        *self == Self::Gpt
    }

    /// What it takes at the start of the device, in bytes.
    pub fn front_bytes(self, sector_bytes: u64) -> u64 {
        match self {
            Self::None => 0,
            Self::Gpt => 2 * sector_bytes + GPT_ENTRIES_BYTES.next_multiple_of(sector_bytes),
            Self::Mbr => sector_bytes,
        }
    }

    /// What it takes at the end of the device, in bytes.
    pub fn back_bytes(self, sector_bytes: u64) -> u64 {
        match self {
            Self::Gpt => sector_bytes + GPT_ENTRIES_BYTES.next_multiple_of(sector_bytes),
            Self::None | Self::Mbr => 0,
        }
    }

    /// The first byte that a partition cannot reach: an MBR counts starts and sizes in 32 bits.
    pub fn reach_bytes(self, sector_bytes: u64) -> u64 {
        match self {
            Self::None | Self::Gpt => u64::MAX,
            Self::Mbr => u64::from(u32::MAX).saturating_mul(sector_bytes),
        }
    }

    /// The partition type for this content, as sfdisk(8) takes it.
    pub fn kind_of(self, content: PartitionContent) -> &'static str {
        match (self, content) {
            (Self::None | Self::Gpt, PartitionContent::Linux) => "L",
            (Self::None | Self::Gpt, PartitionContent::Fat32 | PartitionContent::Exfat) => {
                "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"
            }
            (Self::None | Self::Gpt, PartitionContent::Swap) => "S",
            (Self::Mbr, PartitionContent::Swap) => "82",
            (Self::Mbr, PartitionContent::Linux) => "83",
            (Self::Mbr, PartitionContent::Fat32) => "c",
            (Self::Mbr, PartitionContent::Exfat) => "7",
        }
    }

    /// The script for sfdisk(8) that makes it with these partitions; `None` where there is no
    /// table.
    pub fn sfdisk_script(self, partitions: &[TablePartition], sector_bytes: u64) -> Option<String> {
        let head = match self {
            Self::None => return None,
            // sfdisk keeps the first MiB free unless the first sector is given.
            Self::Gpt => {
                let first = self.front_bytes(sector_bytes).div_ceil(sector_bytes);
                format!("label: gpt\nunit: sectors\nfirst-lba: {first}\n")
            }
            Self::Mbr => "label: dos\nunit: sectors\n".to_owned(),
        };
        let line = |partition: &TablePartition| {
            let name = partition.name.as_ref().filter(|_| self == Self::Gpt);
            format!(
                "start={}, size={}, type={}{}\n",
                partition.start_bytes / sector_bytes,
                partition.size_bytes / sector_bytes,
                self.kind_of(partition.content),
                name.map(|name| format!(", name=\"{name}\"")).unwrap_or_default()
            )
        };
        Some(head + &partitions.iter().map(line).collect::<String>())
    }
}

/// Runs sfdisk(8) with a script; what is on the device is lost.
pub fn run_sfdisk(node: &Path, script: String) -> Program {
    let args = ["--quiet", "--wipe", "always", "--wipe-partitions", "always"];
    Program::new("sfdisk").args(args).arg(node).stdin(script)
}

impl fmt::Display for PartitionTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
