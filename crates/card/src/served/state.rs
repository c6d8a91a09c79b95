//! The state of a served card in a file, and the file of its bytes.

use std::fs::{File, OpenOptions};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use flashfit_host::{ExitClass, Explain};
use rustix::fs::{Mode, OFlags};

use super::live::LiveCard;
use super::serve::ServeOptions;
use crate::card::Card;
use crate::model::CardModel;
use crate::snapshot::SnapshotError;

/// Why a state cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It cannot be written. What was there before is as it was.
    #[error("the state of the card is not saved: {0}")]
    Save(SnapshotError),
    /// It is there and cannot be read.
    #[error("cannot go on with a saved card: {0}")]
    Load(SnapshotError),
    /// It is that of another card.
    #[error("{} is the state of a card `{found}`, not of this `{wanted}`", file.display())]
    Other {
        /// The file.
        file: PathBuf,
        /// The card in the file.
        found: String,
        /// The card that was asked for.
        wanted: String,
    },
    /// There is no place for the card's bytes.
    #[error("cannot keep the bytes of the card in {}: {source}", folder.display())]
    Data {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The image cannot be written.
    #[error("cannot write the image {}: {source}", file.display())]
    Image {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Explain for StateError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Save(_) => ExitClass::Io,
            Self::Load(error) => error.class(),
            Self::Other { .. } => ExitClass::Usage,
            Self::Data { .. } => ExitClass::Environment,
            Self::Image { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
                ExitClass::Refused
            }
            Self::Image { .. } => ExitClass::Io,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Save(_) => Some("make room there; what was saved before is as it was".to_owned()),
            Self::Load(error) => error.hint(),
            Self::Other { .. } => Some("name another file; one that is not there is made".into()),
            Self::Data { .. } => Some("name a folder of a file system with room".to_owned()),
            Self::Image { .. } => Some("name a file that is not there".to_owned()),
        }
    }
}

/// The card in the file of its state where there is one, or a new one.
///
/// # Errors
/// [`StateError::Load`], [`StateError::Other`] or [`StateError::Data`].
pub fn card(model: &CardModel, options: &ServeOptions) -> Result<Card, StateError> {
    let data = options.data_folder.as_deref().map(unnamed_file).transpose()?;
    let Some(file) = options.state.as_deref().filter(|file| file.exists()) else {
        return Ok(match data {
            Some(data) => Card::in_file(model, data),
            None => Card::new(model),
        });
    };
    let card = load(file, data).map_err(|source| {
        StateError::Load(SnapshotError::File { path: file.to_owned(), source: Box::new(source) })
    })?;
    if card.model() == model {
        return Ok(card);
    }
    let (found, wanted) = (card.model().name.clone(), model.name.clone());
    Err(StateError::Other { file: file.to_owned(), found, wanted })
}

fn load(file: &Path, data: Option<File>) -> Result<Card, SnapshotError> {
    let reader = BufReader::new(File::open(file).map_err(SnapshotError::Io)?);
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
