//! Giving back what processes that are gone have left, in whichever lab it was.

use std::path::PathBuf;
use std::time::Duration;

use flashfit_host::{ProgramError, Runner};

use crate::client::Client;
use crate::error::LabError;
use crate::record::LockRecord;

/// What an earlier process may still hold, because its lab could not be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreleasedResources {
    /// The coordinator of the lab.
    pub coordinator: String,
    /// The name that it is held under, as `HOST/USER`.
    pub owner: String,
    /// The record, which goes when it has been given back; of a lab that is gone for good, it can
    /// be removed by hand.
    pub record: PathBuf,
}

/// What was found at the start.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// The places that were still locked and are not any more.
    pub(crate) places: Vec<String>,
    /// What stays on record.
    pub(crate) still_held: Vec<UnreleasedResources>,
}

impl Recovered {
    /// Asks each lab once: a start is not held up by one that is gone.
    pub(crate) fn all(client: &Client, runner: &dyn Runner) -> Result<Self, LabError> {
        let mut recovered = Self::default();
        for (record, held) in LockRecord::left(&client.settings.records)? {
            let mut there = client.clone();
            there.settings.coordinator.clone_from(&held.coordinator);
            match there.give_all_back(runner, &held.owner, Duration::ZERO) {
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
