//! Errors of a lab.

use std::path::PathBuf;
use std::time::Duration;

use flashfit_host::ProgramError;
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::tags::Tags;

#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("labgrid's client program `{client}` was not found")]
    ClientMissing {
        /// Name or path.
        client: String,
    },
    #[error("`{client}` is older than labgrid 25.0: {output}")]
    ClientTooOld {
        /// Name or path.
        client: String,
        output: String,
    },
    #[error("the lab's coordinator {coordinator} does not answer (tried for {} s): {output}",
            tried.as_secs())]
    Unreachable { coordinator: String, tried: Duration, output: String },
    #[error("`{text}` is not a valid list of tags: {reason}")]
    BadTags { text: String, reason: &'static str },
    #[error("no place of the lab has the tags {tags}")]
    NoMatch { tags: Tags },
    #[error("no place with {tags} became free in {} s ({})", waited.as_secs(), holders.join(", "))]
    NoneFree {
        tags: Tags,
        waited: Duration,
        /// The state of each matching place.
        holders: Vec<String>,
    },
    #[error("the lab has no place called {place}")]
    NoSuchPlace { place: String },
    #[error("{place} is locked by {owner}")]
    Taken {
        place: String,
        /// As `HOST/USER`.
        owner: String,
    },
    #[error("{place} is reserved for {owner}")]
    Reserved {
        place: String,
        /// As `HOST/USER`.
        owner: String,
    },
    #[error("resources of {place} are missing: the exporter does not run or does not export them")]
    ExporterAway { place: String },
    #[error("{place} has no NetworkService, which ssh needs")]
    NoService { place: String },
    #[error("{place} has several NetworkServices: {}", names.join(", "))]
    SeveralServices { place: String, names: Vec<String> },
    #[error("the NetworkService of {place} has no valid {field}")]
    BadAddress {
        place: String,
        /// `address`, `username`, `port` or `proxy`.
        field: &'static str,
    },
    #[error("{place} has no power switch")]
    NoPower { place: String },
    /// labgrid refused, or its output is not understood.
    #[error("`{command_line}` failed: {output}")]
    Refused { command_line: String, output: String },
    /// The lock record cannot be read or written.
    #[error("{}: {source}", path.display())]
    Record { path: PathBuf, source: std::io::Error },
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

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::ClientMissing { .. } => {
                "python3 -m venv ~/labgrid && ~/labgrid/bin/pip install labgrid && \
                 export PATH=$PATH:~/labgrid/bin FLASHFIT_PATH=$PATH:~/labgrid/bin"
                    .into()
            }
            Self::ClientTooOld { .. } => "pip install --upgrade labgrid".into(),
            Self::Unreachable { .. } => {
                "set LG_COORDINATOR=HOST:PORT and try: labgrid-client places".into()
            }
            Self::BadTags { .. } => "write them as board=imx8,storage=sd".into(),
            Self::NoMatch { .. } => "labgrid-client -v places".into(),
            Self::NoSuchPlace { .. } => "labgrid-client places".into(),
            Self::NoneFree { .. } => "labgrid-client who".into(),
            Self::Taken { place, owner } => format!(
                "ask the owner; if the lock is stale: \
                 labgrid-client -p {place} release-from {owner}"
            ).into(),
            Self::Reserved { .. } => "labgrid-client reservations".into(),
            Self::ExporterAway { place } | Self::BadAddress { place, .. } => {
                format!("labgrid-client -p {place} show").into()
            }
            Self::NoService { .. } => "add to its group in the exporter's file: \
                 NetworkService: {address: HOST, username: root}"
                .into(),
            Self::SeveralServices { .. } => "choose one of them by its name".into(),
            Self::NoPower { .. } => {
                "export a NetworkPowerPort or PDUDaemonPort for it, or set LG_ENV to an environment \
                 file with an ExternalPowerDriver"
                    .into()
            }
            Self::Refused { .. } | Self::Record { .. } => return None,
            Self::Program(error) => return error.hint(),
        })
    }
}
