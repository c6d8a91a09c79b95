//! A recorded trace: the requests of one workload on one file system, with the state before them.
//!
//! The file is TOML. `data` is a trace in the format of [`flashfit_card::trace`], compressed
//! (`trace_coding`, or zlib in files without `coding`) and encoded in Base64: first a write for
//! each extent that contained data when the workload began, in the order in which they were last
//! written, then a mark, then the requests of the workload in their order.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flashfit_card::trace::{self, TraceError, TraceWriter, TracedRequest};
use flashfit_catalog::{CatalogEntry, CatalogEntryError, FileMistakes, entries, read, read_entry};
use flashfit_device::Bytes;
use flashfit_user_error::{ExitClass, Hint, UserError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trace_coding;
use crate::usage::WORKLOADS;

/// The granularity of the state before the workload.
pub const BLOCK_BYTES: u64 = 4096;
/// A decompressed trace must not be larger.
const DATA_BYTES_MAX: usize = 256 << 20;
const LINE_CHARACTERS: usize = 100;

/// Where a trace comes from.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceHeader {
    pub filesystem: String,
    /// Options of the setup, by their names in the catalog.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    pub workload: String,
    /// The card whose geometry was used.
    pub card: String,
    pub capacity: Bytes,
    /// Share of the file system that was used before the workload.
    pub fill_percent: u32,
    pub age_rounds: u32,
    /// Approximate size of the workload's files.
    pub data_size: Bytes,
    /// What the programs of the workload passed to write(2).
    pub written_by_programs: Bytes,
    pub kernel: String,
    pub mkfs: String,
    pub seed: u64,
}

impl TraceHeader {
    /// Whether a file of the catalog with this name is this setup and workload; options may come
    /// in any order.
    fn is_named(&self, name: &str) -> bool {
        let workload = name.strip_suffix(&self.workload).and_then(|rest| rest.strip_suffix('-'));
        let Some(setup) = workload else { return false };
        let mut parts = setup.split('+');
        let is_of_it = parts.next() == Some(&self.filesystem);
        let mut named: Vec<&str> = parts.collect();
        let mut own: Vec<&str> = self.options.iter().map(String::as_str).collect();
        named.sort_unstable();
        own.sort_unstable();
        is_of_it && named == own
    }
}

/// Lists the keys of the header again: within a flattened struct, mistakes would have no lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceFile {
    /// The command that records it again.
    command: String,
    filesystem: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
    workload: String,
    card: String,
    capacity: Bytes,
    fill_percent: u32,
    age_rounds: u32,
    data_size: Bytes,
    written_by_programs: Bytes,
    kernel: String,
    mkfs: String,
    seed: u64,
    #[serde(default)]
    coding: DataCoding,
    data: String,
}

impl TraceFile {
    fn new(command: String, header: TraceHeader, data: String) -> Self {
        Self {
            command,
            filesystem: header.filesystem,
            options: header.options,
            workload: header.workload,
            card: header.card,
            capacity: header.capacity,
            fill_percent: header.fill_percent,
            age_rounds: header.age_rounds,
            data_size: header.data_size,
            written_by_programs: header.written_by_programs,
            kernel: header.kernel,
            mkfs: header.mkfs,
            seed: header.seed,
            coding: DataCoding::ContextMixing,
            data,
        }
    }

    fn into_header(self) -> TraceHeader {
        TraceHeader {
            filesystem: self.filesystem,
            options: self.options,
            workload: self.workload,
            card: self.card,
            capacity: self.capacity,
            fill_percent: self.fill_percent,
            age_rounds: self.age_rounds,
            data_size: self.data_size,
            written_by_programs: self.written_by_programs,
            kernel: self.kernel,
            mkfs: self.mkfs,
            seed: self.seed,
        }
    }
}

/// How the trace is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DataCoding {
    #[default]
    Zlib,
    ContextMixing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedTrace {
    pub header: TraceHeader,
    /// The command that records it again.
    pub command: String,
    /// Extents with data before the workload, as offset and length in bytes, in the order in which
    /// they were last written.
    pub initial: Vec<(u64, u64)>,
    /// Writes, discards and flushes of the workload.
    pub requests: Vec<TracedRequest>,
}

#[derive(Debug, thiserror::Error)]
pub enum TraceFileError {
    #[error(transparent)]
    Entry(#[from] CatalogEntryError),
    #[error(transparent)]
    Mistakes(#[from] FileMistakes),
    #[error("the recording is not complete: {0}")]
    Incomplete(&'static str),
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl UserError for TraceFileError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Entry(error) => error.class(),
            Self::Trace(error) => error.class(),
            Self::Mistakes(_) => ExitClass::Usage,
            Self::Incomplete(_) => ExitClass::Io,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Entry(error) => error.hint(),
            Self::Mistakes(found) => found.hint(),
            Self::Incomplete(_) | Self::Trace(_) => None,
        }
    }
}

impl RecordedTrace {
    /// From all requests since the card was new, with marks at the beginning and end of the
    /// workload.
    ///
    /// # Errors
    /// [`TraceFileError::Incomplete`] without two marks, or without a write between them.
    pub fn from_recording(
        header: TraceHeader,
        command: String,
        all: &[TracedRequest],
    ) -> Result<Self, TraceFileError> {
        let marks: Vec<usize> =
            (0..all.len()).filter(|&index| all[index] == TracedRequest::Mark).collect();
        let (&[first, ..], &[.., last]) = (&marks[..], &marks[..]) else {
            return Err(TraceFileError::Incomplete("the workload is not marked"));
        };
        let during = all[first..last].iter().copied();
        let requests: Vec<TracedRequest> =
            during.filter(|&request| request != TracedRequest::Mark).collect();
        if !requests.iter().any(|request| matches!(request, TracedRequest::Write { .. })) {
            return Err(TraceFileError::Incomplete("the workload wrote nothing"));
        }
        let initial = extents(header.capacity.0, &all[..first]);
        Ok(Self { header, command, initial, requests })
    }

    pub fn parse(entry: &CatalogEntry) -> Result<Self, TraceFileError> {
        let mut file: TraceFile = read_entry(entry)?;
        let invalid = |key: &str, reason: String| {
            FileMistakes::at_key(entry, key, format!("{key}: {reason}"))
        };
        let no_data = |reason: String| invalid("data", reason);
        let encoded: String = file.data.split_ascii_whitespace().collect();
        let packed = STANDARD.decode(encoded).map_err(|error| no_data(error.to_string()))?;
        let bytes = match file.coding {
            DataCoding::Zlib => {
                miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&packed, DATA_BYTES_MAX)
                    .map_err(|error| no_data(error.to_string()))?
            }
            DataCoding::ContextMixing => trace_coding::decode(&packed, DATA_BYTES_MAX)
                .ok_or_else(|| no_data("not compressed correctly".to_owned()))?,
        };
        let all = trace::read(&bytes).map_err(|error| no_data(error.to_string()))?;
        let mark = all.iter().position(|&request| request == TracedRequest::Mark);
        let mark = mark.ok_or_else(|| no_data("the workload is not marked".to_owned()))?;
        let ranges = all.iter().filter_map(range);
        if ranges.clone().any(|(offset, length)| offset + length > file.capacity.0) {
            let reason = "a request of the data lies behind the end of the card";
            return Err(invalid("capacity", reason.to_owned()).into());
        }
        let initial = all[..mark].iter().filter_map(range).collect();
        let requests: Vec<_> = all[mark + 1..].to_vec();
        if requests.iter().map(written_bytes).sum::<u64>() == 0 {
            return Err(no_data("the workload wrote nothing".to_owned()).into());
        }
        if file.written_by_programs.0 == 0 {
            return Err(invalid("written_by_programs", "is zero".to_owned()).into());
        }
        let command = std::mem::take(&mut file.command);
        Ok(Self { header: file.into_header(), command, initial, requests })
    }

    /// The text of a file that [`RecordedTrace::parse`] reads.
    pub fn to_text(&self) -> String {
        let mut writer = TraceWriter::new(Vec::new()).expect("writing to memory does not fail");
        let before =
            self.initial.iter().map(|&(offset, length)| TracedRequest::Write { offset, length });
        let all = before.chain([TracedRequest::Mark]).chain(self.requests.iter().copied());
        for request in all {
            writer.push(request).expect("writing to memory does not fail");
        }
        let bytes = writer.finish().expect("writing to memory does not fail");
        let encoded = STANDARD.encode(trace_coding::encode(&bytes));
        let lines: Vec<&str> = encoded
            .as_bytes()
            .chunks(LINE_CHARACTERS)
            .map(|line| std::str::from_utf8(line).expect("Base64 is ASCII"))
            .collect();
        let data = format!("{}\n", lines.join("\n"));
        let file = TraceFile::new(self.command.clone(), self.header.clone(), data);
        toml::to_string(&file).expect("a trace file can be written as TOML")
    }

    /// Bytes that the workload wrote to the card.
    pub fn device_bytes(&self) -> u64 {
        self.requests.iter().map(written_bytes).sum()
    }
}

/// The name of a trace in the catalog: `ext4-logs`, or `ext4+noatime-logs` with options.
pub fn name_of(filesystem: &str, options: &[String], workload: &str) -> String {
    let setup: Vec<&str> =
        std::iter::once(filesystem).chain(options.iter().map(String::as_str)).collect();
    format!("{}-{workload}", setup.join("+"))
}

/// A trace by its name in the catalog, if it is there; `user` is the user's catalog folder.
///
/// # Errors
/// When a user's file cannot be read, or the file is not a trace.
pub fn find(name: &str, user: Option<&Path>) -> Result<Option<RecordedTrace>, TraceFileError> {
    let known = entries("traces", "toml", user)?;
    let Some(entry) = known.iter().find(|entry| entry.name == name) else { return Ok(None) };
    let trace = RecordedTrace::parse(entry)?;
    if !trace.header.is_named(name) {
        let header = &trace.header;
        let own = name_of(&header.filesystem, &header.options, &header.workload);
        let reason = format!("the file is a recording of `{own}`, not of `{name}`: rename it");
        return Err(FileMistakes::at_key(entry, "filesystem", reason).into());
    }
    Ok(Some(trace))
}

/// The sets of options of a file system, in the order of their names, of which the catalog has a
/// trace; the default setup is the empty one.
///
/// # Errors
/// When a user's file cannot be read.
pub fn recorded_options(
    filesystem: &str,
    user: Option<&Path>,
) -> Result<Vec<Vec<String>>, CatalogEntryError> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for entry in entries("traces", "toml", user)? {
        let setups = WORKLOADS.iter().filter_map(|workload| {
            entry.name.strip_suffix(workload).and_then(|rest| rest.strip_suffix('-'))
        });
        for setup in setups {
            let mut names = setup.split('+').map(str::to_owned);
            let is_of_it = names.next().as_deref() == Some(filesystem);
            let options: Vec<String> = names.collect();
            if is_of_it && !found.contains(&options) {
                found.push(options);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a trace from a file.
///
/// # Errors
/// When it cannot be read or is not a trace.
pub fn load(path: &Path) -> Result<RecordedTrace, TraceFileError> {
    RecordedTrace::parse(&read(path)?)
}

fn written_bytes(request: &TracedRequest) -> u64 {
    match request {
        TracedRequest::Write { length, .. } => *length,
        _ => 0,
    }
}

fn range(request: &TracedRequest) -> Option<(u64, u64)> {
    match request {
        TracedRequest::Write { offset, length } | TracedRequest::Discard { offset, length } => {
            Some((*offset, *length))
        }
        _ => None,
    }
}

/// The extents that contain data after these requests, in the order in which they were last
/// written. A discard of part of a block leaves it.
fn extents(capacity: u64, requests: &[TracedRequest]) -> Vec<(u64, u64)> {
    let blocks = usize::try_from(capacity / BLOCK_BYTES).expect("the state fits into memory");
    let mut last_write = vec![None; blocks];
    let index = |block: u64| usize::try_from(block).map_or(blocks, |index| index.min(blocks));
    for (number, request) in requests.iter().enumerate() {
        match *request {
            TracedRequest::Write { offset, length } => {
                let end = (offset + length).div_ceil(BLOCK_BYTES);
                last_write[index(offset / BLOCK_BYTES)..index(end)].fill(Some(number));
            }
            TracedRequest::Discard { offset, length } => {
                let (start, end) = (offset.div_ceil(BLOCK_BYTES), (offset + length) / BLOCK_BYTES);
                if start < end {
                    last_write[index(start)..index(end)].fill(None);
                }
            }
            _ => {}
        }
    }
    let mut used: Vec<(usize, u64)> =
        (0..).zip(&last_write).filter_map(|(block, last)| Some(((*last)?, block))).collect();
    used.sort_unstable();
    let mut found: Vec<(u64, u64)> = Vec::new();
    for (_, block) in used {
        let offset = block * BLOCK_BYTES;
        match found.last_mut() {
            Some((start, length)) if *start + *length == offset => *length += BLOCK_BYTES,
            _ => found.push((offset, BLOCK_BYTES)),
        }
    }
    found
}

#[cfg(test)]
mod tests;
