//! Trials with known figures.

use flashfit_bench::{FigureKind, Figures, Latency, Point, PointResult, Stage};
use flashfit_filesystem::Setup;
use flashfit_stand::Phases;
use flashfit_tune::record::RECORD_VERSION;
use flashfit_tune::strategy::Strategy;
use flashfit_tune::{By, Outcome, Purpose, Results, Space, TrialKey, TrialRecord};

/// How a setup does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It writes so many KiB a second.
    Kib(u64),
    /// It does not work.
    Fails,
}

/// A completed point of that rate, with raw output of fio that says so.
pub fn point(kib_per_second: u64) -> PointResult {
    let latency = Latency { max_ns: 1_000_000_000 / kib_per_second, ..Latency::default() };
    let figures = Figures::new(kib_per_second * 1024, 1, 1_000_000_000, latency);
    let kind = FigureKind::Throughput;
    PointResult {
        point: Point::Only,
        stages: vec![Stage { name: "write".into(), kind, read: None, write: Some(figures) }],
        fio_version: "fio-3.33".into(),
        runtime_ns: 1_000_000_000,
        raw_json: format!("[{kib_per_second}]"),
    }
}

/// A trial that was measured.
pub fn measured(
    purpose: Purpose,
    setup: &Setup,
    workload: &str,
    repeat: u32,
    kib_per_second: u64,
) -> TrialRecord {
    let mut points = vec![point(kib_per_second)];
    points[0].raw_json.clear();
    record(purpose, setup, workload, repeat, Outcome::Completed { points })
}

/// A trial that failed.
pub fn failed(purpose: Purpose, setup: &Setup, workload: &str, repeat: u32) -> TrialRecord {
    record(purpose, setup, workload, repeat, Outcome::Failed { message: "mkfs says no".into() })
}

fn record(
    purpose: Purpose,
    setup: &Setup,
    workload: &str,
    repeat: u32,
    outcome: Outcome,
) -> TrialRecord {
    TrialRecord {
        version: RECORD_VERSION,
        number: 1,
        key: TrialKey { purpose, setup: setup.clone(), workload: workload.to_owned(), repeat },
        started_unix_s: 0,
        phases: Phases::default(),
        outcome,
        counters: None,
        kernel_messages: 0,
        notes: Vec::new(),
    }
}

/// Lets a strategy search a landscape of one workload `w`, one trial a setup. Returns the setups
/// that it asked for, batch by batch, and the results.
pub fn measure(
    strategy: &dyn Strategy,
    space: &Space,
    landscape: impl Fn(&Setup) -> Answer,
) -> (Vec<Vec<Setup>>, Results) {
    let mut results = Results::of(&[], &["w".to_owned()], 1, By::Throughput);
    let mut batches = Vec::new();
    loop {
        let batch = strategy.next(space, &results);
        if batch.is_empty() {
            return (batches, results);
        }
        for setup in &batch {
            results.add(&match landscape(setup) {
                Answer::Kib(rate) => measured(Purpose::Search, setup, "w", 0, rate),
                Answer::Fails => failed(Purpose::Search, setup, "w", 0),
            });
        }
        batches.push(batch);
        assert!(batches.len() < 1000, "the search does not end");
    }
}
