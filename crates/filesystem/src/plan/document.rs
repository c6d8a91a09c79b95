//! A plan as it is written down: the document `flashfit.plan`.
//!
//! It says twice what is to be done: by the choices that were made ([`Plan::inputs`]) and by what
//! follows from them. Whoever carries a plan out trusts the choices only, makes the plan again from
//! them ([`Plan::rebuild`]), and refuses one that is not the same.

use std::path::PathBuf;

use flashfit_device::describe::DeviceKind;
use flashfit_device::identity::DeviceIdentity;
use flashfit_geometry::Geometry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::durability::{Durability, DurabilityVerdict};
use crate::layout::{PartitionEnd, PartitionTable};
use crate::setup::Setup;

use super::layers::PlannedLayers;
use super::second::{PlannedSecond, SecondChoice};

/// The name of the document behind `flashfit.`.
pub const SCHEMA: &str = "plan";
pub const SCHEMA_VERSION: u32 = 1;

/// The device that a plan is for, as far as the plan depends on it.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PlannedDevice {
    /// Its node or image file; `sim:NAME` for a simulated card.
    #[serde(with = "flashfit_host::path_text::document")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// The kernel's name of the whole disk; empty for an image and a simulated card.
    pub disk: String,
    /// What kind it is.
    pub kind: DeviceKind,
    pub identity: DeviceIdentity,
    /// Its size, in bytes; of the partition when the path is one.
    pub capacity_bytes: u64,
    /// Its logical sector, in bytes, at least 512.
    pub sector_bytes: u64,
    /// Where it starts on its disk, in bytes, when the path is a partition.
    pub partition_start_bytes: Option<u64>,
    /// Whether it takes discards.
    pub discard: bool,
    /// Whether it has a volatile write cache.
    pub volatile_cache: bool,
}

/// The geometry of the device, and what the plan derives from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PlannedGeometry {
    /// What the user gave, or a probe found.
    pub given: Geometry,
    /// What the device declares, or a card model states.
    pub declared: Geometry,
    /// What the plan uses: the given one, or a common multiple where the two disagree.
    pub used: Geometry,
}

/// What the stripe width of ext4 counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StripeWidth {
    /// Blocks, as mke2fs(8) says.
    #[default]
    Blocks,
    /// Strides, as the Dreamplug recipe has it.
    Strides,
}

/// What was chosen. With device and geometry it determines everything else.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PlanChoices {
    /// The partition table; `None` leaves it to the planner.
    pub table: Option<PartitionTable>,
    /// Where the partition starts, in bytes; `None` leaves it to the planner.
    pub start_bytes: Option<u64>,
    /// Where the partitions end; null leaves it to the planner. Plans of earlier versions do not
    /// have it: their partitions are whole erase blocks.
    #[serde(default = "formerly")]
    pub end: Option<PartitionEnd>,
    /// The setup: file system, options, scheduler.
    pub setup: Setup,
    /// The setup of an image that lies on it under a writable layer, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Setup>,
    /// The label of the file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The second partition, where there is to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<SecondChoice>,
    /// What the stripe width counts.
    pub stripe_width: StripeWidth,
    /// The recipe that the choices were taken from, where it is one.
    pub recipe: Option<String>,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The least safety at a power cut that the user allows.
    pub allow: Durability,
}

fn formerly() -> Option<PartitionEnd> {
    Some(PartitionEnd::formerly())
}

/// Everything that a plan is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanInputs {
    pub device: PlannedDevice,
    /// What was given, or probed.
    pub given: Geometry,
    /// What is declared, or modeled.
    pub declared: Geometry,
    pub choices: PlanChoices,
}

/// A partition to be made.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PlannedPartition {
    pub number: u32,
    /// From the start of the device, in bytes.
    pub start_bytes: u64,
    pub size_bytes: u64,
    /// Its type as sfdisk(8) takes it.
    pub kind: String,
    /// Why it starts and ends there, as a sentence.
    pub reason: String,
}

/// Where the file system lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PlannedPlacement {
    /// From the start of the whole device, in bytes; also where the target is a partition.
    pub start_bytes: u64,
    pub size_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NumberUnit {
    Bytes,
    /// Blocks of the file system.
    Blocks,
    /// Sectors of the file system.
    Sectors,
    Sections,
}

/// A number that mkfs is given, or that follows from what it is given.
///
/// The names are `block_bytes`, `stride_blocks`, `stripe_width_blocks`, `cluster_bytes`,
/// `reserved_sectors`, `data_start_bytes`, `section_bytes`, `zone_sections`, `main_start_bytes`,
/// `segment_bytes`, `node_bytes`, `sunit_bytes`, `swidth_bytes` and `boundary_bytes`, the same as
/// in [`crate::FileSystemFacts`]. Positions count from the start of the file system.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PlanNumber {
    pub name: String,
    pub value: u64,
    pub unit: NumberUnit,
    /// Why, as a sentence.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PlannedCommand {
    /// What it is for, in a few words.
    pub purpose: String,
    pub program: String,
    pub args: Vec<String>,
    /// Text for its standard input.
    pub stdin: Option<String>,
    /// Whether it writes to the device.
    pub writes: bool,
}

/// How freed space is discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trim {
    /// It takes no discards.
    None,
    /// By fstrim(8) from time to time.
    Timer,
    /// At once, by a mount option or the file system's default.
    Mount,
}

/// The advice on trimming.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct TrimAdvice {
    pub how: Trim,
    /// The command that turns it on, where one is needed.
    pub command: Option<String>,
    /// Why, as a sentence.
    pub reason: String,
}

/// A plan: one file system on one device. See the head of this file for what of it is trusted.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Plan {
    #[serde(rename = "medium")]
    pub device: PlannedDevice,
    /// How it is built.
    pub geometry: PlannedGeometry,
    pub choices: PlanChoices,
    /// The partition table that is written; [`PartitionTable::None`] also where the target is a
    /// partition.
    pub table: PartitionTable,
    /// Why this table, as a sentence.
    pub table_reason: String,
    /// The partitions that are made; none without a table.
    pub partitions: Vec<PlannedPartition>,
    /// Where the file system lies.
    pub place: PlannedPlacement,
    /// The file system, its options and the scheduler.
    pub setup: Setup,
    /// The numbers, each with its reason.
    pub numbers: Vec<PlanNumber>,
    /// The commands in order, for the device's node; for an image or a simulated card, for a node
    /// that does not exist.
    pub commands: Vec<PlannedCommand>,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The line for fstab(5); `UUID=YOUR-UUID` is the placeholder for the file system's UUID.
    pub fstab_line: String,
    /// The udev(7) rule for the scheduler.
    pub udev_rule: String,
    /// What does the same on a kernel before 5.0, as a kernel parameter; `None` where there was no
    /// such scheduler.
    pub kernel_parameter: Option<String>,
    /// How freed space is discarded.
    pub trim: TrimAdvice,
    /// Bytes of the device that cannot be used because of this layout: outside the partition, and
    /// what the numbers cost inside.
    pub lost_bytes: u64,
    /// What takes them, as a sentence.
    pub lost_reason: String,
    /// What the user should know before.
    pub warnings: Vec<String>,
    /// What a power cut may do.
    pub durability: DurabilityVerdict,
    /// The image on it and the layer over that, where one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<PlannedLayers>,
    /// What is made in the second partition, where one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<PlannedSecond>,
}

impl Plan {
    /// The file system that was asked for: that of the image, where there is one.
    pub fn filesystem(&self) -> &str {
        let setup = self.choices.image.as_ref().unwrap_or(&self.choices.setup);
        &setup.filesystem
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.numbers.iter().find(|number| number.name == name).map(|number| number.value)
    }

    /// Its commands, and those of the second partition.
    pub fn all_commands(&self) -> impl Iterator<Item = &PlannedCommand> {
        let second = self.second.iter().flat_map(|second| &second.commands);
        self.commands.iter().chain(second)
    }

    /// What the plan was made from.
    pub fn inputs(&self) -> PlanInputs {
        PlanInputs {
            device: self.device.clone(),
            given: self.geometry.given.clone(),
            declared: self.geometry.declared.clone(),
            choices: self.choices.clone(),
        }
    }
}
