//! The file systems of `catalog/filesystems/` and the machine's options of `catalog/knobs/`, with
//! the user's own over them.

use std::path::Path;

use flashfit_catalog::{CatalogEntry, CatalogEntryError, Origin};
use flashfit_user_error::{ExitClass, UserError};

use crate::definition;
use crate::filesystem::{FileSystem, FsOption};

/// Why the catalog cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileSystemCatalogError {
    /// A file or folder cannot be had.
    #[error(transparent)]
    Entry(#[from] CatalogEntryError),
    /// A file is not valid.
    #[error("{origin}, line {line}: {reason}")]
    Invalid {
        /// The file.
        origin: Origin,
        /// Counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
}

impl UserError for FileSystemCatalogError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Entry(error) => error.class(),
            Self::Invalid { origin: Origin::BuiltIn(_), .. } => ExitClass::Bug,
            Self::Invalid { .. } => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Entry(error) => error.hint(),
            Self::Invalid { origin: Origin::File(path), line, .. } => {
                let path = flashfit_host::program::quote(&path.display().to_string());
                Some(format!("${{EDITOR:-vi}} +{line} {path}"))
            }
            Self::Invalid { .. } => None,
        }
    }
}

fn invalid(entry: &CatalogEntry, fault: definition::DefinitionError) -> FileSystemCatalogError {
    FileSystemCatalogError::Invalid {
        origin: entry.origin.clone(),
        line: fault.line,
        reason: fault.reason,
    }
}

/// All file systems that are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystemCatalog {
    filesystems: Vec<FileSystem>,
}

impl FileSystemCatalog {
    /// Reads the built-in catalog and that of the user over it.
    ///
    /// # Errors
    /// When a file cannot be read or is not valid; the first such file is named.
    pub fn load(user_dir: Option<&Path>) -> Result<Self, FileSystemCatalogError> {
        let filesystems = flashfit_catalog::entries("filesystems", "toml", user_dir)?;
        let knobs = flashfit_catalog::entries("knobs", "toml", user_dir)?;
        Self::from_entries(&filesystems)?.with_knobs(&knobs)
    }

    /// With the options of these files for each of its file systems.
    ///
    /// # Errors
    /// [`FileSystemCatalogError::Invalid`] for the first file that is not valid, or whose option has the
    /// name of one that is there.
    pub fn with_knobs(mut self, entries: &[CatalogEntry]) -> Result<Self, FileSystemCatalogError> {
        for entry in entries {
            let knobs = definition::read_knobs(entry).map_err(|fault| invalid(entry, fault))?;
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
        let read = |entry| definition::read(entry).map_err(|fault| invalid(entry, fault));
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
