//! The merits of a trial according to the CELF methodology (section 3.3).
//!
//! Throughput: the mean over a workload's points of the natural logarithm of the throughput in
//! KiB/s (operations per second for stages that create or delete files, runs in a million seconds
//! for commands), times 1000. The merits of
//! reads and writes, and of the stages of a workload, are added, as in the methodology's tables for
//! mixed workloads. Latency: the reciprocal of the worst completion latency of all points,
//! including syncs, in 1/s. Wear (not in the methodology): bytes written by the workload divided by
//! bytes that the device programmed, or bytes written to it if it does not report them.

use flashfit_bench::{FigureKind, Figures, PointResult};

use crate::choice::Criterion;
use crate::objective;
use crate::record::TrialRecord;

/// The merits of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Merit {
    /// Sum of 1000 ln(KiB/s) over reads, writes and stages.
    pub throughput: f64,
    /// 1 / worst latency, in 1/s.
    pub latency: f64,
    /// Mean logarithm of the rate over points and series, from which ratios are computed.
    pub mean_log_rate: f64,
    /// Logarithm of the bytes written divided by their cost for the device, if counted.
    pub log_wear: Option<f64>,
}

impl Merit {
    /// The merits of points that all have the same stages.
    ///
    /// Rates below one (no operation in a second) count as one, whose logarithm is 0.
    pub fn of(points: &[PointResult]) -> Self {
        let rates: f64 = points.iter().flat_map(series).map(|(rate, _)| rate.max(1.0).ln()).sum();
        let count = points.iter().flat_map(series).count().max(1);
        let worst_ns = points
            .iter()
            .flat_map(series)
            .map(|(_, figures)| figures.worst_ns())
            .max()
            .unwrap_or_default();
        Self {
            throughput: 1000.0 * rates / points.len().max(1) as f64,
            latency: 1e9 / worst_ns.max(1) as f64,
            mean_log_rate: rates / count as f64,
            log_wear: None,
        }
    }

    /// The merits of a trial, including wear.
    pub fn of_trial(trial: &TrialRecord, points: &[PointResult]) -> Self {
        Self { log_wear: objective::log_wear_merit(trial, points), ..Self::of(points) }
    }

    /// The merit by a criterion; `None` for wear without counters.
    pub fn by(&self, by: Criterion) -> Option<f64> {
        match by {
            Criterion::Throughput => Some(self.throughput),
            Criterion::Latency => Some(self.latency),
            Criterion::Wear => self.log_wear.map(f64::exp),
        }
    }

    /// The logarithm whose difference between two setups is the log ratio; `None` for wear without
    /// counters.
    pub fn log(&self, by: Criterion) -> Option<f64> {
        match by {
            Criterion::Throughput => Some(self.mean_log_rate),
            Criterion::Latency => Some(self.latency.ln()),
            Criterion::Wear => self.log_wear,
        }
    }

    /// Whether the record contains no rates.
    pub fn has_no_rate(points: &[PointResult]) -> bool {
        points.iter().flat_map(series).all(|(rate, _)| rate <= 0.0)
    }

    /// Whether the record contains no worst latencies.
    pub fn has_no_latency(points: &[PointResult]) -> bool {
        points.iter().flat_map(series).all(|(_, figures)| figures.worst_ns() == 0)
    }
}

/// The series of a point, each with its rate: KiB/s or operations per second.
fn series(point: &PointResult) -> impl Iterator<Item = (f64, &Figures)> {
    point.stages.iter().flat_map(|stage| {
        [&stage.read, &stage.write]
            .into_iter()
            .flatten()
            .map(|figures| (rate(stage.kind, figures), figures))
    })
}

fn rate(kind: FigureKind, figures: &Figures) -> f64 {
    let rate = figures.rate(kind) as f64;
    match kind {
        FigureKind::Throughput => rate / 1024.0,
        FigureKind::Operations => rate / 1000.0,
        FigureKind::Time => rate,
    }
}

#[cfg(test)]
mod tests {
    use flashfit_bench::{Latency, StageResult, WorkloadPoint};

    use super::*;

    fn figures(kib_per_second: u64, worst_ms: u64) -> Figures {
        let latency = Latency { max_ns: worst_ms * 1_000_000, ..Latency::default() };
        Figures::new(kib_per_second * 1024, 1, 1_000_000_000, latency)
    }

    fn point(read: Option<Figures>, write: Option<Figures>) -> PointResult {
        let stage = StageResult {
            name: "s".into(),
            kind: FigureKind::Throughput,
            read,
            write,
            steady: None,
        };
        PointResult {
            point: WorkloadPoint::Only,
            stages: vec![stage],
            fio_version: String::new(),
            runtime_ns: 1,
            raw_json: String::new(),
        }
    }

    #[test]
    fn throughput_is_the_mean_logarithm_over_points_in_thousandths() {
        let points = [point(None, Some(figures(1000, 1))), point(None, Some(figures(10_000, 1)))];
        let merit = Merit::of(&points).throughput;
        assert!((merit - 1000.0 * (1000f64.ln() + 10_000f64.ln()) / 2.0).abs() < 1e-6, "{merit}");
    }

    #[test]
    fn reads_and_writes_of_a_mixed_workload_add() {
        // The methodology's table has 19869 for such a workload at some 20 MiB/s each way.
        let merit = Merit::of(&[point(Some(figures(20_000, 1)), Some(figures(20_000, 1)))]);
        assert!((merit.throughput - 2000.0 * 20_000f64.ln()).abs() < 1e-6);
        assert!((merit.mean_log_rate - 20_000f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn latency_is_the_reciprocal_of_the_worst_of_all_points() {
        let points = [point(None, Some(figures(1, 20))), point(Some(figures(1, 250)), None)];
        assert!((Merit::of(&points).latency - 4.0).abs() < 1e-9);
    }
}
