//! The state of a served card in a file, and the file of its bytes.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufReader, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use flashfit_card::{Card, CardModel, SnapshotError, snapshot};
use flashfit_host::input_file;
use rustix::fs::{Access, AtFlags, Mode, OFlags};

use crate::live::LiveCard;
use crate::state_error::StateError;
use crate::state_lock::{LockFailure, StateLock};

/// Locks the file of a card's state, for as long as the card is served.
///
/// # Errors
/// If the state could not be saved there at the end, or the file is in use.
pub fn lock(file: &Path) -> Result<StateLock, StateError> {
    can_be_saved(file)?;
    StateLock::take(file).map_err(|failure| match failure {
        LockFailure::Foreign(lock) => StateError::ForeignLock { lock },
        LockFailure::Locked(process) => StateError::Locked { file: file.to_owned(), process },
        LockFailure::Io(source) => StateError::NoPlace { file: file.to_owned(), source },
    })
}

/// Whether a saved card is one of `model` that was aged: it has blocks that fail, and its own
/// capacity.
fn is_aged(saved: &CardModel, model: &CardModel) -> bool {
    saved.name == model.name && saved.nand.wear_out.is_some() && model.nand.wear_out.is_none()
}

/// The card in the file of its state where there is one, or a new one.
///
/// # Errors
/// If the file has no state of this card, or its bytes cannot be kept in `data_folder`.
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
    let (file, found, wanted) = (file.to_owned(), card.model(), model);
    Err(if found.name == wanted.name {
        let name = wanted.name.clone();
        StateError::OtherModel { file, name, found: found.capacity, wanted: wanted.capacity }
    } else {
        StateError::OtherCard { file, found: found.name.clone(), wanted: wanted.name.clone() }
    })
}

/// Whether a card can be saved as `file`, as far as that can be known before: not how much room
/// there will be.
fn can_be_saved(file: &Path) -> Result<(), StateError> {
    let no_place = |source| StateError::NoPlace { file: file.to_owned(), source };
    match (std::fs::metadata(file), std::fs::symlink_metadata(file)) {
        (Ok(found), _) if !found.is_file() => {
            let found = input_file::describe_type(found.file_type());
            return Err(StateError::NotRegular { file: file.to_owned(), found });
        }
        (Err(_), Ok(link)) if link.is_symlink() => {
            let found = "a link to a file that does not exist";
            return Err(StateError::NotRegular { file: file.to_owned(), found });
        }
        _ => {}
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    // It is read to be synced.
    let access = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
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

/// Writes the card's state to `file`, whole or not at all. Nothing is served meanwhile. A file that
/// is there and is not a state is not replaced.
///
/// # Errors
/// [`StateError::Save`] or [`StateError::NotOverwritten`].
pub fn save(card: &LiveCard, file: &Path) -> Result<(), StateError> {
    let is_replaceable = match std::fs::symlink_metadata(file) {
        Err(error) => error.kind() == ErrorKind::NotFound,
        Ok(_) => snapshot::is_saved_card(file).unwrap_or(false),
    };
    if !is_replaceable {
        return Err(StateError::NotOverwritten { file: file.to_owned() });
    }
    let mut timed = card.lock();
    timed.pass_time(0);
    timed.card.save_to(file).map_err(StateError::Save)
}

/// Saves a card that is about to end. Where that fails, its state is saved in a new directory below
/// the first of `elsewhere` that has room, since nothing else has it.
///
/// # Errors
/// [`StateError::SavedElsewhere`] or [`StateError::Lost`].
pub fn save_at_end(card: &LiveCard, file: &Path, elsewhere: &[PathBuf]) -> Result<(), StateError> {
    let Err(reason) = save(card, file) else { return Ok(()) };
    let reason = Box::new(reason);
    let name = file.file_name().unwrap_or_default();
    match elsewhere.iter().find_map(|folder| rescue(card, folder, name.as_ref())) {
        Some(rescued) => Err(StateError::SavedElsewhere { reason, file: file.to_owned(), rescued }),
        None => Err(StateError::Lost { reason }),
    }
}

/// Where a state is saved that cannot be saved in its file.
pub fn temporary_folders() -> Vec<PathBuf> {
    let chosen = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
    // What is in /var/tmp is still there after a restart.
    chosen.into_iter().chain(["/var/tmp".into(), "/tmp".into()]).collect()
}

fn rescue(card: &LiveCard, folder: &Path, name: &Path) -> Option<PathBuf> {
    let own =
        (0..100).map(|count| folder.join(format!("flashfit-card-{}-{count}", std::process::id())));
    // Others can write to these directories, and may not read what is on the card.
    let own = own.into_iter().find(|path| DirBuilder::new().mode(0o700).create(path).is_ok())?;
    let rescued = own.join(name);
    if save(card, &rescued).is_err() {
        // An empty directory that stays does no harm.
        let _ = std::fs::remove_dir(&own);
        return None;
    }
    Some(rescued)
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
    use crate::live::tests::serving;
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
            let (no_place, not_regular) = (
                matches!(error, StateError::NoPlace { .. }),
                matches!(error, StateError::NotRegular { .. }),
            );
            assert!(no_place || not_regular, "{error}");
            assert!(error.to_string().contains(&file.display().to_string()), "{error}");
        }
        assert!(begun(&folder.path().join("card")).is_ok());
    }

    #[test]
    fn a_state_is_saved_elsewhere_or_reported_as_lost() {
        let folder = tempfile::tempdir().unwrap();
        let theirs = folder.path().join("card.state");
        std::fs::write(&theirs, "a user's data").unwrap();
        let card = serving(&[]);
        let nowhere = folder.path().join("none");
        let lost = save_at_end(&card, &theirs, std::slice::from_ref(&nowhere)).unwrap_err();
        assert!(matches!(lost, StateError::Lost { .. }), "{lost}");
        let elsewhere = [nowhere, folder.path().to_owned()];
        for _ in 0..2 {
            match save_at_end(&card, &theirs, &elsewhere).unwrap_err() {
                StateError::SavedElsewhere { rescued, .. } => {
                    assert!(rescued.ends_with("card.state"));
                    Card::load_from(&rescued).unwrap();
                }
                other => panic!("{other}"),
            }
        }
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "a user's data");
    }
}
