//! Reading a run: keys that this version does not know are passed over, whatever else cannot be
//! read is named with its line and key. Lines are read one at a time, so that a long record takes
//! no more memory than what is kept of it.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{BufRead, Read};
use std::path::Path;

use flashfit_host::dir::{DirError, DirHandle};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{RunDirError, json_path};
use crate::raw::{RawDevice, RawMeasurement};
use crate::record::{RECORD_VERSION, TrialKey, TrialRecord};
use crate::spec::{SCHEMA, SCHEMA_VERSION};
use crate::sustained::SustainedTrials;

pub(super) const HEADER: &str = "run.json";
pub(super) const RAW: &str = "raw.json";
pub(super) const SUSTAINED: &str = "sustained.json";
pub(super) const TRIALS: &str = "trials.jsonl";
/// A header has some kilobytes; one with a fitted geometry and many warnings a few more.
const MOST_HEADER_BYTES: u64 = 16 << 20;
/// A trial has some kilobytes.
const MOST_LINE_BYTES: u64 = 16 << 20;

/// The header, or what of it is wanted.
pub(super) fn header<T: DeserializeOwned>(folder: &DirHandle) -> Result<T, RunDirError> {
    header_and_bytes(folder).map(|(header, _)| header)
}

/// The same, and what is in the file.
pub(super) fn header_and_bytes<T: DeserializeOwned>(
    folder: &DirHandle,
) -> Result<(T, Vec<u8>), RunDirError> {
    #[derive(Deserialize)]
    struct Version {
        schema: String,
        schema_version: u32,
    }
    let Some(bytes) = folder.read(HEADER, MOST_HEADER_BYTES)? else {
        return Err(RunDirError::NoRun { path: folder.path().to_owned() });
    };
    let version: Version = understood(&bytes, folder, HEADER, 0)?;
    if version.schema != SCHEMA || version.schema_version != SCHEMA_VERSION {
        let path = folder.path().to_owned();
        return Err(RunDirError::OtherVersion { path, found: version.schema_version });
    }
    Ok((understood(&bytes, folder, HEADER, 0)?, bytes))
}

/// What the bare device did. That of a later version is passed over: nothing depends on it.
pub(super) fn raw(folder: &DirHandle) -> Result<Vec<RawMeasurement>, RunDirError> {
    let Some(bytes) = folder.read(RAW, MOST_HEADER_BYTES)? else { return Ok(Vec::new()) };
    let found: RawDevice = understood(&bytes, folder, RAW, 0)?;
    Ok(if found.is_known() { found.workloads } else { Vec::new() })
}

/// The trials that went on for longer. Those of a later version are passed over.
pub(super) fn sustained(folder: &DirHandle) -> Result<Option<SustainedTrials>, RunDirError> {
    let Some(bytes) = folder.read(SUSTAINED, MOST_HEADER_BYTES)? else { return Ok(None) };
    let found: SustainedTrials = understood(&bytes, folder, SUSTAINED, 0)?;
    Ok(Some(found).filter(SustainedTrials::is_known))
}

/// The trials, and the length in bytes of the lines that are whole.
pub(super) fn trials(folder: &DirHandle) -> Result<(Vec<TrialRecord>, u64), RunDirError> {
    trials_and_lines(folder, &mut |_| ())
}

/// The same; `see` gets each whole line with its end.
pub(super) fn trials_and_lines(
    folder: &DirHandle,
    see: &mut dyn FnMut(&[u8]),
) -> Result<(Vec<TrialRecord>, u64), RunDirError> {
    let Some(file) = folder.open_file(TRIALS)? else { return Ok((Vec::new(), 0)) };
    let path = folder.path().join(TRIALS);
    let mut lines = std::io::BufReader::new(file);
    let (mut records, mut whole_bytes, mut line) = (Vec::new(), 0, Vec::new());
    let mut keys = Keys::default();
    loop {
        line.clear();
        let read = lines.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut line);
        read.map_err(|source| DirError::System { path: path.clone(), source })?;
        if line.last() != Some(&b'\n') {
            if line.len() as u64 == MOST_LINE_BYTES {
                let reason = format!("a line of more than {MOST_LINE_BYTES} bytes");
                return Err(RunDirError::Damaged { path, line: records.len() + 1, reason });
            }
            // It was not written whole.
            return Ok((records, whole_bytes));
        }
        if line.contains(&0) && lines.fill_buf().is_ok_and(<[u8]>::is_empty) {
            // After a loss of power, blocks of the line that was being written may be zeros.
            return Ok((records, whole_bytes));
        }
        whole_bytes += line.len() as u64;
        see(&line);
        line.pop();
        let record = record(&line, folder, records.len())?;
        keys.check(&record.key, &line, &path)?;
        records.push(record);
    }
}

/// The keys of the trials so far: a trial that counted twice would pass for a repeat.
#[derive(Default)]
struct Keys {
    /// The line, from 1, and a hash of it.
    seen: HashMap<TrialKey, (usize, u64)>,
}

impl Keys {
    fn check(&mut self, key: &TrialKey, line: &[u8], path: &Path) -> Result<(), RunDirError> {
        let number = self.seen.len() + 1;
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(line);
        let Some((first, of_first)) = self.seen.insert(key.clone(), (number, hash)) else {
            return Ok(());
        };
        let path = path.to_owned();
        Err(match of_first == hash {
            true => RunDirError::Copied { path, line: number, first },
            false => RunDirError::SameKey { path, line: number, first },
        })
    }
}

fn record(bytes: &[u8], folder: &DirHandle, before: usize) -> Result<TrialRecord, RunDirError> {
    let other = |version: &Value| RunDirError::NotUnderstood {
        path: folder.path().join(TRIALS),
        line: before + 1,
        reason: format!(
            "a record of version {version}; this version of flashfit reads version {RECORD_VERSION}"
        ),
    };
    match serde_json::from_slice::<TrialRecord>(bytes) {
        Ok(record) if record.version == RECORD_VERSION => Ok(record),
        Ok(record) => Err(other(&record.version.into())),
        Err(_) => {
            // The version goes first: a record of another one need not have the same keys.
            let value: Value = understood(bytes, folder, TRIALS, before)?;
            match value.get("version") {
                Some(version) if *version != RECORD_VERSION => Err(other(version)),
                _ => understood(bytes, folder, TRIALS, before),
            }
        }
    }
}

/// Reads JSON; what is not JSON is distinguished from what only this version does not understand.
fn understood<T: DeserializeOwned>(
    bytes: &[u8],
    folder: &DirHandle,
    file: &str,
    lines_before: usize,
) -> Result<T, RunDirError> {
    let path = || folder.path().join(file);
    let json: Value = serde_json::from_slice(bytes).map_err(|error| RunDirError::Damaged {
        path: path(),
        line: lines_before + error.line().max(1),
        reason: error.to_string(),
    })?;
    drop(json);
    serde_json::from_slice(bytes).map_err(|error| {
        let key = json_path::of(bytes, &error);
        let line = lines_before + error.line().max(1);
        let text = error.to_string();
        // Where in the line it is says less than the key.
        let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
        let reason = if key.is_empty() { reason.to_owned() } else { format!("`{key}`: {reason}") };
        RunDirError::NotUnderstood { path: path(), line, reason }
    })
}
