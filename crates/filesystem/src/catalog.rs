//! Loads the file systems of `catalog/filesystems/` and the machine options of `catalog/knobs/`;
//! files in the user's directory take precedence.

use std::path::Path;

use flashfit_catalog::{CatalogEntry, CatalogEntryError, FileMistake, FileMistakes, Origin};
use flashfit_user_error::{ExitClass, Hint, UserError};
use serde::Deserialize;
use toml::Spanned;

use crate::definition;
use crate::filesystem::{FileSystem, FsOption};

/// An error of reading the catalog.
#[derive(Debug, thiserror::Error)]
pub enum FileSystemCatalogError {
    #[error(transparent)]
    Entry(#[from] CatalogEntryError),
    /// All mistakes of all files.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<FileMistakes>),
}

impl UserError for FileSystemCatalogError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Entry(error) => error.class(),
            Self::Invalid(files) => {
                let is_own = |file: &FileMistakes| matches!(file.origin, Origin::File(_));
                if files.iter().all(is_own) { ExitClass::Usage } else { ExitClass::Bug }
            }
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Entry(error) => error.hint(),
            Self::Invalid(files) => files.first()?.hint(),
        }
    }
}

type KnobsFile<'a> = (&'a CatalogEntry, Vec<FsOption>);

fn read_knobs(entries: &[CatalogEntry]) -> Result<Vec<KnobsFile<'_>>, Vec<FileMistakes>> {
    read_all(entries, |entry| Ok((entry, definition::read_knobs(entry)?)))
}

/// Everything that was read, or the mistakes of all files.
fn read_all<'a, T>(
    entries: &'a [CatalogEntry],
    read: impl Fn(&'a CatalogEntry) -> Result<T, FileMistakes>,
) -> Result<Vec<T>, Vec<FileMistakes>> {
    let (mut found, mut mistakes) = (Vec::new(), Vec::new());
    for entry in entries {
        match read(entry) {
            Ok(value) => found.push(value),
            Err(of_file) => mistakes.push(of_file),
        }
    }
    if mistakes.is_empty() { Ok(found) } else { Err(mistakes) }
}

/// The names of the options of a file, each with its place.
#[derive(Deserialize)]
struct OptionNames {
    #[serde(default)]
    option: Vec<OptionName>,
}

#[derive(Deserialize)]
struct OptionName {
    name: Spanned<String>,
}

/// Two options of one name. The mistake is in the user's file, where one of them is in one.
fn clash(
    filesystem: &str,
    known: &FsOption,
    knob: &FsOption,
    all: &[&CatalogEntry],
) -> FileMistakes {
    let is_own = |option: &FsOption| matches!(option.origin, Origin::File(_));
    let (blamed, other) =
        if is_own(known) && !is_own(knob) { (known, knob) } else { (knob, known) };
    let reason = format!(
        "{filesystem} has two options `{}`; the other one is from {}",
        blamed.name, other.origin
    );
    let entry = all.iter().find(|entry| entry.origin == blamed.origin);
    let line = entry.and_then(|entry| {
        let names: OptionNames = flashfit_catalog::from_toml(&entry.text).ok()?;
        let mut places = names.option.iter().map(|option| &option.name);
        let place = places.find(|name| *name.get_ref() == blamed.name)?;
        Some(flashfit_catalog::line_at(&entry.text, place.span().start))
    });
    FileMistakes::new(&blamed.origin, vec![FileMistake { line: line.unwrap_or(1), reason }])
}

/// The first line that begins with this key; counted from 1.
pub(crate) fn line_of(text: &str, key: &str) -> usize {
    text.lines().position(|line| line.trim_start().starts_with(key)).map_or(1, |at| at + 1)
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
        let all: Vec<&CatalogEntry> = filesystems.iter().chain(&knobs).collect();
        match (Self::from_entries(&filesystems), read_knobs(&knobs)) {
            (Ok(found), Ok(knobs)) => found.with_options(&knobs, &all),
            (Err(FileSystemCatalogError::Invalid(mut files)), Err(more)) => {
                files.extend(more);
                Err(FileSystemCatalogError::Invalid(files))
            }
            (Err(error), _) => Err(error),
            (_, Err(files)) => Err(FileSystemCatalogError::Invalid(files)),
        }
    }

    /// Adds the options of these files to each file system; the texts of all files are in `all`.
    fn with_options(
        mut self,
        files: &[KnobsFile<'_>],
        all: &[&CatalogEntry],
    ) -> Result<Self, FileSystemCatalogError> {
        let mut mistakes = self.unknown_hosts(all);
        for knob in files.iter().flat_map(|(_, knobs)| knobs) {
            let known = |filesystem: &FileSystem| filesystem.option(&knob.name).ok().cloned();
            let clashing =
                self.filesystems.iter().find_map(|it| Some((it.name.clone(), known(it)?)));
            match clashing {
                Some((name, known)) => mistakes.push(clash(&name, &known, knob, all)),
                None => {
                    for filesystem in &mut self.filesystems {
                        filesystem.options.push(knob.clone());
                    }
                }
            }
        }
        if mistakes.is_empty() { Ok(self) } else { Err(FileSystemCatalogError::Invalid(mistakes)) }
    }

    /// Hosts of images that are not in the catalog.
    fn unknown_hosts(&self, all: &[&CatalogEntry]) -> Vec<FileMistakes> {
        let images = self.filesystems.iter().filter_map(|it| Some((it, it.layered.as_ref()?)));
        let unknown = images.flat_map(|(filesystem, layered)| {
            let errors = layered.hosts.iter().filter_map(|host| self.filesystem(host).err());
            errors.map(move |error| (filesystem, error))
        });
        let mistake = |(filesystem, error): (&FileSystem, CatalogEntryError)| {
            let hint = error.hint().and_then(|hint| hint.text().map(|text| format!("; {text}")));
            let reason = format!("[layered] hosts: {error}{}", hint.unwrap_or_default());
            let entry = all.iter().find(|entry| entry.origin == filesystem.origin);
            let line = entry.map_or(1, |entry| line_of(&entry.text, "hosts"));
            FileMistakes::new(&filesystem.origin, vec![FileMistake { line, reason }])
        };
        unknown.map(mistake).collect()
    }

    /// Reads the given files.
    ///
    /// # Errors
    /// [`FileSystemCatalogError::Invalid`] with the mistakes of all files.
    pub fn from_entries(entries: &[CatalogEntry]) -> Result<Self, FileSystemCatalogError> {
        let filesystems = read_all(entries, definition::read);
        Ok(Self { filesystems: filesystems.map_err(FileSystemCatalogError::Invalid)? })
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
