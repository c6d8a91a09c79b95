//! Reading fio's result, and deciding whether to believe it.
//!
//! fio exits with 0 when it refuses a mounted target, writes messages before its JSON, and leaves a
//! valid, shortened result when a signal stops it. So exit code, messages, every job's error and
//! what was done must agree. The format is that of `--output-format=json` (fio's `stat.c`),
//! versions 3.33 and later; fields that are not needed are not looked at.

use std::collections::BTreeMap;

use flashfit_host::ProgramOutcome;
use serde::Deserialize;

use crate::error::BenchError;
use crate::figures::{Figures, Latency};
use crate::steady::SteadyState;
use crate::workload::{Direction, StageSpec};

/// The exit code with which fio ends after SIGINT or SIGTERM.
const EXIT_STOPPED: i32 = 128;
const SIGKILL: i32 = 9;
/// Job files round down to whole files and blocks; the rest may be missing.
const VOLUME_TOLERANCE_HUNDREDTHS: u64 = 90;
/// fio looks at the clock between requests and counts milliseconds.
const RUNTIME_TOLERANCE_HUNDREDTHS: u64 = 90;

/// What fio measured in one run: one reporting group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FioResult {
    /// What fio calls its version.
    pub version: String,
    /// Figures of reading, where anything was read.
    pub read: Option<Figures>,
    /// Figures of writing, where anything was written.
    pub write: Option<Figures>,
    /// What fio said of a steady state, where it was told to look for one.
    pub steady: Option<SteadyState>,
    /// fio's document, without what came before it.
    pub json: String,
}

/// What a run was asked to do.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedRun<'a> {
    /// The stage.
    pub stage: &'a StageSpec,
    /// The bytes it moves, its time not being up.
    pub bytes: u64,
    /// The time after which its jobs end.
    pub runtime_ns: u64,
}

/// Reads how fio ended (`outcome`) and what it wrote to its output file.
///
/// # Errors
/// Whatever speaks against the result; see [`BenchError`].
pub fn read(
    outcome: &ProgramOutcome,
    output: &str,
    asked: ExpectedRun<'_>,
) -> Result<FioResult, BenchError> {
    let (document, json) = ended_well(outcome, output)?;
    let [job] = document.jobs.as_slice() else {
        let reason = format!("{} groups of jobs instead of one", document.jobs.len());
        return Err(BenchError::BadResult { reason });
    };
    let sync = job.sync.as_ref().filter(|sync| sync.total_ios > 0);
    let sync = sync.map(|sync| latency(&sync.lat_ns)).transpose()?;
    let result = FioResult {
        version: document.version.clone(),
        read: figures(&job.read)?,
        write: figures(&job.write)?.map(|write| Figures { sync, ..write }),
        steady: job.steadystate.as_ref().map(|found| SteadyState::by_fio(found.attained != 0)),
        json: json.to_owned(),
    };
    is_complete(&result, asked)?;
    Ok(result)
}

/// Reads how a run ended that measures nothing but lays out files.
///
/// # Errors
/// As [`read`].
pub fn read_fill(outcome: &ProgramOutcome, output: &str) -> Result<(), BenchError> {
    ended_well(outcome, output).map(|_| ())
}

/// The document of a run that ended without any sign of an error.
fn ended_well<'a>(
    outcome: &ProgramOutcome,
    output: &'a str,
) -> Result<(Document, &'a str), BenchError> {
    let json = document_text(output);
    let before = &output[..output.len() - json.len()];
    let messages = [outcome.stderr.as_str(), &outcome.stdout, before].concat();
    if outcome.code == Some(EXIT_STOPPED) {
        return Err(BenchError::Stopped);
    }
    if outcome.signal == Some(SIGKILL) {
        return Err(BenchError::Memory { message: "the kernel killed it".to_owned() });
    }
    let complaints = complaints(&messages);
    if !complaints.is_empty() || !outcome.success() {
        let said = if complaints.is_empty() { last_lines(&messages) } else { complaints };
        let how = outcome.code.map_or_else(|| "a signal".to_owned(), |c| format!("exit code {c}"));
        return Err(judged(if said.is_empty() { how } else { said }));
    }
    let document: Document = serde_json::from_str(json)
        .map_err(|error| BenchError::BadResult { reason: error.to_string() })?;
    match document.jobs.iter().find(|job| job.error != 0) {
        Some(job) => Err(judged(format!("{}: err={}", job.jobname, job.error))),
        None => Ok((document, json)),
    }
}

/// From the first line that is exactly `{`; all of it where there is none.
fn document_text(output: &str) -> &str {
    let mut start = 0;
    for line in output.split_inclusive('\n') {
        if line.trim_end_matches(['\r', '\n']) == "{" {
            return &output[start..];
        }
        start += line.len();
    }
    &output[output.len()..]
}

/// fio's own error messages, on one line.
fn complaints(messages: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in messages.lines().map(str::trim) {
        // What it says of a folder whose files it found is no complaint.
        let found = line.starts_with("fio: opendir added ");
        let complaint = line.starts_with("fio:") && !found || line.contains("appears mounted");
        if complaint && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join(" / ")
}

fn last_lines(messages: &str) -> String {
    let lines: Vec<&str> = messages.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" / ")
}

/// The error that fio's words mean. The numbers are those of errno(3).
fn judged(message: String) -> BenchError {
    let says = |signs: &[&str]| {
        signs.iter().any(|sign| match sign.strip_prefix("err=") {
            Some(number) => has_errno(&message, number),
            None => message.contains(sign),
        })
    };
    if says(&["terminating on signal"]) {
        BenchError::Stopped
    } else if says(&["No space left on device", "Disk quota exceeded", "err=28", "err=122"]) {
        BenchError::Full { message }
    } else if says(&[
        "Input/output error",
        "Remote I/O error",
        "Read-only file system",
        "Structure needs cleaning",
        "No such device",
        "err=5",
        "err=6",
        "err=19",
        "err=30",
        "err=61",
        "err=84",
        "err=117",
        "err=121",
    ]) {
        BenchError::Medium { message }
    } else if says(&["Cannot allocate memory", "smalloc", "err=12"]) {
        BenchError::Memory { message }
    } else if says(&["appears mounted", "read-only mode"]) {
        BenchError::Refused { message }
    } else {
        BenchError::Failed { message }
    }
}

fn has_errno(message: &str, number: &str) -> bool {
    message.split("err=").skip(1).any(|rest| {
        rest.strip_prefix(number)
            .is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_digit()))
    })
}

fn is_complete(result: &FioResult, asked: ExpectedRun<'_>) -> Result<(), BenchError> {
    for direction in &asked.stage.yields {
        let (word, figures) = match direction {
            Direction::Read => ("read", &result.read),
            Direction::Write => ("written", &result.write),
        };
        if figures.is_none() {
            let reason = format!("in `{}` nothing was {word}", asked.stage.name);
            return Err(BenchError::BadResult { reason });
        }
    }
    let done = [result.read, result.write];
    let bytes = done.iter().flatten().fold(0u64, |sum, figures| sum.saturating_add(figures.bytes));
    let runtime_ns = done.iter().flatten().map(|figures| figures.runtime_ns).max().unwrap_or(0);
    // fio ends early once its own criterion is met.
    if result.steady.is_some_and(|steady| steady.fio) {
        return Ok(());
    }
    let share = |whole: u64, hundredths| whole / 100 * hundredths;
    if bytes >= share(asked.bytes, VOLUME_TOLERANCE_HUNDREDTHS)
        || runtime_ns >= share(asked.runtime_ns, RUNTIME_TOLERANCE_HUNDREDTHS)
    {
        return Ok(());
    }
    Err(BenchError::CutShort {
        stage: asked.stage.name.clone(),
        runtime_ns,
        bytes,
        asked_bytes: asked.bytes,
    })
}

fn figures(direction: &DirectionDocument) -> Result<Option<Figures>, BenchError> {
    if direction.total_ios == 0 {
        return Ok(None);
    }
    let runtime_ns = direction.runtime.saturating_mul(1_000_000);
    let latency = latency(&direction.clat_ns)?;
    Ok(Some(Figures::new(direction.io_bytes, direction.total_ios, runtime_ns, latency)))
}

fn latency(document: &LatencyDocument) -> Result<Latency, BenchError> {
    let percentile = |name: &str| {
        let reason = || format!("there is no percentile {name}");
        let found = document.percentile.get(name);
        // fio gives the upper edge of a bucket, which can lie above the slowest operation.
        found
            .map(|ns| (*ns).min(document.max))
            .ok_or_else(|| BenchError::BadResult { reason: reason() })
    };
    Ok(Latency {
        mean_ns: document.mean.round() as u64,
        p50_ns: percentile("50.000000")?,
        p95_ns: percentile("95.000000")?,
        p99_ns: percentile("99.000000")?,
        p999_ns: percentile("99.900000")?,
        max_ns: document.max,
    })
}

#[derive(Debug, Deserialize)]
struct Document {
    #[serde(rename = "fio version")]
    version: String,
    jobs: Vec<JobDocument>,
}

#[derive(Debug, Deserialize)]
struct JobDocument {
    jobname: String,
    error: i32,
    read: DirectionDocument,
    write: DirectionDocument,
    sync: Option<SyncDocument>,
    steadystate: Option<SteadyDocument>,
}

#[derive(Debug, Deserialize)]
struct SteadyDocument {
    attained: u32,
}

/// `runtime` is in milliseconds.
#[derive(Debug, Deserialize)]
struct DirectionDocument {
    io_bytes: u64,
    runtime: u64,
    total_ios: u64,
    clat_ns: LatencyDocument,
}

#[derive(Debug, Deserialize)]
struct SyncDocument {
    total_ios: u64,
    lat_ns: LatencyDocument,
}

#[derive(Debug, Deserialize)]
struct LatencyDocument {
    max: u64,
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, u64>,
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
