//! The results of a workload, as integers, with reads and writes separate.

use flashfit_host::processor::ProcessorTime;
use serde::{Deserialize, Serialize};

use crate::stage::FigureKind;
use crate::steady::SteadyState;
use crate::workload::WorkloadPoint;

/// The latency of single operations. Percentiles are fio's, whose buckets are up to 1.6 % wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p95_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    /// Grows with the length of a run.
    pub max_ns: u64,
}

/// The results of one direction of one stage; concurrent jobs are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Bytes transferred. For stages that create or delete files, their nominal size.
    #[serde(default)]
    pub bytes: u64,
    #[serde(default)]
    pub operations: u64,
    /// Includes writeback if the stage says so.
    #[serde(default)]
    pub runtime_ns: u64,
    #[serde(default)]
    pub bytes_per_second: u64,
    #[serde(default)]
    pub operations_per_second_thousandths: u64,
    #[serde(default)]
    pub latency: Latency,
    /// Latency of fsync or msync, if the jobs issued any between their writes.
    pub sync: Option<Latency>,
}

impl Figures {
    /// A time of 0 counts as one nanosecond.
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

    /// The same amounts with a longer time.
    #[must_use]
    pub fn with_more_time(self, more_ns: u64) -> Self {
        let runtime_ns = self.runtime_ns.saturating_add(more_ns);
        let sync = self.sync;
        Self { sync, ..Self::new(self.bytes, self.operations, runtime_ns, self.latency) }
    }

    /// The maximum over operations and syncs.
    pub fn worst_ns(&self) -> u64 {
        self.latency.max_ns.max(self.sync.map_or(0, |sync| sync.max_ns))
    }

    /// Bytes per second, thousandths of operations per second, or how often a command could run in
    /// a million seconds.
    pub fn rate(&self, kind: FigureKind) -> u64 {
        match kind {
            FigureKind::Throughput => self.bytes_per_second,
            FigureKind::Operations => self.operations_per_second_thousandths,
            FigureKind::Time => per_second(1_000_000, self.runtime_ns),
        }
    }
}

fn per_second(amount: u64, runtime_ns: u64) -> u64 {
    let rate = u128::from(amount) * 1_000_000_000 / u128::from(runtime_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageResult {
    pub name: String,
    /// Which rate is compared.
    pub kind: FigureKind,
    pub read: Option<Figures>,
    pub write: Option<Figures>,
    /// `None` if the steady state was not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyState>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointResult {
    #[serde(default)]
    pub point: WorkloadPoint,
    /// In the order of the workload.
    pub stages: Vec<StageResult>,
    /// The version as reported by fio, such as `fio-3.33`.
    #[serde(default)]
    pub fio_version: String,
    /// The measured time of all stages.
    #[serde(default)]
    pub runtime_ns: u64,
    /// The output of fio: a JSON array with one document per stage. Empty once it is stored
    /// elsewhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub raw_json: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadResult {
    /// In the order of the plan.
    pub points: Vec<PointResult>,
    /// Time for laying out files; not part of any result.
    pub fill_ns: u64,
    pub fill_bytes: u64,
    /// Time for writeback and dropping caches before each stage; not part of any result.
    pub settle_ns: u64,
    /// Time of the measurement: fio with its start, and the writeback that counts for a stage.
    pub fio_ns: u64,
    /// The processor time of the machine during the measurement, if the kernel reports it.
    #[serde(default)]
    pub processor: Option<ProcessorTime>,
    /// Deviations from the plan, as text.
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_computed_from_amounts_and_time() {
        let figures = Figures::new(1 << 20, 3, 2_000_000_000, Latency::default());
        assert_eq!(figures.rate(FigureKind::Throughput), 1 << 19);
        assert_eq!(figures.rate(FigureKind::Operations), 1500);
        let slower = figures.with_more_time(2_000_000_000);
        assert_eq!(slower.rate(FigureKind::Throughput), 1 << 18);
        assert_eq!(slower.bytes, figures.bytes);
    }

    #[test]
    fn the_time_of_a_command_is_compared_as_a_rate() {
        let of = |runtime_ns| Figures::new(0, 1, runtime_ns, Latency::default());
        assert_eq!(of(100_000_000_000).rate(FigureKind::Time), 10_000);
        assert_eq!(of(2_000_000).rate(FigureKind::Time), 500_000_000);
    }

    #[test]
    fn zero_time_and_huge_amounts_do_not_overflow() {
        let figures = Figures::new(u64::MAX, u64::MAX, 0, Latency::default());
        assert_eq!(figures.bytes_per_second, u64::MAX);
    }
}
