//! Files in the user's catalog folder that nothing reads: a misspelled directory, another ending,
//! a name that nothing looks for. Without an error, the user would believe that they count.
//!
//! Hidden files, backups of editors (`NAME~`) and notes (`.md`) are left alone, and so are plain
//! files next to the directories that are not of a catalog.

use std::path::{Path, PathBuf};

use flashfit_host::input_file::read_hint;
use flashfit_host::program::quote_path;
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::{FOLDERS, nearest};

/// Why a user's catalog folder is not used.
#[derive(Debug, thiserror::Error)]
pub enum UserFolderError {
    #[error("there is no catalog directory {}", path.display())]
    Missing { path: PathBuf },
    /// A file or directory cannot be listed.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// All that is not read; at least one.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Unread(Vec<UnreadFile>),
}

/// A file or directory of a catalog that nothing reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct UnreadFile {
    pub path: PathBuf,
    pub reason: String,
    /// The name that was probably meant, if nothing has it yet.
    pub meant: Option<PathBuf>,
}

impl UserError for UserFolderError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Missing { .. } => Some(
                "name the directory that contains cards/, filesystems/, knobs/ or workloads/"
                    .into(),
            ),
            Self::Unreadable { path, source } => read_hint(path, source),
            Self::Unread(files) => {
                let first = files.first()?;
                let Some(meant) = &first.meant else {
                    let path = quote_path(&first.path);
                    return Some(format!("move {path} out of the catalog").into());
                };
                Some(format!("mv {} {}", quote_path(&first.path), quote_path(meant)).into())
            }
        }
    }
}

/// The endings of the files of a directory.
fn endings(folder: &str) -> &'static [&'static str] {
    match folder {
        "workloads" => &["fio", "toml"],
        "published" => &["toml", "txt"],
        _ => &["toml"],
    }
}

/// The one file that is read of a directory, where it is one.
fn only_name(folder: &str) -> Option<&'static str> {
    match folder {
        "counters" => Some("ata"),
        "life" => Some("options"),
        "patterns" => Some("twin"),
        _ => None,
    }
}

/// Whether everything in the user's catalog folder is read.
///
/// # Errors
/// [`UserFolderError::Unread`] with all that is not.
pub fn check_user_folder(user: &Path) -> Result<(), UserFolderError> {
    if !user.is_dir() {
        return Err(UserFolderError::Missing { path: user.to_owned() });
    }
    let mut unread = Vec::new();
    for path in listed(user)? {
        let name = name(&path);
        match (path.is_dir(), FOLDERS.contains(&name.as_str())) {
            (true, true) => {
                let files = listed(&path)?;
                unread.extend(files.into_iter().filter_map(|file| in_folder(&name, file)));
            }
            (true, false) => unread.push(UnreadFile {
                reason: format!("nothing reads this directory; known are {}", FOLDERS.join(", ")),
                meant: nearest(&name, FOLDERS).map(|meant| user.join(meant)),
                path,
            }),
            (false, _) if ["toml", "fio"].contains(&ending(&path)) => unread.push(UnreadFile {
                path,
                reason: "nothing reads this file: it must be in a directory such as cards".into(),
                meant: None,
            }),
            (false, _) => {}
        }
    }
    for file in &mut unread {
        // A file would be replaced, and a directory would end up inside the other.
        file.meant = file.meant.take().filter(|meant| meant.symlink_metadata().is_err());
    }
    if unread.is_empty() { Ok(()) } else { Err(UserFolderError::Unread(unread)) }
}

/// What is wrong with a file of a known directory.
fn in_folder(folder: &str, path: PathBuf) -> Option<UnreadFile> {
    if path.is_dir() {
        let reason = "it is a directory, and only files are read here".into();
        return Some(UnreadFile { path, reason, meant: None });
    }
    let known = endings(folder);
    if !known.contains(&ending(&path)) {
        let expected: Vec<String> = known.iter().map(|ending| format!(".{ending}")).collect();
        let reason = format!("nothing reads this file: expected NAME{}", expected.join(" or NAME"));
        let meant = nearest(ending(&path), known.iter().copied()).unwrap_or(known[0].to_owned());
        return Some(UnreadFile { meant: Some(path.with_extension(meant)), reason, path });
    }
    let only =
        only_name(folder).filter(|only| path.file_stem().is_none_or(|stem| stem != *only))?;
    let file = format!("{only}.toml");
    let reason = format!("nothing reads this file: only {folder}/{file} is read");
    Some(UnreadFile { meant: Some(path.with_file_name(file)), reason, path })
}

/// What is in a directory, sorted, without what is never meant to be read.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, UserFolderError> {
    let unreadable = |source| UserFolderError::Unreadable { path: folder.to_owned(), source };
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.retain(|path| {
        let name = name(path);
        !name.starts_with('.') && !name.ends_with('~') && (path.is_dir() || ending(path) != "md")
    });
    paths.sort();
    Ok(paths)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn ending(path: &Path) -> &str {
    path.extension().and_then(|ending| ending.to_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(path: &str) -> Result<(), UserFolderError> {
        with_files(&[path])
    }

    fn with_files(paths: &[&str]) -> Result<(), UserFolderError> {
        let user = tempfile::tempdir().unwrap();
        for path in paths {
            let file = user.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        check_user_folder(user.path())
    }

    fn hint_of(error: &UserFolderError) -> String {
        error.hint().and_then(|hint| hint.text().map(str::to_owned)).unwrap()
    }

    #[test]
    fn no_hint_moves_a_file_onto_another() {
        for [unread, taken] in [
            ["life/mine.toml", "life/options.toml"],
            ["knobs/mine.tml", "knobs/mine.toml"],
            ["card/mine.toml", "cards/other.toml"],
        ] {
            assert!(hint_of(&with_file(unread).unwrap_err()).starts_with("mv "), "{unread}");
            let hint = hint_of(&with_files(&[unread, taken]).unwrap_err());
            assert!(hint.starts_with("move ") && hint.ends_with("out of the catalog"), "{hint}");
        }
    }

    #[test]
    fn what_is_read_or_plainly_something_else_is_accepted() {
        for path in [
            "cards/mine.toml",
            "workloads/mine.fio",
            "workloads/mine.toml",
            "counters/ata.toml",
            "published/mine.txt",
            "cards/README.md",
            "cards/mine.toml~",
            "cards/.mine.toml.swp",
            ".git/config",
            "LICENSE",
        ] {
            assert!(with_file(path).is_ok(), "{path}");
        }
        let catalog = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog");
        assert!(check_user_folder(&catalog).is_ok(), "a copy of the built-in catalog");
    }

    #[test]
    fn what_nothing_reads_is_an_error_with_the_name_that_was_meant() {
        for (path, reason, hint) in [
            ("card/mine.toml", "/card: nothing reads this directory", "/cards"),
            ("stuff/mine.toml", "/stuff: nothing reads this directory", "move "),
            ("cards/mine.tml", "/cards/mine.tml: nothing reads this file", "/cards/mine.toml"),
            ("cards/mine", "expected NAME.toml", "/cards/mine.toml"),
            ("cards/mine.fio", "expected NAME.toml", "/cards/mine.toml"),
            ("workloads/mine.job", "expected NAME.fio or NAME.toml", "/workloads/mine.fio"),
            ("counters/nvme.toml", "only counters/ata.toml is read", "/counters/ata.toml"),
            ("cards/more/mine.toml", "/cards/more: it is a directory", "move "),
            ("mine.toml", "in a directory such as cards", "move "),
        ] {
            let error = with_file(path).unwrap_err();
            assert_eq!(error.class(), ExitClass::Usage);
            assert!(error.to_string().contains(reason), "{path}: {error}");
            let found = hint_of(&error);
            assert!(found.contains(hint), "{path}: {found}");
        }
        let missing =
            check_user_folder(&tempfile::tempdir().unwrap().path().join("x")).unwrap_err();
        assert!(missing.to_string().contains("there is no catalog directory"));
    }
}
