//! What can go wrong with a lab, and what to do then.

use std::path::PathBuf;
use std::time::Duration;

use flashfit_host::ProgramError;
use flashfit_user_error::{ExitClass, UserError};

use crate::tags::Tags;

/// Why a lab does not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// labgrid's client program is not there.
    #[error("labgrid's client program `{client}` was not found")]
    ClientMissing {
        /// Its name or path.
        client: String,
    },
    /// It is from before labgrid 25.0.
    #[error("`{client}` is not labgrid 25.0 or later: {said}")]
    ClientTooOld {
        /// Its name or path.
        client: String,
        /// What it printed.
        said: String,
    },
    /// The coordinator does not answer.
    #[error("the lab's coordinator {coordinator} does not answer (tried for {} s): {said}",
            tried.as_secs())]
    Unreachable {
        /// Its address.
        coordinator: String,
        /// How long it was tried.
        tried: Duration,
        /// What the client printed.
        said: String,
    },
    /// Not tags as labgrid takes them.
    #[error("`{text}` is not a list of tags")]
    BadTags {
        /// What was given.
        text: String,
    },
    /// No place has these tags.
    #[error("no place of the lab has the tags {tags}")]
    NoMatch {
        /// What was asked for.
        tags: Tags,
    },
    /// No place became free in time.
    #[error("no place with {tags} became free in {} s ({})", waited.as_secs(), holders.join(", "))]
    NoneFree {
        /// What was asked for.
        tags: Tags,
        /// How long it was waited.
        waited: Duration,
        /// Who has each place that matches.
        holders: Vec<String>,
    },
    /// There is no such place.
    #[error("the lab has no place called {place}")]
    NoSuchPlace {
        /// The name.
        place: String,
    },
    /// Somebody else has it.
    #[error("{place} is locked by {owner}")]
    Taken {
        /// The place.
        place: String,
        /// Who has it, as `HOST/USER`.
        owner: String,
    },
    /// It is kept for somebody else's reservation.
    #[error("{place} is reserved for {owner}")]
    Reserved {
        /// The place.
        place: String,
        /// Who reserved it, as `HOST/USER`.
        owner: String,
    },
    /// A resource of the place has no exporter any more.
    #[error("what belongs to {place} is not there: its exporter does not run or has lost it")]
    ExporterAway {
        /// The place.
        place: String,
    },
    /// The place has nothing that ssh could reach.
    #[error("{place} has no NetworkService to reach it by ssh")]
    NoService {
        /// The place.
        place: String,
    },
    /// It has several and none was named.
    #[error("{place} has several of NetworkService: {}", names.join(", "))]
    SeveralServices {
        /// The place.
        place: String,
        /// Their names.
        names: Vec<String>,
    },
    /// Its address cannot be used.
    #[error("the NetworkService of {place} has no {field} that ssh could use")]
    BadAddress {
        /// The place.
        place: String,
        /// What is wrong with it: `address`, `username`, `port` or `proxy`.
        field: &'static str,
    },
    /// Nothing switches its power.
    #[error("nothing switches the power of {place}")]
    NoPower {
        /// The place.
        place: String,
    },
    /// labgrid refused, or its answer was not understood.
    #[error("`{command_line}` failed: {said}")]
    Refused {
        /// What was run.
        command_line: String,
        /// What it printed.
        said: String,
    },
    /// The record of what is held cannot be kept.
    #[error("{}: {source}", path.display())]
    Record {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It could not be run to its end.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl UserError for LabError {
    fn class(&self) -> ExitClass {
        match self {
            Self::BadTags { .. } | Self::NoMatch { .. } | Self::NoSuchPlace { .. } => {
                ExitClass::Usage
            }
            Self::SeveralServices { .. } => ExitClass::Usage,
            Self::Refused { .. } => ExitClass::Io,
            Self::Program(error) => error.class(),
            _ => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::ClientMissing { .. } => {
                "python3 -m venv ~/labgrid && ~/labgrid/bin/pip install labgrid && \
                 PATH=$PATH:~/labgrid/bin"
                    .to_owned()
            }
            Self::ClientTooOld { .. } => "pip install --upgrade labgrid".to_owned(),
            Self::Unreachable { .. } => {
                "name it by LG_COORDINATOR=HOST:PORT, and try: labgrid-client places".to_owned()
            }
            Self::BadTags { .. } => "write them as board=imx8,media=sd".to_owned(),
            Self::NoMatch { .. } => "labgrid-client -v places".to_owned(),
            Self::NoSuchPlace { .. } => "labgrid-client places".to_owned(),
            Self::NoneFree { .. } => "labgrid-client who".to_owned(),
            Self::Taken { place, owner } => format!(
                "ask them; if nobody works there any more: \
                 labgrid-client -p {place} release-from {owner}"
            ),
            Self::Reserved { .. } => "labgrid-client reservations".to_owned(),
            Self::ExporterAway { place } | Self::BadAddress { place, .. } => {
                format!("labgrid-client -p {place} show")
            }
            Self::NoService { .. } => "add to its group in the exporter's file: \
                 NetworkService: {address: HOST, username: root}"
                .to_owned(),
            Self::SeveralServices { .. } => "name the one that is meant".to_owned(),
            Self::NoPower { .. } => {
                "export a NetworkPowerPort or PDUDaemonPort for it, or name an environment file \
                 with an ExternalPowerDriver by LG_ENV"
                    .to_owned()
            }
            Self::Refused { .. } | Self::Record { .. } => return None,
            Self::Program(error) => return error.hint(),
        })
    }
}
