//! A second partition: swap space, or a file system for data, behind the first one; on its own
//! erase blocks where these are known.
//!
//! Limits: its file system has the usual options (`geometry` and `noatime` where they can be used)
//! and no label.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use flashfit_device::Bytes;
use flashfit_geometry::EraseBlockGrid;
use flashfit_host::Program;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::FileSystemCatalog;
use crate::conditions::Conditions;
use crate::filesystem::FileSystem;
use crate::layout::{
    EXAMPLE_NODE, LayoutPlan, PartitionContent, PartitionEnd, PartitionLayout, SecondPlace, divide,
    numbered_partition,
};
use crate::recipe::Recipe;
use crate::setup::Setup;

use super::choose::usual;
use super::commands::one;
use super::conditions::fitted_conditions;
use super::document::{Plan, PlannedCommand, PlannedPlacement};
use super::error::PlanError;
use super::make::allowed;

/// The content that is swap space.
pub const SWAP: &str = "swap";
/// The placeholder for its UUID in [`PlannedSecond::fstab_line`].
pub const SECOND_UUID_PLACE: &str = "UUID=YOUR-SECOND-UUID";
/// Its node in the commands for a device that is not there.
pub const EXAMPLE_SECOND: &str = "/dev/YOUR-SECOND-PARTITION";
/// Where a file system for data is mounted.
const DATA_POINT: &str = "/mnt/flash-data";

/// What the user requests.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SecondChoice {
    /// `swap`, or a file system of the catalog.
    pub content: String,
    /// At least as large; it gets whole erase blocks.
    pub size_bytes: u64,
    /// Where its file system is mounted; `None` for swap.
    pub mount_point: Option<PathBuf>,
}

/// The same without a mount point, which a run does not decide.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SecondPartition {
    /// `swap`, or a file system of the catalog.
    pub content: String,
    /// At least as large; it gets whole erase blocks.
    pub size_bytes: u64,
}

/// `CONTENT:SIZE`, and what is behind another colon.
fn parse<'a>(text: &'a str, forms: &str) -> Result<(SecondPartition, Option<&'a str>), String> {
    let wrong = || format!("`{text}` is not {forms}, such as swap:512MiB");
    let mut parts = text.splitn(3, ':');
    let content = parts.next().filter(|name| !name.is_empty()).ok_or_else(wrong)?;
    let size: Result<Bytes, _> = parts.next().ok_or_else(wrong)?.parse();
    let size = size.map_err(|error| format!("`{text}`: {error}"))?;
    if size.0 == 0 {
        return Err(format!("`{text}`: the second partition has no size"));
    }
    Ok((SecondPartition { content: content.to_owned(), size_bytes: size.0 }, parts.next()))
}

impl FromStr for SecondPartition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match parse(text, "swap:SIZE or FS:SIZE")? {
            (partition, None) => Ok(partition),
            (_, Some(_)) => Err(format!("`{text}`: a run has no mount point; apply takes one")),
        }
    }
}

impl fmt::Display for SecondPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.content, self.size_bytes)
    }
}

impl From<SecondPartition> for SecondChoice {
    fn from(SecondPartition { content, size_bytes }: SecondPartition) -> Self {
        let mount_point = (content != SWAP).then(|| DATA_POINT.into());
        Self { content, size_bytes, mount_point }
    }
}

impl SecondPartition {
    /// Whether it can be made at all.
    ///
    /// # Errors
    /// When its file system is unknown, packed from a directory, or needs more space.
    pub fn check(&self, catalog: &FileSystemCatalog) -> Result<(), PlanError> {
        match self.content.as_str() {
            SWAP => Ok(()),
            name => data_filesystem(catalog, name, self.size_bytes).map(drop),
        }
    }
}

impl FromStr for SecondChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (partition, point) = parse(text, "swap:SIZE, FS:SIZE or FS:SIZE:DIR")?;
        let choice = Self::from(partition);
        match (choice.mount_point.is_some(), point) {
            (_, None) => Ok(choice),
            (false, Some(_)) => Err(format!("`{text}`: swap space is not mounted")),
            (true, Some(point)) if !Path::new(point).is_absolute() => {
                Err(format!("`{text}`: the mount point does not begin with /"))
            }
            (true, Some(point)) => Ok(Self { mount_point: Some(point.into()), ..choice }),
        }
    }
}

pub(super) fn content_of(content: &str) -> PartitionContent {
    match content {
        SWAP => PartitionContent::Swap,
        "fat32" => PartitionContent::Fat32,
        "exfat" => PartitionContent::Exfat,
        _ => PartitionContent::Linux,
    }
}

/// The layout with a second partition behind the first, which becomes smaller.
///
/// # Errors
/// [`PlanError::Second`] without a partition table, or where both do not fit.
pub fn with_second_partition(
    layout: LayoutPlan,
    content: &str,
    least_bytes: u64,
    end: PartitionEnd,
) -> Result<LayoutPlan, PlanError> {
    let PartitionLayout::Partition { start_bytes, size_bytes, table } = layout.layout else {
        return Err(PlanError::Second { reason: "there is no partition table".to_owned() });
    };
    let grid = EraseBlockGrid::new(layout.unit.0, layout.first_unit_bytes);
    let divided = grid.and_then(|grid| divide(start_bytes, size_bytes, (grid, end), least_bytes));
    let [(_, first_bytes), (second_start, second_bytes)] =
        divided.ok_or_else(|| PlanError::Second {
            reason: format!(
                "{} do not fit behind an erase block of the first, in {}",
                Bytes(least_bytes),
                Bytes(size_bytes)
            ),
        })?;
    let second = SecondPlace {
        start_bytes: second_start,
        size_bytes: second_bytes,
        content: content_of(content),
    };
    let first = PartitionLayout::Partition { start_bytes, size_bytes: first_bytes, table };
    Ok(LayoutPlan { layout: first, second: Some(second), ..layout })
}

/// A file system for data that a partition of this size can have.
fn data_filesystem<'a>(
    catalog: &'a FileSystemCatalog,
    name: &str,
    size_bytes: u64,
) -> Result<&'a FileSystem, PlanError> {
    let filesystem = catalog.filesystem(name)?;
    if filesystem.layered.is_some() || filesystem.mkfs.from_folder {
        let reason = "it would be packed from a directory".to_owned();
        return Err(PlanError::Second { reason });
    }
    let least = filesystem.min_device_size;
    if size_bytes < least.0 {
        let reason = format!("{name} needs {least}, but there are only {}", Bytes(size_bytes));
        return Err(PlanError::Second { reason });
    }
    Ok(filesystem)
}

/// What is made in the second partition.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PlannedSecond {
    /// The file system, as mount(8) and blkid(8) call it; `swap` for swap space.
    pub kind: String,
    /// Its options; none for swap space.
    pub options: Vec<String>,
    /// What makes it, in order.
    pub commands: Vec<PlannedCommand>,
    /// The line for fstab(5); `UUID=YOUR-SECOND-UUID` is the placeholder for its UUID.
    pub fstab_line: String,
}

/// The same as programs, for one node.
#[derive(Debug, Clone)]
pub struct SecondPrograms {
    pub node: PathBuf,
    pub kind: String,
    pub format: Vec<Program>,
    pub fstab_line: String,
}

impl Plan {
    /// What makes the second partition of the device at `node`; `None` without one.
    ///
    /// # Errors
    /// When its file system is unknown, or cannot be made there.
    pub fn second_programs(
        &self,
        catalog: &FileSystemCatalog,
        node: &Path,
    ) -> Result<Option<SecondPrograms>, PlanError> {
        Ok(made(self, catalog, node)?.map(|(programs, _)| programs))
    }
}

/// The plan with its second partition, where one was chosen.
pub(super) fn with_second(mut plan: Plan, catalog: &FileSystemCatalog) -> Result<Plan, PlanError> {
    let node = plan.example_node();
    let Some((programs, options)) = made(&plan, catalog, &node)? else { return Ok(plan) };
    let purpose = match programs.kind.as_str() {
        SWAP => "make the swap space in the second partition".to_owned(),
        kind => format!("make the file system for data ({kind}) in the second partition"),
    };
    let commands = programs.format.iter().map(|program| one(&purpose, program, true)).collect();
    let SecondPrograms { kind, fstab_line, .. } = programs;
    plan.second = Some(PlannedSecond { kind, options, commands, fstab_line });
    Ok(plan)
}

fn made(
    plan: &Plan,
    catalog: &FileSystemCatalog,
    node: &Path,
) -> Result<Option<(SecondPrograms, Vec<String>)>, PlanError> {
    let (Some(choice), [_, partition]) = (&plan.choices.second, plan.partitions.as_slice()) else {
        return Ok(None);
    };
    let node = match node == Path::new(EXAMPLE_NODE) {
        true => PathBuf::from(EXAMPLE_SECOND),
        false => numbered_partition(node, partition.number),
    };
    let Some(point) = &choice.mount_point else {
        let programs = SecondPrograms {
            format: vec![Program::new("mkswap").arg(&node)],
            kind: SWAP.to_owned(),
            fstab_line: format!("{SECOND_UUID_PLACE} none swap sw,nofail 0 0"),
            node,
        };
        return Ok(Some((programs, Vec::new())));
    };
    let filesystem = data_filesystem(catalog, &choice.content, partition.size_bytes)?;
    if *point == plan.mount_point {
        let reason = "it has the mount point of the first partition".to_owned();
        return Err(PlanError::Second { reason });
    }
    let device = Conditions {
        geometry: plan.geometry.used.clone(),
        discard: plan.device.discard,
        volatile_cache: plan.device.volatile_cache,
        ..Conditions::default()
    };
    let place =
        PlannedPlacement { start_bytes: partition.start_bytes, size_bytes: partition.size_bytes };
    let conditions = fitted_conditions(filesystem, &device, place, plan.device.sector_bytes);
    let options = usual(filesystem, &conditions);
    let scheduler = plan.setup.scheduler.clone();
    let setup = Setup::new(filesystem, &options, scheduler, &conditions)?;
    allowed(filesystem, &setup, plan.choices.allow)?;
    let recipe = Recipe::new(filesystem, &setup, &conditions)?;
    let programs = SecondPrograms {
        kind: recipe.kind().to_owned(),
        format: std::iter::once(recipe.mkfs(&node)).chain(recipe.tune(&node)).collect(),
        fstab_line: recipe.installed_line(SECOND_UUID_PLACE, point),
        node,
    };
    Ok(Some((programs, setup.options)))
}
