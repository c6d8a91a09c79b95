//! Why the state of a served card cannot be read or written.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use flashfit_card::SnapshotError;
use flashfit_device::Bytes;
use flashfit_host::program::quote_path;
use flashfit_user_error::{ExitClass, Hint, UserError, UserSetting};

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It cannot be written. What was there before is as it was, and the card is still served.
    #[error("the state of the card is not saved: {0}")]
    Save(SnapshotError),
    /// The file is there and is not a state.
    #[error("{} is not a saved card; it is not overwritten", file.display())]
    NotOverwritten { file: PathBuf },
    /// It cannot be written at the end, and was written to another place.
    #[error("{reason}; it is saved in {} instead", rescued.display())]
    SavedElsewhere { reason: Box<StateError>, file: PathBuf, rescued: PathBuf },
    /// It cannot be written at the end, nor anywhere else.
    #[error("{reason}; what was written to the card since it was loaded is lost")]
    Lost { reason: Box<StateError> },
    /// It could not be written at the end, when it would be too late.
    #[error("cannot save a card in {}: {source}", file.display())]
    NoPlace { file: PathBuf, source: std::io::Error },
    #[error("cannot save a card in {}: it is {found}", file.display())]
    NotRegular {
        file: PathBuf,
        /// Its kind, with an article.
        found: &'static str,
    },
    /// Another process serves the card of this file.
    #[error("{} is in use: a card is served from it{}", file.display(), by(*process))]
    Locked {
        file: PathBuf,
        /// The number of the process, where it is known.
        process: Option<u32>,
    },
    #[error("{} exists and is not a lock file of flashfit", lock.display())]
    ForeignLock { lock: PathBuf },
    /// It is there and cannot be read.
    #[error("cannot use the saved card: {0}")]
    Load(SnapshotError),
    /// It is that of another card.
    #[error("{} has the state of card `{found}`, not of `{wanted}`", file.display())]
    OtherCard {
        file: PathBuf,
        /// The card in the file.
        found: String,
        /// The card that was asked for.
        wanted: String,
    },
    /// It is that of a card of this name with other properties.
    #[error(
        "{} has the state of another card `{name}`: {}", file.display(), difference(*found, *wanted)
    )]
    OtherModel {
        file: PathBuf,
        name: String,
        /// The capacity of the card in the file.
        found: Bytes,
        /// The capacity of the card that was asked for.
        wanted: Bytes,
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
            Self::Save(_) | Self::SavedElsewhere { .. } | Self::Lost { .. } => ExitClass::Io,
            Self::Load(error) => error.class(),
            Self::OtherCard { .. } | Self::OtherModel { .. } => ExitClass::Usage,
            Self::Locked { .. }
            | Self::NotOverwritten { .. }
            | Self::NotRegular { .. }
            | Self::ForeignLock { .. } => ExitClass::Refused,
            Self::NoPlace { .. } | Self::Data { .. } => ExitClass::Environment,
            Self::Image { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
                ExitClass::Refused
            }
            Self::Image { .. } => ExitClass::Io,
        }
    }

    fn hint(&self) -> Option<Hint> {
        let another = |before: &str, after: &str| {
            Some(Hint::from(before).and(UserSetting::State).and(format!(" FILE{after}")))
        };
        match self {
            Self::Save(error) => Some(match Obstacle::of(error) {
                Obstacle::NoFolder(folder) => folder_command(folder).into(),
                Obstacle::NoRoom => "make room there; what was saved before is as it was".into(),
                Obstacle::Other => "see why it cannot be written: dmesg".into(),
            }),
            Self::SavedElsewhere { reason, file, rescued } => {
                let first = match &**reason {
                    Self::NotOverwritten { .. } => "move that file away, then: ".to_owned(),
                    Self::Save(error) => match Obstacle::of(error) {
                        Obstacle::NoFolder(folder) => format!("{} && ", folder_command(folder)),
                        Obstacle::NoRoom => "make room there, then: ".to_owned(),
                        Obstacle::Other => "when it can be written again: ".to_owned(),
                    },
                    _ => "when it can be written again: ".to_owned(),
                };
                let (from, to) = (quote_path(rescued), quote_path(file));
                Some(format!("{first}mv {from} {to}").into())
            }
            Self::Lost { reason } => {
                let first = match &**reason {
                    Self::NotOverwritten { .. } => "move that file away".to_owned(),
                    Self::Save(error) => match Obstacle::of(error) {
                        Obstacle::NoFolder(folder) => folder_command(folder),
                        Obstacle::NoRoom => "make room there".to_owned(),
                        Obstacle::Other => "make it writable".to_owned(),
                    },
                    _ => "make it writable".to_owned(),
                };
                let rest = " before the next start, or name a file elsewhere: ";
                another(&format!("{first}{rest}"), "")
            }
            Self::NoPlace { .. } => {
                Some("name a file in a directory that exists and can be written to".into())
            }
            Self::Locked { .. } => another("end that one with Ctrl-C, or name another file: ", ""),
            Self::Load(error) => error.hint().or_else(|| new_file("name another file: ")),
            Self::NotOverwritten { .. } | Self::NotRegular { .. } | Self::ForeignLock { .. } => {
                new_file("name another file: ")
            }
            Self::OtherCard { .. } | Self::OtherModel { .. } => {
                new_file("serve the card that was saved, or name another file: ")
            }
            Self::Data { .. } => Some("name a directory of a file system with room".into()),
            Self::Image { .. } => Some("name a file that does not exist".into()),
        }
    }
}

/// Why a state cannot be written, as far as a user can do something about it.
enum Obstacle<'a> {
    /// Its directory does not exist any more.
    NoFolder(&'a Path),
    NoRoom,
    Other,
}

impl<'a> Obstacle<'a> {
    fn of(error: &'a SnapshotError) -> Self {
        let SnapshotError::File { path, source } = error else { return Self::Other };
        let SnapshotError::Io(error) = &**source else { return Self::Other };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        match (error.kind(), folder) {
            (ErrorKind::NotFound, Some(folder)) => Self::NoFolder(folder),
            (ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge, _) => {
                Self::NoRoom
            }
            _ => Self::Other,
        }
    }
}

fn folder_command(folder: &Path) -> String {
    format!("mkdir -p {}", quote_path(folder))
}

fn new_file(before: &str) -> Option<Hint> {
    let hint = Hint::from(before).and(UserSetting::State);
    Some(hint.and(" FILE; one that does not exist is created"))
}

fn by(process: Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" by process {process}"))
}

fn difference(found: Bytes, wanted: Bytes) -> String {
    if found == wanted {
        "its card file was changed".to_owned()
    } else {
        format!("{found}, not {wanted}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_about_what_stands_in_the_way() {
        let save = |kind: ErrorKind| {
            let source = Box::new(SnapshotError::Io(kind.into()));
            Box::new(StateError::Save(SnapshotError::File { path: "/gone dir/s".into(), source }))
        };
        for (kind, elsewhere, lost) in [
            (ErrorKind::NotFound, "mkdir -p '/gone dir' && mv ", "mkdir -p '/gone dir' before"),
            (ErrorKind::StorageFull, "make room there, then: mv ", "make room there before"),
            (ErrorKind::ReadOnlyFilesystem, "when it can be written again: mv", "make it writable"),
        ] {
            let (file, rescued) = ("/gone dir/s".into(), "/tmp/s".into());
            let hint = StateError::SavedElsewhere { reason: save(kind), file, rescued }.hint();
            assert!(hint.as_ref().is_some_and(|hint| hint.contains(elsewhere)), "{hint:?}");
            let hint = StateError::Lost { reason: save(kind) }.hint();
            assert!(hint.as_ref().is_some_and(|hint| hint.contains(lost)), "{hint:?}");
        }
    }
}
