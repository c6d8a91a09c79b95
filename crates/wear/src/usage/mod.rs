//! A usage model: how much of what a product writes a day, and how it treats its device.
//!
//! The file is TOML. Every number is in a section with its `source`, which is `assumption` if there
//! is none, and its key names the unit. All mistakes of a file are reported together (`checks`).

mod checks;

use std::path::Path;

use flashfit_catalog::{CatalogEntry, CatalogEntryError, FileMistakes, find_named};
use flashfit_user_error::{ExitClass, Hint, UserError};

/// The workloads that traces are recorded of.
pub const WORKLOADS: [&str; 4] = ["database", "logs", "small-files", "recording"];

#[derive(Debug, Clone, PartialEq)]
pub struct SourcedNumber<T> {
    pub value: T,
    pub source: String,
}

/// How often the device learns which space is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrimInterval {
    Never,
    Weekly,
    /// With each removal.
    Always,
}

#[derive(Debug, Clone, PartialEq)]
pub struct UsageModel {
    /// In the catalog, the file name without extension.
    pub name: String,
    pub title: String,
    /// Of the product's device; used if the target is a model of reduced size.
    pub capacity_gib: SourcedNumber<f64>,
    /// What programs pass to write(2), in GiB a day, by workload.
    pub writes: Vec<(String, SourcedNumber<f64>)>,
    /// The true volume lies within this factor with 90 %: 1.5 means between 2/3 and 3/2.
    pub volume_factor: SourcedNumber<f64>,
    pub active_hours_a_day: SourcedNumber<f64>,
    /// Share of the device with data.
    pub fill_percent: SourcedNumber<f64>,
    /// Share of the device whose data ever changes.
    pub changed_percent: SourcedNumber<f64>,
    /// Share of the device that is never written, such as an unpartitioned rest.
    pub spare_percent: SourcedNumber<f64>,
    pub trim: SourcedNumber<TrimInterval>,
}

impl UsageModel {
    /// GiB that programs write a day, by all workloads.
    pub fn gib_a_day(&self) -> f64 {
        self.writes.iter().map(|(_, gib)| gib.value).sum()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    #[error(transparent)]
    Entry(#[from] CatalogEntryError),
    /// All mistakes of the file.
    #[error(transparent)]
    Mistakes(#[from] FileMistakes),
}

impl UserError for UsageError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Entry(error) => error.class(),
            Self::Mistakes(_) => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Entry(error) => error.hint(),
            Self::Mistakes(found) => found.hint(),
        }
    }
}

/// Loads a usage model by its name in the catalog or by its file, see [`find_named`]; `user` is
/// the user's catalog folder.
///
/// # Errors
/// When it is unknown or cannot be read; [`UsageError::Mistakes`] with all mistakes.
pub fn load(name_or_path: &str, user: Option<&Path>) -> Result<UsageModel, UsageError> {
    parse(&find_named(("usage", "usage model"), name_or_path, user)?.entry)
}

/// Parses and checks a usage model.
///
/// # Errors
/// [`UsageError::Mistakes`] with all mistakes.
pub fn parse(entry: &CatalogEntry) -> Result<UsageModel, UsageError> {
    Ok(checks::read(entry)?)
}

#[cfg(test)]
mod tests;
