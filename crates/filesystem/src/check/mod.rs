//! Checks an existing layout and reports problems, their cost and how to repair them.
//!
//! [`examine()`] only reads the device; [`check`] is a pure function of the result. Without a known
//! geometry, the verdict is "cannot tell".

mod alignment;
mod data_start;
mod examine;
mod gpt_header;
mod mounted;
mod periodic;
mod queue;
mod repair;
mod sections;
mod stripes;
mod table;

use flashfit_device::queue::QueueAttributes;
use flashfit_device::units::SECTOR_BYTES;
use flashfit_geometry::{EraseBlockGrid, Geometry};
use schemars::JsonSchema;
use serde::Serialize;

use crate::catalog::FileSystemCatalog;
use crate::facts::FileSystemFacts;
use crate::layout::position;
use crate::plan::numbers::{self, PlacementContext, PlacementNumbers};
use crate::plan::{PlannedPlacement, StripeWidth};

pub use examine::{ExaminedNodes, examine};
pub use repair::{Repair, Replan};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// As it should be.
    Fine,
    /// The known facts do not suffice.
    CannotTell,
    /// It works, and could work better.
    Advice,
    /// It is wrong: it costs much, or risks data.
    Bad,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::CannotTell => "cannot tell",
            Self::Advice => "advice",
            Self::Bad => "bad",
        }
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFinding {
    pub check: &'static str,
    /// What was looked at: the device, a partition, a mount point.
    pub subject: String,
    pub severity: Severity,
    /// What was seen, as a sentence.
    pub evidence: String,
    /// What it costs, as a sentence; empty where it costs nothing.
    pub cost: String,
    pub repair: Option<Repair>,
}

impl CheckFinding {
    fn new(
        check: &'static str,
        subject: &str,
        severity: Severity,
        evidence: impl Into<String>,
    ) -> Self {
        Self {
            check,
            subject: subject.to_owned(),
            severity,
            evidence: evidence.into(),
            cost: String::new(),
            repair: None,
        }
    }

    fn costs(mut self, cost: impl Into<String>) -> Self {
        self.cost = cost.into();
        self
    }

    fn repair(mut self, repair: impl Into<Repair>) -> Self {
        self.repair = Some(repair.into());
        self
    }
}

/// Where a file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct MountedVolume {
    pub point: String,
    /// What the kernel calls the file system.
    pub kind: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
}

/// A partition, or the device itself where a file system has all of it.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Volume {
    /// Its node or name.
    pub name: String,
    /// From the start of the device, in bytes.
    pub start_bytes: u64,
    pub size_bytes: u64,
    pub is_partition: bool,
    /// The file system on it, where there is one that is known.
    pub facts: Option<FileSystemFacts>,
    /// Why the file system cannot be read, where that is so.
    pub unreadable: Option<String>,
    /// Where it is mounted.
    pub mounts: Vec<MountedVolume>,
}

/// What an interrupted `flashfit apply` left.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct UnfinishedApply {
    /// What it is, as a sentence.
    pub what: String,
    /// The command that ends it, where it is known.
    #[serde(rename = "mend")]
    pub repair: Option<String>,
}

/// Everything that the checks look at.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ExaminedDevice {
    /// How the user named the device.
    pub target: String,
    /// The kernel's name of the whole disk; empty for an image.
    pub disk: String,
    pub capacity_bytes: u64,
    /// The geometry, as far as it is known.
    pub geometry: Geometry,
    /// What the sources of the geometry disagree in.
    pub disagreements: Vec<String>,
    /// The format of the partition table, as sfdisk(8) names it.
    pub table: Option<String>,
    /// What sfdisk(8) complains of.
    pub table_complaints: Vec<String>,
    /// Whether there was a GPT that cannot be read any more.
    pub table_is_lost: bool,
    /// Where the header of a GPT is although no table is found, in bytes from the start; the table
    /// can be made again from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_header_bytes: Option<u64>,
    /// How many entries of the table repeat the place of another one; they are not among the
    /// volumes.
    #[serde(skip_serializing_if = "is_zero")]
    pub repeated_entries: usize,
    /// Whether it has an image for optical discs, which may have an MBR in the first sector of its
    /// file system.
    #[serde(skip)]
    pub is_optical: bool,
    /// Partitions, or the device as one volume.
    pub volumes: Vec<Volume>,
    /// The request queue; `None` for an image.
    pub queue: Option<QueueAttributes>,
    /// Whether fstrim.timer is enabled; `None` where there is no systemd.
    pub trim_timer: Option<bool>,
    /// What an interrupted `flashfit apply` left.
    pub unfinished: Option<UnfinishedApply>,
    /// What an interrupted `flashfit apply --keep-data` left.
    pub unfinished_improvement: Option<UnfinishedApply>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl ExaminedDevice {
    /// Whether there are partitions that cannot be found now, and could be with a repaired table.
    pub fn has_lost_table(&self) -> bool {
        self.table_is_lost || self.lost_header_bytes.is_some()
    }

    fn erase_block(&self) -> Option<u64> {
        self.geometry.erase_block.as_ref().map(|known| known.bytes.0).filter(|bytes| *bytes > 0)
    }

    fn grid(&self) -> Option<EraseBlockGrid> {
        self.geometry.grid()
    }

    /// Whether a volume starts on a boundary of erase blocks.
    fn starts_on_boundary(&self, volume: &Volume) -> bool {
        self.grid().is_some_and(|grid| grid.is_boundary(volume.start_bytes))
    }

    fn write_unit(&self) -> Option<u64> {
        self.geometry.write_unit.as_ref().map(|known| known.bytes.0).filter(|bytes| *bytes > 0)
    }

    /// What tune2fs(8) opens: a partition within an image has no node, but a place.
    pub(crate) fn node_for_tools(&self, volume: &Volume) -> String {
        if volume.is_partition && self.disk.is_empty() {
            format!("{}?offset={}", self.target, volume.start_bytes)
        } else {
            volume.name.clone()
        }
    }

    /// A new plan of a volume. Where its start is right and it has a node, the plan is of that
    /// partition alone; otherwise of the device with everything that is on it.
    fn replan(&self, volume: &Volume, start_is_right: bool) -> Replan {
        let alone = volume.is_partition && start_is_right && !self.disk.is_empty();
        let others = self.volumes.iter().filter(|other| other.name != volume.name).count();
        Replan {
            target: if alone { volume.name.clone() } else { self.target.clone() },
            kind: volume.facts.as_ref().map(|facts| facts.kind.clone()),
            erase_block_bytes: self.erase_block(),
            write_unit_bytes: self.write_unit(),
            erased: if alone { 1 } else { others + 1 },
        }
    }

    /// The numbers that a plan would give the file system of a volume where it lies; `None` where
    /// there are none that fit.
    fn planned(&self, volume: &Volume) -> Option<PlacementNumbers> {
        let facts = volume.facts.as_ref()?;
        let site = PlacementContext {
            place: PlannedPlacement {
                start_bytes: volume.start_bytes,
                size_bytes: volume.size_bytes,
            },
            sector_bytes: SECTOR_BYTES,
            erase_block_bytes: self.erase_block(),
            erase_block_offset: self.geometry.erase_block_offset.0,
            write_unit_bytes: self.write_unit(),
            block_bytes: facts.block_bytes.max(SECTOR_BYTES),
            stripe_width: StripeWidth::Blocks,
        };
        numbers::fit(&facts.kind, &site).ok()
    }
}

/// Judges what was gathered; the worst comes first.
pub fn check(examined: &ExaminedDevice, catalog: &FileSystemCatalog) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    findings.extend(unfinished(examined));
    findings.extend(half_improved(examined));
    findings.extend(geometry(examined));
    findings.extend(table::check(examined));
    for volume in &examined.volumes {
        findings.extend(unread(volume));
        findings.extend(alignment::check(examined, volume));
        findings.extend(data_start::check(examined, volume));
        findings.extend(stripes::check(examined, volume));
        findings.extend(sections::check(examined, volume));
        findings.extend(periodic::check(examined, volume));
        findings.extend(mounted::check(examined, volume, catalog));
    }
    findings.extend(queue::check(examined));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// The worst of the findings.
pub fn verdict(findings: &[CheckFinding]) -> Severity {
    findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::CannotTell)
}

fn unfinished(examined: &ExaminedDevice) -> Option<CheckFinding> {
    let left = examined.unfinished.as_ref()?;
    let finding =
        CheckFinding::new("unfinished", &examined.target, Severity::Bad, left.what.clone());
    let finding = finding.costs("the device has neither its old contents nor the planned ones");
    Some(CheckFinding { repair: left.repair.clone().map(Repair::Command), ..finding })
}

/// The device can be used as it is.
fn half_improved(examined: &ExaminedDevice) -> Option<CheckFinding> {
    let left = examined.unfinished_improvement.as_ref()?;
    let finding =
        CheckFinding::new("unfinished", &examined.target, Severity::Advice, left.what.clone());
    let finding = finding.costs("some of the settings are changed and some are not");
    Some(CheckFinding { repair: left.repair.clone().map(Repair::Command), ..finding })
}

/// What is on it cannot be judged. The alignment of a partition can be judged whatever it contains;
/// of a device without partitions nothing is then left that was looked at.
fn unread(volume: &Volume) -> Option<CheckFinding> {
    let text = match &volume.unreadable {
        Some(reason) => format!("its file system was not read: {reason}"),
        None if volume.facts.is_none() && !volume.is_partition => {
            "it has neither a partition table nor a known file system".to_owned()
        }
        None => return None,
    };
    Some(CheckFinding::new("file system", &volume.name, Severity::CannotTell, text))
}

fn geometry(examined: &ExaminedDevice) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    for text in &examined.disagreements {
        let of = &examined.target;
        findings.push(CheckFinding::new("geometry", of, Severity::Advice, text.clone()));
    }
    match &examined.geometry.erase_block {
        Some(known) => {
            let mut text = format!("the erase block is {}, {}", known.bytes, known.source);
            if let Some(grid) = examined.grid().filter(|grid| grid.first_bytes() != 0) {
                text.push_str(&format!(
                    "; the first one starts at {}",
                    position(grid.first_bytes())
                ));
            }
            findings.push(CheckFinding::new("geometry", &examined.target, Severity::Fine, text));
        }
        None => findings.push(CheckFinding::new(
            "geometry",
            &examined.target,
            Severity::CannotTell,
            "the erase block is unknown, so the alignment cannot be checked",
        )),
    }
    findings
}
