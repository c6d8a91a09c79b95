//! The differences between the devices of a run on several boards.

use flashfit_report::{ColumnKind, FigureUnit, ReportFinding};
use flashfit_tune::recommend::percent;
use flashfit_tune::spread::DeviceEffect;
use flashfit_tune::spread::device_effects::EffectKey;

use super::RunView;

const TERMINAL_ROWS: usize = 6;

/// States which devices were measured and which one the results refer to; `None` for one device.
pub fn statement(view: &RunView<'_>) -> Option<String> {
    let [first, others @ ..] = view.levels.devices() else { return None };
    if others.is_empty() {
        return None;
    }
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    Some(format!(
        "trials ran on several devices: {first}, {}; results refer to the first, and those of the \
         others are divided by the factors in the report",
        others.join(", ")
    ))
}

/// Each device's factors against the first.
pub fn finding(view: &RunView<'_>) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Devices of this run",
        "How each device differs from the first in one workload, with the standard error, from \
         setups that were measured on several devices. All results of this report refer to the \
         first device. The report assumes that a setup gains the same on every device.",
        [
            ("device", ColumnKind::Name),
            ("workload", ColumnKind::Name),
            ("trials", ColumnKind::Number),
            ("throughput", ColumnKind::Number),
            ("latency (p99)", ColumnKind::Number),
        ],
        TERMINAL_ROWS,
    );
    if !view.levels.are_several() {
        return finding;
    }
    for (index, device) in view.levels.devices().iter().enumerate() {
        for workload in view.results.workloads() {
            let made = view.trials.iter().filter(|trial| {
                trial.made_on.as_ref() == Some(device) && trial.key.workload == *workload
            });
            let shown = |figure| shown(index, view.levels.level(figure, workload, index));
            finding.rows.push(vec![
                device.to_string(),
                workload.clone(),
                made.count().to_string(),
                shown(EffectKey::Rate),
                shown(EffectKey::Latency),
            ]);
        }
    }
    finding
}

fn shown(index: usize, level: Option<DeviceEffect>) -> String {
    let change = |log: f64| FigureUnit::PercentChange.show(percent(log));
    match level {
        _ if index == 0 => "reference".to_owned(),
        None => "unknown: no setup in common".to_owned(),
        Some(DeviceEffect { log, error: Some(error) }) => {
            format!("{} ± {:.1} %", change(log), 100.0 * error)
        }
        Some(DeviceEffect { log, error: None }) => change(log),
    }
}
