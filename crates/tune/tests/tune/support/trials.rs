//! Trials with known figures.

use flashfit_bench::{
    FigureKind, Figures, Latency, MeasurementLength, PointResult, StageResult, WorkloadPoint,
};
use flashfit_filesystem::Setup;
use flashfit_testbed::TrialPhases;
use flashfit_tune::record::RECORD_VERSION;
use flashfit_tune::{RecordedOutcome, TrialKey, TrialPurpose, TrialRecord};

/// The result of a setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A write rate in KiB/s.
    Kib(u64),
    /// The same, but one write in 100 takes a second.
    SlowAt99(u64),
    /// The same, with this 99th percentile of latencies in nanoseconds.
    P99(u64, u64),
    /// It does not work.
    Fails,
}

/// A completed point with this rate and matching raw output of fio.
pub fn point(kib_per_second: u64) -> PointResult {
    let latency = Latency { max_ns: 1_000_000_000 / kib_per_second, ..Latency::default() };
    let figures = Figures::new(kib_per_second * 1024, 1, 1_000_000_000, latency);
    let kind = FigureKind::Throughput;
    PointResult {
        point: WorkloadPoint::Only,
        stages: vec![StageResult {
            name: "write".into(),
            kind,
            read: None,
            write: Some(figures),
            steady: None,
        }],
        fio_version: "fio-3.33".into(),
        runtime_ns: 1_000_000_000,
        raw_json: format!("[{kib_per_second}]"),
    }
}

/// A trial that was measured.
pub fn measured(
    purpose: TrialPurpose,
    setup: &Setup,
    workload: &str,
    repeat: u32,
    kib_per_second: u64,
) -> TrialRecord {
    let mut points = vec![point(kib_per_second)];
    points[0].raw_json.clear();
    record(purpose, setup, workload, repeat, RecordedOutcome::Completed { points })
}

pub fn failed(purpose: TrialPurpose, setup: &Setup, workload: &str, repeat: u32) -> TrialRecord {
    record(
        purpose,
        setup,
        workload,
        repeat,
        RecordedOutcome::Failed { message: "mkfs says no".into() },
    )
}

fn record(
    purpose: TrialPurpose,
    setup: &Setup,
    workload: &str,
    repeat: u32,
    outcome: RecordedOutcome,
) -> TrialRecord {
    TrialRecord {
        version: RECORD_VERSION,
        number: 1,
        key: TrialKey {
            purpose,
            setup: setup.clone(),
            workload: workload.to_owned(),
            length: MeasurementLength::Full,
            repeat,
        },
        batch: None,
        made_on: None,
        started_unix_s: 0,
        phases: TrialPhases::default(),
        outcome,
        state: None,
        fill_bytes: 0,
        written: None,
        counters: None,
        wear: Vec::new(),
        processor: None,
        kernel_messages: 0,
        device_errors: None,
        notes: Vec::new(),
    }
}
