//! A saved card in a file, which is replaced as a whole: after a failure or a power cut it is the
//! old or the new one.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use flashfit_host::input_file;

use super::{MAGIC, SnapshotError};
use crate::card::Card;

impl Card {
    /// Saves the card to a file atomically: a save that fails or is interrupted keeps the old file.
    /// An old file passes on its permissions, and its owner where that is allowed.
    ///
    /// # Errors
    /// [`SnapshotError::File`].
    pub fn save_to(&self, path: &Path) -> Result<(), SnapshotError> {
        self.replace(path).map_err(|error| in_file(path, error))
    }

    fn replace(&self, path: &Path) -> Result<(), SnapshotError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // Opened first: what cannot be synced is not begun.
        let folder = File::open(folder.unwrap_or(Path::new(".")))?;
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}.part", std::process::id()));
        // Never written through an old draft, which could be a link to another file.
        let _ = std::fs::remove_file(&draft);
        let created = OpenOptions::new().write(true).create_new(true).open(&draft);
        let saved = created.map_err(SnapshotError::Io).and_then(|file| {
            let old = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file);
            if let Some(old) = old {
                // Only root may give a file to another user.
                let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
                file.set_permissions(old.permissions())?;
            }
            // Its last step writes out the buffer.
            self.save(BufWriter::new(&file))?;
            file.sync_all()?;
            Ok(std::fs::rename(&draft, path)?)
        });
        if saved.is_err() {
            let _ = std::fs::remove_file(&draft);
        }
        saved.and_then(|()| Ok(folder.sync_all()?))
    }

    /// Loads a card saved by [`Card::save_to`].
    ///
    /// # Errors
    /// [`SnapshotError::File`].
    pub fn load_from(path: &Path) -> Result<Self, SnapshotError> {
        let file = input_file::open(path)
            .map_err(|error| in_file(path, SnapshotError::Io(error.into_io())))?;
        Self::load(BufReader::new(file)).map_err(|error| in_file(path, error))
    }
}

/// Whether the file at `path` begins like a saved card, intact or not.
///
/// # Errors
/// If it is not a regular file or cannot be read.
pub fn is_saved_card(path: &Path) -> io::Result<bool> {
    let mut begin = Vec::new();
    let file = input_file::open(path).map_err(input_file::InputFileError::into_io)?;
    file.take(MAGIC.len() as u64).read_to_end(&mut begin)?;
    Ok(begin == MAGIC)
}

fn in_file(path: &Path, source: SnapshotError) -> SnapshotError {
    SnapshotError::File { path: path.to_owned(), source: Box::new(source) }
}
