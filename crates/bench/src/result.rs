//! Reads and validates the result of fio.
//!
//! fio exits with 0 when it refuses a mounted target, writes messages before its JSON, and leaves a
//! valid but incomplete result when a signal stops it. A result is therefore accepted only if the
//! exit code, the messages, the error of every job and the amount of work agree. The format is that
//! of `--output-format=json` (`stat.c` of fio), version 3.33 and later; unused fields are ignored.

use std::collections::BTreeMap;

use flashfit_host::ProgramOutcome;
use serde::Deserialize;

use crate::error::BenchError;
use crate::figures::{Figures, Latency};
use crate::stage::{Direction, StageSpec};
use crate::steady::SteadyState;

/// The exit code of fio after SIGINT or SIGTERM.
const EXIT_STOPPED: i32 = 128;
const SIGKILL: i32 = 9;
const MILLISECOND_NS: u64 = 1_000_000;
/// Job files round down to complete files and blocks.
const VOLUME_TOLERANCE_HUNDREDTHS: u64 = 90;
/// fio checks the clock between requests and counts milliseconds.
const RUNTIME_TOLERANCE_HUNDREDTHS: u64 = 90;

/// The result of one run: one reporting group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FioResult {
    pub version: String,
    pub read: Option<Figures>,
    pub write: Option<Figures>,
    /// `None` if fio did not check for a steady state.
    pub steady: Option<SteadyState>,
    /// The JSON document without the messages before it.
    pub json: String,
}

/// The expected work of a run.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedRun<'a> {
    pub stage: &'a StageSpec,
    /// The bytes to transfer within the time limit.
    pub bytes: u64,
    pub runtime_ns: u64,
}

/// Reads the outcome of fio and its output file.
///
/// # Errors
/// If any sign contradicts the result; see [`BenchError`].
pub fn read(
    outcome: &ProgramOutcome,
    output: &str,
    expected: ExpectedRun<'_>,
) -> Result<FioResult, BenchError> {
    let (document, json) = successful_document(outcome, output)?;
    let [job] = document.jobs.as_slice() else {
        let reason = format!("{} reporting groups instead of one", document.jobs.len());
        return Err(BenchError::BadResult { reason });
    };
    let sync = job.sync.as_ref().filter(|sync| sync.total_ios > 0);
    let sync = sync.map(|sync| latency(&sync.lat_ns)).transpose()?;
    let result = FioResult {
        version: document.version.clone(),
        read: figures(&job.read, job.busy_ns())?,
        write: figures(&job.write, job.busy_ns())?.map(|write| Figures { sync, ..write }),
        steady: job.steadystate.as_ref().map(|found| SteadyState::by_fio(found.attained != 0)),
        json: json.to_owned(),
    };
    check_complete(&result, expected)?;
    Ok(result)
}

/// Validates a run that only lays out files.
///
/// # Errors
/// As [`read`].
pub fn read_fill(outcome: &ProgramOutcome, output: &str) -> Result<(), BenchError> {
    successful_document(outcome, output).map(|_| ())
}

/// The document of a run without any sign of an error.
fn successful_document<'a>(
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
    let errors = error_messages(&messages);
    if !errors.is_empty() || !outcome.success() {
        let text = if errors.is_empty() { last_lines(&messages) } else { errors };
        let exit = outcome.code.map_or_else(|| "a signal".to_owned(), |c| format!("exit code {c}"));
        return Err(classify(if text.is_empty() { exit } else { text }));
    }
    let document: Document = serde_json::from_slice(json.as_bytes())
        .map_err(|error| BenchError::BadResult { reason: error.to_string() })?;
    match document.jobs.iter().find(|job| job.error != 0) {
        Some(job) => Err(classify(format!("{}: err={}", job.jobname, job.error))),
        None => Ok((document, json)),
    }
}

/// The text from the first line that is exactly `{`; empty if there is none.
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

/// The error messages of fio, on one line.
fn error_messages(messages: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in messages.lines().map(str::trim) {
        // fio reports the files found by `opendir` with the same prefix.
        let found = line.starts_with("fio: opendir added ");
        let is_error = line.starts_with("fio:") && !found || line.contains("appears mounted");
        if is_error && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join(" / ")
}

fn last_lines(messages: &str) -> String {
    let lines: Vec<&str> = messages.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" / ")
}

/// The error for a message of fio. The numbers are those of errno(3).
fn classify(message: String) -> BenchError {
    let contains_any = |patterns: &[&str]| {
        patterns.iter().any(|pattern| match pattern.strip_prefix("err=") {
            Some(number) => has_errno(&message, number),
            None => message.contains(pattern),
        })
    };
    if contains_any(&["terminating on signal"]) {
        BenchError::Stopped
    } else if contains_any(&["No space left on device", "Disk quota exceeded", "err=28", "err=122"])
    {
        BenchError::Full { message }
    } else if contains_any(&[
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
        BenchError::Device { message }
    } else if contains_any(&["Cannot allocate memory", "smalloc", "err=12"]) {
        BenchError::Memory { message }
    } else if contains_any(&["appears mounted", "read-only mode"]) {
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

fn check_complete(result: &FioResult, expected: ExpectedRun<'_>) -> Result<(), BenchError> {
    for direction in &expected.stage.yields {
        let (word, figures) = match direction {
            Direction::Read => ("read", &result.read),
            Direction::Write => ("written", &result.write),
        };
        if figures.is_none() {
            let reason = format!("nothing was {word} in `{}`", expected.stage.name);
            return Err(BenchError::BadResult { reason });
        }
    }
    let done = [result.read, result.write];
    let bytes = done.iter().flatten().fold(0u64, |sum, figures| sum.saturating_add(figures.bytes));
    let runtime_ns = done.iter().flatten().map(|figures| figures.runtime_ns).max().unwrap_or(0);
    // fio ends early when its steady-state criterion is met.
    if result.steady.is_some_and(|steady| steady.fio) {
        return Ok(());
    }
    let share = |whole: u64, hundredths| whole / 100 * hundredths;
    if bytes >= share(expected.bytes, VOLUME_TOLERANCE_HUNDREDTHS)
        || runtime_ns >= share(expected.runtime_ns, RUNTIME_TOLERANCE_HUNDREDTHS)
    {
        return Ok(());
    }
    Err(BenchError::CutShort {
        stage: expected.stage.name.clone(),
        runtime_ns,
        bytes,
        expected_bytes: expected.bytes,
    })
}

fn figures(direction: &DirectionDocument, busy_ns: u64) -> Result<Option<Figures>, BenchError> {
    if direction.total_ios == 0 {
        return Ok(None);
    }
    let runtime_ns = exact_runtime_ns(direction.runtime, busy_ns);
    let latency = latency(&direction.clat_ns)?;
    Ok(Some(Figures::new(direction.io_bytes, direction.total_ios, runtime_ns, latency)))
}

/// The runtime in nanoseconds. fio rounds it up to milliseconds, which is half of a read of 2 ms.
/// The sum of all latencies is more exact where one operation followed the other. If it differs
/// from the milliseconds, operations were concurrent or had pauses, and the milliseconds count.
/// Source: `update_runtime` in fio's `backend.c`.
fn exact_runtime_ns(runtime_ms: u64, busy_ns: u64) -> u64 {
    let most = runtime_ms.saturating_mul(MILLISECOND_NS);
    let least = most.saturating_sub(MILLISECOND_NS);
    // Opening a file and starting the job take some of the time.
    let is_plausible = (least.saturating_sub(MILLISECOND_NS)..=most).contains(&busy_ns);
    if is_plausible { busy_ns.max(least).max(1) } else { most }
}

fn latency(document: &LatencyDocument) -> Result<Latency, BenchError> {
    let percentile = |name: &str| {
        let reason = || format!("the percentile {name} is missing");
        let found = document.percentile.get(name);
        // fio reports the upper end of a bucket, which can exceed the maximum.
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

impl JobDocument {
    /// The sum of all latencies.
    fn busy_ns(&self) -> u64 {
        let sync = self.sync.as_ref().map(|sync| (sync.total_ios, sync.lat_ns.mean));
        let others = [&self.read, &self.write].map(|found| (found.total_ios, found.lat_ns.mean));
        let sums = others.into_iter().chain(sync).map(|(count, mean)| count as f64 * mean);
        sums.sum::<f64>() as u64
    }
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
    /// From the submission to the completion.
    lat_ns: MeanDocument,
}

#[derive(Debug, Deserialize)]
struct MeanDocument {
    mean: f64,
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
