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
    known.iter().find(|entry| entry.name == name).map(RecordedTrace::parse).transpose()
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
mod tests {
    use flashfit_catalog::Origin;

    use super::*;

    fn header() -> TraceHeader {
        TraceHeader {
            filesystem: "ext4".to_owned(),
            options: Vec::new(),
            workload: "logs".to_owned(),
            card: "small".to_owned(),
            capacity: Bytes::mib(1),
            fill_percent: 50,
            age_rounds: 1,
            data_size: Bytes::kib(64),
            written_by_programs: Bytes::kib(8),
            kernel: "6.1".to_owned(),
            mkfs: "1.47".to_owned(),
            seed: 1,
        }
    }

    fn write(block: u64, blocks: u64) -> TracedRequest {
        TracedRequest::Write { offset: block * BLOCK_BYTES, length: blocks * BLOCK_BYTES }
    }

    fn recording() -> Vec<TracedRequest> {
        let discard = TracedRequest::Discard { offset: 4096, length: 4096 };
        vec![
            write(0, 4),
            discard,
            TracedRequest::Mark,
            write(8, 1),
            TracedRequest::Mark,
            TracedRequest::Flush,
            TracedRequest::Mark,
            write(9, 1),
        ]
    }

    #[test]
    fn a_trace_is_written_and_read_back() {
        let trace = RecordedTrace::from_recording(header(), "record".into(), &recording()).unwrap();
        assert_eq!(trace.initial, [(0, 4096), (8192, 8192)]);
        assert_eq!(trace.requests, [write(8, 1), TracedRequest::Flush]);
        let entry = CatalogEntry {
            name: "ext4-logs".to_owned(),
            text: trace.to_text(),
            origin: Origin::BuiltIn("traces/ext4-logs.toml".to_owned()),
        };
        assert_eq!(RecordedTrace::parse(&entry).unwrap(), trace);
        assert_eq!(trace.device_bytes(), 4096);
        let text = entry.text.replace("capacity = 1048576", "capacity = 16384");
        let error = RecordedTrace::parse(&CatalogEntry { text, ..entry }).unwrap_err();
        assert!(error.to_string().ends_with("behind the end of the card"), "{error}");
    }

    #[test]
    fn a_mistake_of_a_trace_has_its_line_and_a_hint() {
        let trace = RecordedTrace::from_recording(header(), "record".into(), &recording()).unwrap();
        let text = trace.to_text();
        let line = |start: &str| text.lines().position(|line| line.starts_with(start)).unwrap() + 1;
        for (from, to, line, reason) in [
            ("seed = 1", "seed = \"x\"", line("seed"), "invalid type"),
            ("seed = 1", "sed = 1", line("seed"), "did you mean `seed`?"),
            ("capacity = 1048576", "capacity = 16384", line("capacity"), "capacity: a request"),
            ("data = \"\"\"\n", "data = \"\"\"\n!", line("data ="), "data: "),
            ("\nwritten_by_programs = 8192", "", 1, "missing field `written_by_programs`"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            let origin = Origin::File("mine.toml".into());
            let entry = CatalogEntry { name: "mine".to_owned(), text: changed, origin };
            let error = RecordedTrace::parse(&entry).unwrap_err();
            let told = error.to_string();
            assert!(
                told.contains(&format!("mine.toml:{line}: ")) && told.contains(reason),
                "{told}"
            );
            assert!(error.hint().is_some(), "{told}");
        }
    }

    fn is_written_as_new_ones_are(entry: &CatalogEntry) {
        let text = RecordedTrace::parse(entry).unwrap().to_text();
        assert!(text == entry.text, "{} differs", entry.origin);
    }

    #[test]
    fn the_smallest_built_in_trace_is_written_as_new_ones_are() {
        let all = entries("traces", "toml", None).unwrap();
        is_written_as_new_ones_are(all.iter().min_by_key(|entry| entry.text.len()).unwrap());
    }

    /// `FLASHFIT_BLESS=1` writes the files again.
    #[test]
    #[ignore = "full: codes megabytes of requests"]
    fn built_in_traces_are_written_as_new_ones_are() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/traces");
        for entry in entries("traces", "toml", None).unwrap() {
            if std::env::var_os("FLASHFIT_BLESS").is_some() {
                let text = RecordedTrace::parse(&entry).unwrap().to_text();
                std::fs::write(folder.join(format!("{}.toml", entry.name)), text).unwrap();
            } else {
                is_written_as_new_ones_are(&entry);
            }
        }
    }

    #[test]
    fn a_trace_without_coding_is_compressed_with_zlib() {
        let trace = RecordedTrace::from_recording(header(), "record".into(), &recording()).unwrap();
        let text = trace.to_text().replace("coding = \"context-mixing\"\n", "");
        let (head, data) = text.split_once("\"\"\"\n").unwrap();
        let data = STANDARD.decode(data.lines().next().unwrap()).unwrap();
        let bytes = trace_coding::decode(&data, DATA_BYTES_MAX).unwrap();
        let packed = STANDARD.encode(miniz_oxide::deflate::compress_to_vec_zlib(&bytes, 9));
        let text = format!("{head}\"\"\"\n{packed}\n\"\"\"\n");
        let origin = Origin::BuiltIn("traces/ext4-logs.toml".to_owned());
        let entry = CatalogEntry { name: "ext4-logs".to_owned(), text, origin };
        assert_eq!(RecordedTrace::parse(&entry).unwrap(), trace);
    }

    #[test]
    fn the_default_setup_of_a_recorded_file_system_is_listed() {
        assert_eq!(recorded_options("ext4", None).unwrap(), [Vec::<String>::new()]);
        assert!(recorded_options("nilfs2", None).unwrap().is_empty());
    }

    #[test]
    fn an_unmarked_recording_is_refused() {
        let made = |all: &[_]| RecordedTrace::from_recording(header(), String::new(), all);
        assert!(matches!(made(&recording()[..2]), Err(TraceFileError::Incomplete(_))));
        assert!(matches!(made(&recording()[4..7]), Err(TraceFileError::Incomplete(_))));
    }
}
