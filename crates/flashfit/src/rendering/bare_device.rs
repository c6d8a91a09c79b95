//! The bare device as a table for the terminal: what the same jobs did without a file system, next
//! to the setup that the run recommends. The HTML report draws it as lines.
//!
//! Limits: rates only, latencies are in the plots; the lowest and the highest of a few measurements
//! stand for an interval.

use std::collections::BTreeMap;

use flashfit_bench::WorkloadPoint;
use flashfit_filesystem::Setup;
use flashfit_report::{ColumnKind, ReportFinding};
use flashfit_tune::stats::median;
use flashfit_tune::{RawMeasurement, TrialKey};

use super::RunView;
use super::figures::{Measure, Subject, measured};

/// Rows that the terminal shows.
const TERMINAL_ROWS: usize = 12;

type PointValues = BTreeMap<(Subject, WorkloadPoint), Vec<f64>>;

/// Without rows where the bare device was not measured.
pub fn finding(view: &RunView<'_>, raw: &[RawMeasurement]) -> ReportFinding {
    let setup = compared(view);
    let label = setup.as_ref().map_or_else(|| "no setup".to_owned(), Setup::label);
    let title = format!("The bare device, no file system, next to {label}");
    let explanation = "The same jobs without a file system, before the first trial: the median of n \
                       measurements, with the lowest and the highest; then the median of the \
                       setup's full-length trials.";
    let columns = [
        ("workload", ColumnKind::Name),
        ("at", ColumnKind::Number),
        ("median", ColumnKind::Number),
        ("from", ColumnKind::Number),
        ("to", ColumnKind::Number),
        ("n", ColumnKind::Number),
        ("setup", ColumnKind::Number),
    ];
    let mut finding = ReportFinding::new(&title, explanation, columns, TERMINAL_ROWS);
    finding.is_drawn = true;
    for workload in view.workloads {
        let of_workload = raw.iter().filter(|one| one.workload == workload.name);
        let values = rates(of_workload.map(|one| one.points.as_slice()));
        let of_setup = setup.as_ref().map(|setup| with_setup(view, setup, &workload.name));
        for ((subject, point), values) in values {
            let show = |value: f64| subject.measure.unit().show(value);
            let pick = |pick: fn(f64, f64) -> f64| {
                values.iter().copied().reduce(pick).map_or_else(String::new, show)
            };
            let key = (subject.clone(), point);
            let with = of_setup.as_ref().and_then(|found| median(found.get(&key)?));
            finding.rows.push(vec![
                name(&workload.name, &subject),
                point.to_string(),
                median(&values).map_or_else(String::new, show),
                pick(f64::min),
                pick(f64::max),
                values.len().to_string(),
                with.map_or_else(|| "–".to_owned(), show),
            ]);
        }
    }
    finding
}

/// The setup next to which the bare device is shown.
fn compared(view: &RunView<'_>) -> Option<Setup> {
    let found = view.recommendation()?;
    Some(found.recommended().clone())
}

fn with_setup(view: &RunView<'_>, setup: &Setup, workload: &str) -> PointValues {
    let trials = view.levelled.iter().filter(|trial| is_comparable(&trial.key, setup, workload));
    rates(trials.filter_map(|trial| trial.points()))
}

/// Whether a trial measured a setup for as long as the bare device: short ones have other rates.
fn is_comparable(key: &TrialKey, setup: &Setup, workload: &str) -> bool {
    key.length.is_full() && key.workload == workload && key.setup == *setup
}

fn rates<'a>(measurements: impl Iterator<Item = &'a [flashfit_bench::PointResult]>) -> PointValues {
    let mut values = PointValues::new();
    for (subject, point, value) in measurements.flat_map(measured) {
        if matches!(subject.measure, Measure::Throughput | Measure::Operations) {
            values.entry((subject, point)).or_default().push(value);
        }
    }
    values
}

/// `random-write`, or `mixed: read` where the direction is not the name of the stage.
fn name(workload: &str, subject: &Subject) -> String {
    let Subject { stage, direction, .. } = subject;
    if stage == direction || workload.contains(stage.as_str()) {
        workload.to_owned()
    } else {
        format!("{workload}: {stage}, {direction}")
    }
}

#[cfg(test)]
mod tests {
    use flashfit_bench::MeasurementLength;
    use flashfit_filesystem::Scheduler;
    use flashfit_tune::TrialPurpose;

    use super::*;

    #[test]
    fn short_trials_are_not_compared_with_the_bare_device() {
        let setup = Setup {
            filesystem: "ext4".to_owned(),
            options: Vec::new(),
            scheduler: Scheduler::new("none"),
        };
        let is_compared = |purpose, length| {
            let (setup, workload) = (setup.clone(), "random-write".to_owned());
            let key = TrialKey { purpose, setup: setup.clone(), workload, length, repeat: 0 };
            is_comparable(&key, &setup, "random-write")
        };
        assert!(!is_compared(TrialPurpose::Search, MeasurementLength::Short));
        assert!(is_compared(TrialPurpose::Search, MeasurementLength::Full));
        assert!(is_compared(TrialPurpose::Confirm, MeasurementLength::Full));
    }
}
