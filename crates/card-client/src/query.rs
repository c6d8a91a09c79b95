//! Asking a card that is being served, from any process of the same user or of root.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_card::cut::{CutReport, EnabledFault};
use flashfit_card::{Counters, SpareBlocks};
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::address;
use crate::protocol::{CardFailure, CardQuery, CardReply, RequestKind, line};

/// Writing the state of a large card takes its time.
const ANSWER_WAIT: Duration = Duration::from_secs(600);
/// Longer than any answer.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// Why a served card does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No process serves that device.
    #[error("{} is not a simulated card that is being served", device.display())]
    NotServed {
        /// The device as given.
        device: PathBuf,
    },
    /// It is served by another user.
    #[error("{} is served by another user ({owner})", device.display())]
    Foreign {
        /// The device as given.
        device: PathBuf,
        /// That user, by number or as `root`.
        owner: String,
    },
    /// It does not answer as it should.
    #[error("the card behind {} does not answer: {source}", device.display())]
    NoAnswer {
        /// The device as given.
        device: PathBuf,
        source: std::io::Error,
    },
    /// It says why it cannot.
    #[error(transparent)]
    Failed(#[from] CardFailure),
}

impl UserError for AskError {
    fn class(&self) -> ExitClass {
        match self {
            Self::NotServed { .. } => ExitClass::Usage,
            Self::Foreign { .. } => ExitClass::Environment,
            Self::NoAnswer { .. } => ExitClass::Io,
            Self::Failed(failure) => failure.class(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotServed { .. } => {
                Some("name the /dev/loopN or the socket of a card that is running".into())
            }
            Self::Foreign { .. } => Some("run the same command as that user or with sudo".into()),
            Self::NoAnswer { .. } => None,
            Self::Failed(failure) => failure.hint(),
        }
    }
}

/// The counters of the card that is served at `place` (`/dev/loopN` or a socket).
///
/// # Errors
/// See [`AskError`].
pub fn stats(place: &Path) -> Result<Counters, AskError> {
    match ask(place, RequestKind::Counters)? {
        CardReply::Counters(counters) => Ok(counters),
        other => Err(unexpected(place, &other)),
    }
}

/// The state of the card's spare erase blocks; `None` if blocks of its model never fail.
///
/// # Errors
/// See [`AskError`].
pub fn spare_blocks(place: &Path) -> Result<Option<SpareBlocks>, AskError> {
    match ask(place, RequestKind::SpareBlocks)? {
        CardReply::SpareBlocks(spares) => Ok(spares),
        other => Err(unexpected(place, &other)),
    }
}

/// Like [`stats`], and lets them begin at 0 again.
///
/// # Errors
/// See [`AskError`].
pub fn reset_stats(place: &Path) -> Result<Counters, AskError> {
    match ask(place, RequestKind::ResetCounters)? {
        CardReply::Counters(counters) => Ok(counters),
        other => Err(unexpected(place, &other)),
    }
}

/// Cuts the card's power: requests under way fail, and all later ones until [`power_on`].
///
/// # Errors
/// See [`AskError`].
pub fn cut(place: &Path, faults: &[EnabledFault], seed: u64) -> Result<CutReport, AskError> {
    match ask(place, RequestKind::Cut { faults: faults.to_vec(), seed })? {
        CardReply::Cut(report) => Ok(report),
        other => Err(unexpected(place, &other)),
    }
}

/// Gives the card its power back.
///
/// # Errors
/// See [`AskError`].
pub fn power_on(place: &Path) -> Result<(), AskError> {
    done(place, RequestKind::PowerOn)
}

/// Writes what a host would read to a new file, sparse, with or without power: after a cut, the
/// image that the cut leaves. Returns how many bytes could not be read and are zeros.
///
/// # Errors
/// See [`AskError`].
pub fn write_image(place: &Path, file: &Path) -> Result<u64, AskError> {
    let file = std::path::absolute(file).map_err(|source| no_answer(place, source))?;
    match ask(place, RequestKind::Image { file })? {
        CardReply::Image { unreadable_bytes } => Ok(unreadable_bytes),
        other => Err(unexpected(place, &other)),
    }
}

/// Lets `duration_ns` of the card's time pass as if no request came.
///
/// # Errors
/// See [`AskError`].
pub fn idle(place: &Path, duration_ns: u64) -> Result<(), AskError> {
    done(place, RequestKind::Idle { duration_ns })
}

/// Writes the card's state to a file, whole or not at all.
///
/// # Errors
/// See [`AskError`].
pub fn save(place: &Path, file: &Path) -> Result<(), AskError> {
    let file = std::path::absolute(file).map_err(|source| no_answer(place, source))?;
    done(place, RequestKind::Save { file })
}

fn done(place: &Path, request: RequestKind) -> Result<(), AskError> {
    match ask(place, request)? {
        CardReply::Done { .. } => Ok(()),
        other => Err(unexpected(place, &other)),
    }
}

fn ask(place: &Path, request: RequestKind) -> Result<CardReply, AskError> {
    let stream = address::connect(place).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            let owner = match address::owner(place) {
                Some(0) => "root".to_owned(),
                Some(user) => format!("user {user}"),
                None => "unknown".to_owned(),
            };
            AskError::Foreign { device: place.to_owned(), owner }
        }
        _ => AskError::NotServed { device: place.to_owned() },
    })?;
    match exchange(stream, request).map_err(|source| no_answer(place, source))? {
        CardReply::Failed(failure) => Err(failure.into()),
        answer => Ok(answer),
    }
}

fn exchange(mut stream: UnixStream, request: RequestKind) -> std::io::Result<CardReply> {
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    stream.set_write_timeout(Some(address::PATIENCE))?;
    stream.write_all(line(&CardQuery::new(request)).as_bytes())?;
    let mut text = String::new();
    BufReader::new(stream.take(MAX_ANSWER_BYTES)).read_line(&mut text)?;
    Ok(serde_json::from_slice(text.as_bytes())?)
}

fn no_answer(place: &Path, source: std::io::Error) -> AskError {
    AskError::NoAnswer { device: place.to_owned(), source }
}

fn unexpected(place: &Path, answer: &CardReply) -> AskError {
    let said = match answer {
        CardReply::Refused { message } => format!("it refuses: {message}"),
        other => format!("it answers {other:?}"),
    };
    no_answer(place, std::io::Error::other(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_served_is_a_usage_error() {
        for device in ["/dev/null", "/nonexistent"] {
            let error = stats(Path::new(device)).unwrap_err();
            assert!(matches!(error, AskError::NotServed { .. }), "{error}");
            assert_eq!(error.class(), ExitClass::Usage);
        }
    }
}
