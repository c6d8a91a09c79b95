//! A run by its content: what identifies a copy of it, and the same run after more trials.
//!
//! `run.json` and the whole lines of `trials.jsonl` count; reports and raw output of fio do not.

use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{RunDirError, open, reading};
use crate::record::TrialRecord;

/// SHA-256 of the content of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDigest {
    /// Of header and trials.
    pub whole: [u8; 32],
    /// Of the line of the first trial, which stays when a run continues or is extended.
    pub first_trial: Option<[u8; 32]>,
}

/// Reads a run as [`super::read_any`] does, and its digest in the same pass.
///
/// # Errors
/// See [`RunDirError`].
pub fn read_with_digest<T: for<'de> Deserialize<'de>>(
    path: &Path,
) -> Result<(T, Vec<TrialRecord>, RunDigest), RunDirError> {
    let folder = open(path)?;
    let (header, bytes) = reading::header_and_bytes(&folder)?;
    let mut whole = Sha256::new();
    whole.update(b"flashfit.run\n");
    whole.update((bytes.len() as u64).to_le_bytes());
    whole.update(&bytes);
    let mut first_trial = None;
    let (trials, _) = reading::trials_and_lines(&folder, &mut |line| {
        whole.update(line);
        first_trial.get_or_insert_with(|| Sha256::digest(line).into());
    })?;
    Ok((header, trials, RunDigest { whole: whole.finalize().into(), first_trial }))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const LINE: &str = r#"{"version": 1, "key": {"purpose": "search", "workload": "database",
        "setup": {"filesystem": "ext4", "options": [], "scheduler": "none"}},
        "outcome": {"failed": {"message": "no"}}}"#;

    #[test]
    fn another_trial_changes_the_whole_and_not_the_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        let digest = || read_with_digest::<Value>(folder.path()).unwrap().2;
        write("run.json", r#"{"schema": "flashfit.run", "schema_version": 1}"#);
        assert_eq!(digest().first_trial, None);
        let line = LINE.replace('\n', "") + "\n";
        write("trials.jsonl", &line);
        let one = digest();
        write("report.html", "a report");
        // A line that is not whole is not a trial.
        write("trials.jsonl", &format!("{line}{{"));
        assert_eq!(digest(), one);
        let other = line.replace("\"database\"", "\"sync-files\"");
        write("trials.jsonl", &format!("{line}{other}"));
        let two = digest();
        assert_eq!(two.first_trial, one.first_trial);
        assert_ne!(two.whole, one.whole);
    }
}
