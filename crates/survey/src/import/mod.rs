//! Reads what can be added: finds runs and documents below a path, and converts them to records.
//!
//! What is read comes from strangers: links are not followed, files and texts have limits, and a
//! figure that is not a positive finite number is left out.

mod canonical;
mod envelope;
mod figures;
mod power_cuts;
mod probe;
mod run;
#[cfg(test)]
mod tests;
mod wear;

pub(crate) use envelope::is_command_name;

use std::fs;
use std::path::{Path, PathBuf};

use flashfit_host::input_file::{DOCUMENT_BYTES, read_capped};
use serde_json::Value;

use crate::bundle::{self, BUNDLE_BYTES, CheckedBundle};
use crate::error::SurveyInputError;
use crate::record::SurveySource;

/// How deep a directory of runs is searched.
const MOST_DEPTH: usize = 4;
/// The most entries of a directory tree that are looked at.
const MOST_ENTRIES: usize = 1_000_000;

/// In which a document names its schema.
const HEAD_BYTES: u64 = 256;

const RUN_HEADER: &str = "run.json";
const PROBE: &str = "flashfit.probe";
const WEAR_READING: &str = "flashfit.wear-show";
const WEAR_MEASUREMENT: &str = "flashfit.wear-measure";
const POWER_CUTS: &str = "flashfit.crash-cuts";
const CRASH_STATES: &str = "flashfit.crash-states";

/// What to add of `path`: itself if it is a run or a file, or else all runs and documents below
/// it, sorted by name. The second value counts other files.
///
/// # Errors
/// If the path does not exist, or a directory cannot be read.
pub fn find(path: &Path) -> Result<(Vec<PathBuf>, usize), SurveyInputError> {
    let unreadable = |error: std::io::Error| SurveyInputError::unusable(path, error.to_string());
    if !fs::metadata(path).map_err(unreadable)?.is_dir() || is_run(path) {
        return Ok((vec![path.to_owned()], 0));
    }
    let mut found = Found::default();
    found.search(path, 0)?;
    if found.paths.is_empty() {
        let reason = "it is not a run, and there is no run and no document of flashfit in it";
        return Err(SurveyInputError::unusable(path, reason));
    }
    Ok((found.paths, found.others))
}

#[derive(Default)]
struct Found {
    paths: Vec<PathBuf>,
    others: usize,
    seen: usize,
}

impl Found {
    fn search(&mut self, folder: &Path, depth: usize) -> Result<(), SurveyInputError> {
        let failed = |error: std::io::Error| SurveyInputError::unusable(folder, error.to_string());
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            self.seen += 1;
            if self.seen > MOST_ENTRIES {
                return Err(SurveyInputError::unusable(folder, "too many files"));
            }
            entries.push(entry.map_err(failed)?.path());
        }
        entries.sort();
        for entry in entries {
            let kind = fs::symlink_metadata(&entry).map_err(failed)?.file_type();
            if kind.is_dir() && is_run(&entry) {
                self.paths.push(entry);
            } else if kind.is_dir() && depth < MOST_DEPTH {
                self.search(&entry, depth + 1)?;
            } else if kind.is_file() && is_document(&entry) {
                self.paths.push(entry);
            } else {
                self.others += 1;
            }
        }
        Ok(())
    }
}

fn is_run(folder: &Path) -> bool {
    fs::symlink_metadata(folder.join(RUN_HEADER)).is_ok_and(|found| found.is_file())
}

/// Whether a file is JSON of flashfit, by its name and schema. Of a document that another program
/// formatted, the schema can be anywhere.
fn is_document(path: &Path) -> bool {
    if path.extension().is_none_or(|ending| ending != "json") {
        return false;
    }
    head(path).is_some_and(|head| has_schema(&head))
        || read_capped(path, BUNDLE_BYTES).is_ok_and(|text| has_schema(&text))
}

/// Whether a text has the key `schema` with a name of flashfit.
fn has_schema(text: &[u8]) -> bool {
    const KEY: &[u8] = b"\"schema\"";
    let mut keys = text.windows(KEY.len()).enumerate().filter(|(_, part)| *part == KEY);
    keys.any(|(at, _)| {
        let rest = text[at + KEY.len()..].trim_ascii_start();
        let value = rest.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
        value.is_some_and(|value| value.starts_with(b"\"flashfit."))
    })
}

/// The beginning of a file.
fn head(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    let file = flashfit_host::input_file::open(path).ok()?;
    let mut head = Vec::new();
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(head)
}

/// What can be added.
#[derive(Debug)]
pub enum SurveyInput {
    Source(Box<SurveySource>),
    /// The figures of another survey.
    Bundle(Box<CheckedBundle>),
}

/// Reads a run directory, a document or a bundle.
///
/// # Errors
/// If it cannot be read, or is nothing that a survey keeps.
pub fn read(path: &Path) -> Result<SurveyInput, SurveyInputError> {
    let source = |source| SurveyInput::Source(Box::new(source));
    if fs::metadata(path).is_ok_and(|found| found.is_dir()) {
        return run::read(path).map(source);
    }
    let invalid = |reason: String| SurveyInputError::unusable(path, reason);
    let bundle = |bundle| SurveyInput::Bundle(Box::new(bundle));
    if bundle::is_bundle(&head(path).unwrap_or_default()) {
        let bytes = read_capped(path, BUNDLE_BYTES)?;
        return bundle::parse(&bytes).map(bundle).map_err(invalid);
    }
    let bytes = read_capped(path, DOCUMENT_BYTES)?;
    let document: Value = serde_json::from_slice(&bytes)
        .map_err(|error| invalid(format!("it is not a JSON document: {error}")))?;
    let schema = document.get("schema").and_then(Value::as_str);
    let read = match schema {
        // Another program formatted it.
        Some(bundle::SCHEMA) => {
            return bundle::of_document(document).map(bundle).map_err(invalid);
        }
        Some(PROBE) => probe::read(&document).map_err(invalid),
        Some(WEAR_READING) => wear::read_reading(&document).map_err(invalid),
        Some(WEAR_MEASUREMENT) => wear::read_measurement(&document).map_err(invalid),
        Some(POWER_CUTS) => power_cuts::read(&document).map_err(invalid),
        Some(CRASH_STATES) => Err(invalid(
            "computed crash states are about a file system, not about a card".to_owned(),
        )),
        Some(other) => Err(invalid(format!("a survey does not keep documents `{other}`"))),
        None => Err(invalid("it is not a document of flashfit".to_owned())),
    };
    read.map(source)
}
