//! Loads the file systems of `catalog/filesystems/` and the machine options of `catalog/knobs/`;
//! files in the user's directory take precedence.

use std::path::Path;

use flashfit_catalog::{CatalogEntry, CatalogEntryError, Origin};
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::definition;
use crate::filesystem::{FileSystem, FsOption};

/// An error of reading the catalog.
#[derive(Debug, thiserror::Error)]
pub enum FileSystemCatalogError {
    #[error(transparent)]
    Entry(#[from] CatalogEntryError),
    #[error("{origin}, line {line}: {reason}")]
    Invalid { origin: Origin, line: usize, reason: String },
}

impl UserError for FileSystemCatalogError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Entry(error) => error.class(),
            Self::Invalid { origin: Origin::BuiltIn(_), .. } => ExitClass::Bug,
            Self::Invalid { .. } => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Entry(error) => error.hint(),
            Self::Invalid { origin: Origin::File(path), line, .. } => {
                let path = flashfit_host::program::quote_path(path);
                Some(format!("${{EDITOR:-vi}} +{line} {path}").into())
            }
            Self::Invalid { .. } => None,
        }
    }
}

fn invalid(entry: &CatalogEntry, error: definition::DefinitionError) -> FileSystemCatalogError {
    FileSystemCatalogError::Invalid {
        origin: entry.origin.clone(),
        line: error.line,
        reason: error.reason,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystemCatalog {
    filesystems: Vec<FileSystem>,
}

impl FileSystemCatalog {
    /// `user_dir` is the user's catalog directory.
    ///
    /// # Errors
    /// For the first file that cannot be read or is not valid.
    pub fn load(user_dir: Option<&Path>) -> Result<Self, FileSystemCatalogError> {
        let filesystems = flashfit_catalog::entries("filesystems", "toml", user_dir)?;
        let knobs = flashfit_catalog::entries("knobs", "toml", user_dir)?;
        Self::from_entries(&filesystems)?.with_knobs(&knobs)
    }

    /// Adds the options of these files to each file system.
    ///
    /// # Errors
    /// [`FileSystemCatalogError::Invalid`] for the first file that is not valid, or whose option
    /// has the name of an existing one.
    pub fn with_knobs(mut self, entries: &[CatalogEntry]) -> Result<Self, FileSystemCatalogError> {
        for entry in entries {
            let knobs = definition::read_knobs(entry).map_err(|error| invalid(entry, error))?;
            for filesystem in &mut self.filesystems {
                let named = |knob: &&FsOption| filesystem.option(&knob.name).is_ok();
                if let Some(knob) = knobs.iter().find(named) {
                    let reason = format!("{} has an option `{}`", filesystem.name, knob.name);
                    return Err(invalid(entry, definition::DefinitionError { line: 1, reason }));
                }
                filesystem.options.extend(knobs.iter().cloned());
            }
        }
        Ok(self)
    }

    /// Reads the given files.
    ///
    /// # Errors
    /// [`FileSystemCatalogError::Invalid`] for the first file that is not valid.
    pub fn from_entries(entries: &[CatalogEntry]) -> Result<Self, FileSystemCatalogError> {
        let read = |entry| definition::read(entry).map_err(|error| invalid(entry, error));
        Ok(Self { filesystems: entries.iter().map(read).collect::<Result<_, _>>()? })
    }

    /// All file systems, sorted by name.
    pub fn filesystems(&self) -> &[FileSystem] {
        &self.filesystems
    }

    /// The file system of that name.
    ///
    /// # Errors
    /// [`CatalogEntryError::Unknown`] with the nearest name.
    pub fn filesystem(&self, name: &str) -> Result<&FileSystem, CatalogEntryError> {
        self.filesystems.iter().find(|filesystem| filesystem.name == name).ok_or_else(|| {
            let known = self.filesystems.iter().map(|filesystem| filesystem.name.as_str());
            CatalogEntryError::unknown("file system", name, known)
        })
    }
}
