//! Releases what processes that have ended left locked, in any lab.

use std::path::PathBuf;
use std::time::Duration;

use flashfit_host::{ProgramError, Runner};

use crate::client::Client;
use crate::error::LabError;
use crate::record::LockRecord;

/// What an earlier process may still hold, because its lab did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreleasedResources {
    pub coordinator: String,
    /// The owner, as `HOST/USER`.
    pub owner: String,
    /// The record, removed after the release. If the lab no longer exists, delete it by hand.
    pub record: PathBuf,
}

#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) places: Vec<String>,
    pub(crate) still_held: Vec<UnreleasedResources>,
}

impl Recovered {
    /// Tries each lab once, so that a lab that is down does not delay the start.
    pub(crate) fn all(client: &Client, runner: &dyn Runner) -> Result<Self, LabError> {
        let mut recovered = Self::default();
        for (record, held) in LockRecord::abandoned(&client.settings.records)? {
            let mut other_lab = client.clone();
            other_lab.settings.coordinator.clone_from(&held.coordinator);
            match other_lab.release_all(runner, &held.owner, Duration::ZERO) {
                Ok(places) => {
                    recovered.places.extend(places);
                    record.remove()?;
                }
                Err(error @ LabError::Program(ProgramError::Interrupted { .. })) => {
                    return Err(error);
                }
                Err(_) => recovered.still_held.push(UnreleasedResources {
                    coordinator: held.coordinator,
                    owner: held.owner.to_string(),
                    record: record.path().to_owned(),
                }),
            }
        }
        Ok(recovered)
    }
}
