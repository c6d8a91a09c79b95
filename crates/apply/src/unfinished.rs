//! Whether a medium was left in the middle of something. Reads only.

use std::path::PathBuf;

use flashfit_medium::{Medium, System};

use crate::error::ApplyError;
use crate::journal::{Journal, Records, Stage};
use crate::marker;
use crate::who::Who;

/// A medium that is neither what it was nor what was planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The folder with what the medium held before, where it is known.
    pub backup: Option<PathBuf>,
    /// The machine on which it was begun, where the medium tells it.
    pub host: Option<String>,
    /// What was under way, where the journal is here.
    pub stage: Option<Stage>,
    /// The command that goes on, where the journal is here.
    pub again: Option<String>,
    /// The command that takes it back, where the journal is here.
    pub undo: Option<String>,
}

impl std::fmt::Display for Unfinished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("flashfit was interrupted here and left the medium unfinished")?;
        if let Some(stage) = self.stage {
            write!(f, ", while {stage}")?;
        }
        match (&self.backup, &self.host) {
            (Some(folder), Some(host)) if self.stage.is_none() => {
                write!(f, "; what it held before is on {host} in {}", folder.display())
            }
            (Some(folder), _) => write!(f, "; what it held before is in {}", folder.display()),
            (None, _) => Ok(()),
        }
    }
}

/// Looks whether `medium` was left unfinished: by the marker on it, and by what this machine
/// remembers.
///
/// # Errors
/// When the medium or a file of ours cannot be read.
pub fn unfinished(
    system: &System,
    medium: &Medium,
    records: &Records,
) -> Result<Option<Unfinished>, ApplyError> {
    let who = Who::of(system, medium);
    let marker = marker::find(medium)?;
    let remembered = records.find(&who)?.map(|record| record.backup);
    let marked = marker.as_ref().and_then(|marker| marker.backup.clone());
    // What this machine remembers goes first: a folder of that name may be here by chance.
    for folder in [&remembered, &marked].into_iter().flatten() {
        let journal = Journal::read(folder)?.filter(|journal| journal.medium.is(&who));
        let Some(journal) = journal else { continue };
        if marker.is_none() && !journal.stage().is_unfinished() {
            return Ok(None);
        }
        return Ok(Some(Unfinished {
            backup: Some(folder.clone()),
            host: marker.map(|marker| marker.host),
            stage: Some(journal.stage()),
            again: Some(journal.again),
            undo: Some(journal.undo),
        }));
    }
    if marker.is_none() && remembered.is_none() {
        return Ok(None);
    }
    let host = marker.map(|marker| marker.host).filter(|host| !host.is_empty());
    let backup = marked.or(remembered);
    Ok(Some(Unfinished { backup, host, stage: None, again: None, undo: None }))
}
