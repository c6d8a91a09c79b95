//! The file `catalog/patterns/twin.toml`, whose head explains its keys.

use std::path::Path;

use flashfit_catalog::{CatalogEntryError, FileMistakes, entries, read_entry};
use flashfit_device::Bytes;
use flashfit_user_error::{ExitClass, Hint, UserError};
use flashfit_wear::TraceFileError;
use serde::Deserialize;

use super::{Pattern, made, recorded};

/// Patterns in the order in which they are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternSet {
    /// How much of a region is written before, and how much they need.
    pub span: Bytes,
    pub patterns: Vec<Pattern>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PatternFile {
    span: Bytes,
    #[serde(default)]
    pattern: Vec<MadePattern>,
    #[serde(default)]
    trace: Vec<RecordedPattern>,
}

/// Requests of one size.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MadePattern {
    pub name: String,
    pub what: String,
    #[serde(default)]
    pub reads: bool,
    pub bytes: Bytes,
    pub count: u32,
    pub order: PatternOrder,
    #[serde(default = "one")]
    pub streams: u32,
    pub within: Bytes,
    pub large: Option<Bytes>,
    #[serde(default)]
    pub sync: bool,
    pub parts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PatternOrder {
    Same,
    Linear,
    Random,
}

/// The beginning of a recorded trace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedPattern {
    pub name: String,
    /// The most that is written.
    pub most: Bytes,
    pub parts: u32,
}

fn one() -> u32 {
    1
}

/// Why there are no patterns.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    #[error(transparent)]
    Entry(#[from] CatalogEntryError),
    #[error(transparent)]
    Mistakes(#[from] FileMistakes),
    #[error(transparent)]
    Trace(#[from] TraceFileError),
}

impl UserError for PatternError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Entry(error) => error.class(),
            Self::Mistakes(_) => ExitClass::Usage,
            Self::Trace(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Entry(error) => error.hint(),
            Self::Mistakes(found) => found.hint(),
            Self::Trace(error) => error.hint(),
        }
    }
}

impl PatternSet {
    /// The name of the set that twins are fitted to.
    pub const NAME: &str = "twin";

    /// The patterns that twins are fitted to; `user` is the user's catalog folder.
    ///
    /// # Errors
    /// If the catalog lacks them or has mistakes.
    pub fn load(user: Option<&Path>) -> Result<Self, PatternError> {
        let known = entries("patterns", "toml", user)?;
        let names = known.iter().map(|entry| entry.name.as_str());
        let entry = known.iter().find(|entry| entry.name == Self::NAME);
        let entry =
            entry.ok_or_else(|| CatalogEntryError::unknown("patterns", Self::NAME, names))?;
        let invalid = |key: String, reason: String| FileMistakes::at_key(entry, &key, reason);
        let file: PatternFile = read_entry(entry)?;
        let mut patterns = Vec::new();
        for (at, pattern) in file.pattern.iter().enumerate() {
            let made = made::pattern(pattern, file.span);
            patterns.push(made.map_err(|reason| invalid(format!("pattern.{at}.name"), reason))?);
        }
        // A single flush of a trace can take minutes on a slow device, so that nothing follows.
        for (at, wanted) in file.trace.iter().enumerate() {
            let name = || format!("trace.{at}.name");
            let trace = flashfit_wear::trace_file::find(&wanted.name, user)?;
            let unknown = || invalid(name(), format!("unknown trace `{}`", wanted.name));
            let trace = trace.ok_or_else(unknown)?;
            let beginning = recorded::pattern(wanted, &trace, file.span);
            patterns.push(beginning.map_err(|reason| invalid(name(), reason))?);
        }
        Ok(Self { span: file.span, patterns })
    }
}
