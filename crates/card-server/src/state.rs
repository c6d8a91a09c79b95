//! The state of a served card in a file, and the file of its bytes.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use flashfit_card::{Card, CardModel, SnapshotError};
use flashfit_host::input_file;
use flashfit_user_error::{ExitClass, Hint, UserError, UserSetting};
use rustix::fs::{Access, AtFlags, Mode, OFlags};

use crate::live::LiveCard;
use crate::state_lock::{LockFailure, StateLock};

/// Why a state cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It cannot be written. What was there before is as it was.
    #[error("the state of the card is not saved: {0}")]
    Save(SnapshotError),
    /// It could not be written at the end, when it would be too late.
    #[error("cannot save a card in {}: {source}", file.display())]
    NoPlace { file: PathBuf, source: std::io::Error },
    /// Another process serves the card of this file.
    #[error("{} is in use: a card is served from it{}", file.display(), by(*process))]
    Locked {
        file: PathBuf,
        /// The number of the process, where it is known.
        process: Option<u32>,
    },
    /// It is there and cannot be read.
    #[error("cannot use the saved card: {0}")]
    Load(SnapshotError),
    /// It is that of another card.
    #[error("{} is the state of a card `{found}`, not of this `{wanted}`", file.display())]
    Other {
        file: PathBuf,
        /// The card in the file.
        found: String,
        /// The card that was asked for.
        wanted: String,
    },
    /// There is no place for the card's bytes.
    #[error("cannot keep the bytes of the card in {}: {source}", folder.display())]
    Data { folder: PathBuf, source: std::io::Error },
    /// The image cannot be written.
    #[error("cannot write the image {}: {source}", file.display())]
    Image { file: PathBuf, source: std::io::Error },
}

impl UserError for StateError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Save(_) => ExitClass::Io,
            Self::Load(error) => error.class(),
            Self::Other { .. } => ExitClass::Usage,
            Self::Locked { .. } => ExitClass::Refused,
            Self::NoPlace { .. } | Self::Data { .. } => ExitClass::Environment,
            Self::Image { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
                ExitClass::Refused
            }
            Self::Image { .. } => ExitClass::Io,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Save(_) => Some("make room there; what was saved before is as it was".into()),
            Self::NoPlace { .. } => {
                Some("name a file in a directory that exists and can be written to".into())
            }
            Self::Locked { .. } => Some(
                Hint::from("end that one with Ctrl-C, or name another file: ")
                    .and(UserSetting::State)
                    .and(" FILE"),
            ),
            Self::Load(error) => error.hint(),
            Self::Other { .. } => Some("name another file; one that is not there is made".into()),
            Self::Data { .. } => Some("name a folder of a file system with room".into()),
            Self::Image { .. } => Some("name a file that does not exist".into()),
        }
    }
}

/// Locks the file of a card's state, for as long as the card is served.
///
/// # Errors
/// [`StateError::NoPlace`] or [`StateError::Locked`].
pub fn lock(file: &Path) -> Result<StateLock, StateError> {
    can_be_saved(file)?;
    StateLock::take(file).map_err(|failure| match failure {
        LockFailure::Locked(process) => StateError::Locked { file: file.to_owned(), process },
        LockFailure::Io(source) => StateError::NoPlace { file: file.to_owned(), source },
    })
}

fn by(process: Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" by process {process}"))
}

/// Whether a saved card is one of `model` that was aged: it has blocks that fail, and its own
/// capacity.
fn is_aged(saved: &CardModel, model: &CardModel) -> bool {
    saved.name == model.name && saved.nand.wear_out.is_some() && model.nand.wear_out.is_none()
}

/// The card in the file of its state where there is one, or a new one.
///
/// # Errors
/// [`StateError::Load`], [`StateError::Other`] or [`StateError::Data`].
pub fn card(
    model: &CardModel,
    state: Option<&Path>,
    data_folder: Option<&Path>,
) -> Result<Card, StateError> {
    let data = data_folder.map(unnamed_file).transpose()?;
    let Some(file) = state.filter(|file| file.exists()) else {
        return Ok(match data {
            Some(data) => Card::in_file(model, data),
            None => Card::new(model),
        });
    };
    let card = load(file, data).map_err(|source| {
        StateError::Load(SnapshotError::File { path: file.to_owned(), source: Box::new(source) })
    })?;
    if card.model() == model || is_aged(card.model(), model) {
        return Ok(card);
    }
    let (found, wanted) = (card.model().name.clone(), model.name.clone());
    Err(StateError::Other { file: file.to_owned(), found, wanted })
}

/// Whether a card can be saved as `file`, as far as that can be known before: not how much room
/// there will be.
fn can_be_saved(file: &Path) -> Result<(), StateError> {
    let no_place = |source| StateError::NoPlace { file: file.to_owned(), source };
    if file.is_dir() {
        return Err(no_place(ErrorKind::IsADirectory.into()));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let access = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::accessat(rustix::fs::CWD, folder, access, AtFlags::EACCESS)
        .map_err(|error| no_place(error.into()))?;
    if folder.is_dir() { Ok(()) } else { Err(no_place(ErrorKind::NotADirectory.into())) }
}

fn load(file: &Path, data: Option<File>) -> Result<Card, SnapshotError> {
    let opened = input_file::open(file).map_err(|error| SnapshotError::Io(error.into_io()));
    let reader = BufReader::new(opened?);
    match data {
        Some(data) => Card::load_in_file(reader, data),
        None => Card::load(reader),
    }
}

/// A file without a name, so that nothing is left of it however the process ends.
fn unnamed_file(folder: &Path) -> Result<File, StateError> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR);
    opened
        .map(File::from)
        .map_err(|error| StateError::Data { folder: folder.to_owned(), source: error.into() })
}

/// Writes the card's state to `file`, whole or not at all. Nothing is served meanwhile.
///
/// # Errors
/// [`StateError::Save`].
pub fn save(card: &LiveCard, file: &Path) -> Result<(), StateError> {
    let mut timed = card.lock();
    timed.pass_time(0);
    timed.card.save_to(file).map_err(StateError::Save)
}

/// Writes what a host would read to a new file. Returns how many bytes could not be read.
///
/// # Errors
/// [`StateError::Image`].
pub fn write_image(card: &LiveCard, file: &Path) -> Result<u64, StateError> {
    let opened = OpenOptions::new().write(true).create_new(true).open(file);
    let written = opened.and_then(|image| {
        let written = card.lock().card.write_image(&image);
        written.and_then(|unreadable| image.sync_all().map(|()| unreadable)).inspect_err(|_| {
            // The error to tell of is the first.
            let _ = std::fs::remove_file(file);
        })
    });
    written.map_err(|source| StateError::Image { file: file.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_model::{SMALL, parse};

    #[test]
    fn a_card_that_could_not_be_saved_is_not_begun() {
        let folder = tempfile::tempdir().unwrap();
        let not_a_folder = folder.path().join("file");
        std::fs::write(&not_a_folder, "").unwrap();
        let model = parse(SMALL).unwrap();
        let begun = |file: &Path| {
            let locked = lock(file)?;
            card(&model, Some(locked.state()), None)
        };
        let impossible =
            [folder.path().join("none/card"), not_a_folder.join("card"), folder.path().into()];
        for file in &impossible {
            let error = begun(file).unwrap_err();
            assert!(matches!(error, StateError::NoPlace { .. }), "{error}");
            assert!(error.to_string().contains(&file.display().to_string()), "{error}");
        }
        assert!(begun(&folder.path().join("card")).is_ok());
    }
}
