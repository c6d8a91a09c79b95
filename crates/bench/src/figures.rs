//! What a workload yields: integers only, reads and writes apart.

use flashfit_host::processor::ProcessorTime;
use serde::{Deserialize, Serialize};

use crate::steady::SteadyState;
use crate::workload::{FigureKind, WorkloadPoint};

/// How long single operations took, in nanoseconds. Percentiles are fio's, whose buckets are up to
/// 1.6 % wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// The arithmetic mean.
    pub mean_ns: u64,
    /// Half of the operations took no longer.
    pub p50_ns: u64,
    /// 95 of 100 took no longer.
    pub p95_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// 999 of 1000 took no longer.
    pub p999_ns: u64,
    /// The slowest one; it grows with the length of a run.
    pub max_ns: u64,
}

/// The figures of one direction of one stage; jobs that ran at the same time are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Bytes moved. For stages that make or remove files, their nominal size.
    #[serde(default)]
    pub bytes: u64,
    /// Operations done.
    #[serde(default)]
    pub operations: u64,
    /// How long that took, writing back included where the stage says so.
    #[serde(default)]
    pub runtime_ns: u64,
    /// `bytes` by `runtime_ns`.
    #[serde(default)]
    pub bytes_per_second: u64,
    /// `operations` by `runtime_ns`, in thousandths.
    #[serde(default)]
    pub operations_per_second_thousandths: u64,
    /// Completion latency of the operations.
    #[serde(default)]
    pub latency: Latency,
    /// Latency of fsync or msync, where the jobs issued any between their writes.
    pub sync: Option<Latency>,
}

impl Figures {
    /// The figures for amounts and a time; a time of 0 counts as one nanosecond.
    pub fn new(bytes: u64, operations: u64, runtime_ns: u64, latency: Latency) -> Self {
        Self {
            bytes,
            operations,
            runtime_ns,
            bytes_per_second: per_second(bytes, runtime_ns),
            operations_per_second_thousandths: per_second(
                operations.saturating_mul(1000),
                runtime_ns,
            ),
            latency,
            sync: None,
        }
    }

    /// The same work with more time spent on it.
    #[must_use]
    pub fn with_more_time(self, more_ns: u64) -> Self {
        let runtime_ns = self.runtime_ns.saturating_add(more_ns);
        let sync = self.sync;
        Self { sync, ..Self::new(self.bytes, self.operations, runtime_ns, self.latency) }
    }

    /// The longest that any operation or sync took.
    pub fn worst_ns(&self) -> u64 {
        self.latency.max_ns.max(self.sync.map_or(0, |sync| sync.max_ns))
    }

    /// The figure to compare: bytes per second, or thousandths of operations per second.
    pub fn rate(&self, kind: FigureKind) -> u64 {
        match kind {
            FigureKind::Throughput => self.bytes_per_second,
            FigureKind::Operations => self.operations_per_second_thousandths,
        }
    }
}

fn per_second(amount: u64, runtime_ns: u64) -> u64 {
    let rate = u128::from(amount) * 1_000_000_000 / u128::from(runtime_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// What one stage yielded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageResult {
    /// Its name, as the workload gives it.
    pub name: String,
    /// Which figure is to be compared.
    pub kind: FigureKind,
    /// Figures of reading, where the stage yields them.
    pub read: Option<Figures>,
    /// Figures of writing, where the stage yields them.
    pub write: Option<Figures>,
    /// Whether it was in a steady state, where that was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyState>,
}

/// What one point yielded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointResult {
    /// The point.
    #[serde(default)]
    pub point: WorkloadPoint,
    /// Its stages, in the workload's order.
    pub stages: Vec<StageResult>,
    /// What fio calls its version, such as `fio-3.33`.
    #[serde(default)]
    pub fio_version: String,
    /// The time measured over, all stages together.
    #[serde(default)]
    pub runtime_ns: u64,
    /// fio's own results: the text of a JSON array with one document for each stage. Empty once
    /// it has been put away elsewhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub raw_json: String,
}

/// What a workload yielded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadResult {
    /// Its points, in the order of the plan.
    pub points: Vec<PointResult>,
    /// Time for laying out files, no part of any figure.
    pub fill_ns: u64,
    /// Bytes that were laid out.
    pub fill_bytes: u64,
    /// Time for writing back and dropping caches before each stage, no part of any figure.
    pub settle_ns: u64,
    /// Time that measuring took: fio's, its start included, and the writing back that belongs to a
    /// stage.
    pub fio_ns: u64,
    /// What this machine's processors did meanwhile, where the kernel tells.
    #[serde(default)]
    pub processor: Option<ProcessorTime>,
    /// What could not be done as it should have been, in words; usually empty.
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_from_amounts_and_time() {
        let figures = Figures::new(1 << 20, 3, 2_000_000_000, Latency::default());
        assert_eq!(figures.rate(FigureKind::Throughput), 1 << 19);
        assert_eq!(figures.rate(FigureKind::Operations), 1500);
        let slower = figures.with_more_time(2_000_000_000);
        assert_eq!(slower.rate(FigureKind::Throughput), 1 << 18);
        assert_eq!(slower.bytes, figures.bytes);
    }

    #[test]
    fn no_time_and_huge_amounts_do_not_overflow() {
        let figures = Figures::new(u64::MAX, u64::MAX, 0, Latency::default());
        assert_eq!(figures.bytes_per_second, u64::MAX);
    }
}
