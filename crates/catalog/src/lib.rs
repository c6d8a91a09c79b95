//! Finds catalog entries: file systems, workloads, cards and more, as text files.
//!
//! The files of `catalog/` are embedded in the binary, compressed (`build.rs`). A user's folder
//! with the same layout (`cards/*.toml`, `filesystems/*.toml`, `workloads/*.fio`,
//! `published/*.txt`) adds entries and replaces those with the same name. A crate that uses a file
//! defines its keys; [`read_toml`] finds all mistakes of it.

mod line_number;
mod mistakes;
mod named;
mod reader;
mod used;
mod user_folder;

use std::path::{Path, PathBuf};

use flashfit_host::input_file::{TEXT_BYTES, read_hint, read_text};
use flashfit_user_error::{ExitClass, Hint, UserError};

pub use line_number::{line_at, line_of_key};
pub use mistakes::{FileMistake, FileMistakes, ReadToml, read_entry, read_toml};
pub use named::{NamedEntry, find_named, is_toml_name};
pub use reader::{TomlError, from_toml};
pub use used::CatalogChecksum;
pub use user_folder::{UnreadFile, UserFolderError, check_user_folder};

/// Paths within `catalog/`, and the compressed files.
static BUILT_IN: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

pub const FOLDERS: [&str; 14] = [
    "cards",
    "counters",
    "filesystems",
    "findings",
    "geometry",
    "knobs",
    "life",
    "patterns",
    "published",
    "recipes",
    "starts",
    "traces",
    "usage",
    "workloads",
];

/// Where an entry comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Embedded in the binary; the path within `catalog/`.
    BuiltIn(String),
    File(PathBuf),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn(path) => write!(f, "built-in catalog/{path}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A file of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// File name without extension.
    pub name: String,
    /// What is in it.
    pub text: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// Why an entry is not available.
#[derive(Debug, thiserror::Error)]
pub enum CatalogEntryError {
    /// No entry of that name.
    #[error("unknown {what} `{name}`")]
    Unknown {
        /// The kind of entry: `card`, `workload`, …
        what: String,
        name: String,
        /// The most similar known name, if one is similar enough.
        nearest: Option<String>,
        known: Vec<String>,
    },
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        source: std::io::Error,
    },
}

impl CatalogEntryError {
    /// The error for a name that is not in `known`, with the most similar one.
    pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<String> = known.into_iter().map(str::to_owned).collect();
        Self::Unknown {
            what: what.to_owned(),
            name: name.to_owned(),
            nearest: nearest(name, known.iter().map(String::as_str)),
            known,
        }
    }
}

impl UserError for CatalogEntryError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Unknown { nearest: Some(nearest), .. } => {
                Some(format!("did you mean `{nearest}`?").into())
            }
            Self::Unknown { known, .. } => Some(format!("known are: {}", known.join(", ")).into()),
            Self::Unreadable { path, source } => read_hint(path, source),
        }
    }
}

/// The known name that is most similar to `name`, if it is similar enough to suggest.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}

/// All entries of a folder (`cards`, `filesystems`, `workloads`) with the file extension
/// `extension`, sorted by name; `user` is the user's catalog folder.
///
/// # Errors
/// [`CatalogEntryError::Unreadable`]; a `user` folder without the subfolder is not an error.
pub fn entries(
    folder: &str,
    extension: &str,
    user: Option<&Path>,
) -> Result<Vec<CatalogEntry>, CatalogEntryError> {
    let mut found: Vec<CatalogEntry> = BUILT_IN
        .iter()
        .filter_map(|(path, packed)| {
            let name = path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(extension)?;
            let origin = Origin::BuiltIn((*path).to_owned());
            let name = name.strip_suffix('.')?.to_owned();
            Some(CatalogEntry { name, text: unpack(packed), origin })
        })
        .collect();
    if let Some(user) = user {
        for entry in user_entries(&user.join(folder), extension)? {
            found.retain(|known| known.name != entry.name);
            found.push(entry);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn unpack(packed: &[u8]) -> String {
    let bytes = miniz_oxide::inflate::decompress_to_vec_zlib(packed);
    let bytes = bytes.expect("the build compressed it");
    String::from_utf8(bytes).expect("the build read it as text")
}

fn user_entries(folder: &Path, extension: &str) -> Result<Vec<CatalogEntry>, CatalogEntryError> {
    let unreadable =
        |path: &Path, source| CatalogEntryError::Unreadable { path: path.to_owned(), source };
    let listing = match std::fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(folder, error)),
    };
    let mut entries = Vec::new();
    for file in listing {
        let path = file.map_err(|error| unreadable(folder, error))?.path();
        if path.extension().is_some_and(|found| found == extension) {
            entries.push(read(&path)?);
        }
    }
    Ok(entries)
}

/// Reads a user's file as an entry named after the file.
pub fn read(path: &Path) -> Result<CatalogEntry, CatalogEntryError> {
    let text = read_text(path, TEXT_BYTES).map_err(|error| CatalogEntryError::Unreadable {
        path: path.to_owned(),
        source: error.into_io(),
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(CatalogEntry { name, text, origin: Origin::File(path.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_folders_is_complete() {
        let mut built_in: Vec<&str> =
            BUILT_IN.iter().filter_map(|(path, _)| Some(path.split_once('/')?.0)).collect();
        built_in.dedup();
        assert_eq!(built_in, FOLDERS);
    }

    #[test]
    fn every_built_in_file_is_unpacked_as_it_was() {
        let catalog = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog");
        for (path, packed) in BUILT_IN {
            assert_eq!(
                unpack(packed),
                std::fs::read_to_string(catalog.join(path)).unwrap(),
                "{path}"
            );
        }
    }

    #[test]
    fn a_user_entry_replaces_the_built_in_one() {
        let user = tempfile::tempdir().unwrap();
        std::fs::create_dir(user.path().join("filesystems")).unwrap();
        std::fs::write(user.path().join("filesystems/ext4.toml"), "mine").unwrap();
        let found = entries("filesystems", "toml", Some(user.path())).unwrap();
        let ext4: Vec<_> = found.iter().filter(|entry| entry.name == "ext4").collect();
        assert_eq!(ext4.len(), 1);
        assert_eq!(ext4[0].text, "mine");
        assert!(matches!(ext4[0].origin, Origin::File(_)));
    }

    #[test]
    fn a_user_folder_without_the_subfolder_adds_nothing() {
        let user = tempfile::tempdir().unwrap();
        let with = entries("cards", "toml", Some(user.path())).unwrap();
        assert_eq!(with, entries("cards", "toml", None).unwrap());
    }

    #[test]
    fn a_similar_name_is_suggested() {
        assert_eq!(nearest("noatme", ["noatime", "discard"]).as_deref(), Some("noatime"));
        assert_eq!(nearest("zzz", ["noatime", "discard"]), None);
    }
}
