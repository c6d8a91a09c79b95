//! Values of flags, parsed for clap, and the check of the catalog directory.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use flashfit_device::Bytes;
use flashfit_filesystem::{Durability, LayoutStart, PartitionEnd, PartitionTable};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;

/// What a setup is scored by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CriterionArg {
    /// Mean throughput (geometric mean).
    Throughput,
    /// Worst completion latency.
    Latency,
    /// Bytes programmed into the flash, or else written to the device, per byte that the workload
    /// writes.
    Wear,
}

impl From<CriterionArg> for flashfit_tune::Criterion {
    fn from(by: CriterionArg) -> Self {
        match by {
            CriterionArg::Throughput => Self::Throughput,
            CriterionArg::Latency => Self::Latency,
            CriterionArg::Wear => Self::Wear,
        }
    }
}

/// The name of a new catalog file, which is also its file name.
pub fn new_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if text.is_empty() || text.starts_with('-') || !text.chars().all(plain) {
        return Err("write letters, digits, `-` and `_`".to_owned());
    }
    Ok(text.to_owned())
}

/// Refuses a catalog directory that does not exist or in which something is never read.
pub fn is_folder(catalog: Option<&Path>) -> Result<(), CommandError> {
    catalog.map_or(Ok(()), |catalog| Ok(flashfit_catalog::check_user_folder(catalog)?))
}

/// Parses a path for clap that is passed on as text, in commands or in documents.
pub fn text_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("an empty path".to_owned()) } else { Ok(PathBuf::from(text)) }
}

/// Parses a size for clap.
pub fn size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: flashfit_device::units::BadSize| error.to_string())
}

/// Parses a durability for clap.
pub fn durability(text: &str) -> Result<Durability, String> {
    let scale = [
        Durability::Safe,
        Durability::LosesRecent,
        Durability::BreaksPromise,
        Durability::MayCorrupt,
    ];
    let named = scale.into_iter().find(|step| step.name() == text);
    named.ok_or_else(|| format!("one of {}", scale.map(Durability::name).join(", ")))
}

/// Where the file system starts.
pub fn layout_start(text: &str) -> Result<LayoutStart, CommandError> {
    text.parse().map_err(|error| {
        CommandError::new(
            ExitClass::Usage,
            format!("{error}"),
            Some("--start takes auto, whole or a position such as 4MiB or 63s"),
        )
    })
}

/// Whether start and table do not contradict each other.
pub fn check_placement(
    start: Option<LayoutStart>,
    table: Option<PartitionTable>,
) -> Result<(), CommandError> {
    let reason = match (start, table) {
        (Some(LayoutStart::Whole), Some(PartitionTable::Gpt | PartitionTable::Mbr)) => {
            "--start whole and --table contradict each other"
        }
        (Some(LayoutStart::At(_)), Some(PartitionTable::None)) => {
            "without a partition table the file system starts where the device starts"
        }
        _ => return Ok(()),
    };
    Err(CommandError::new(ExitClass::Usage, reason, Some("leave out --table or --start")))
}

/// Whether the file system is asked to fill the device.
pub fn is_unpartitioned(start: Option<LayoutStart>, table: Option<PartitionTable>) -> bool {
    start == Some(LayoutStart::Whole) || table == Some(PartitionTable::None)
}

/// Whether there is a partition whose end can be chosen.
pub fn check_end(
    start: Option<LayoutStart>,
    table: Option<PartitionTable>,
    align_end: bool,
) -> Result<(), CommandError> {
    if !(align_end && is_unpartitioned(start, table)) {
        return Ok(());
    }
    let reason = "--align-end: without a partition table there is no partition that ends";
    Err(CommandError::new(ExitClass::Usage, reason, Some("leave out --align-end")))
}

/// The end that `--align-end` chooses.
pub fn partition_end(align_end: bool) -> Option<PartitionEnd> {
    align_end.then_some(PartitionEnd::Grid)
}

/// Parses `FS:OPTION` for clap.
pub fn fs_option(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((filesystem, option)) if !filesystem.is_empty() && !option.is_empty() => {
            Ok((filesystem.to_owned(), option.to_owned()))
        }
        _ => Err(format!("`{text}` is not a file system and an option: write ext4:noatime")),
    }
}
