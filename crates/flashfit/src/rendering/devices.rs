//! How the devices of a run differ that was spread over several.

use flashfit_report::{ColumnKind, FigureUnit, ReportFinding};
use flashfit_tune::recommend::percent;
use flashfit_tune::spread::DeviceEffect;
use flashfit_tune::spread::device_effects::EffectKey;

use super::RunView;

/// How many rows the terminal shows.
const BRIEF: usize = 6;

/// That several devices were measured, and as on which figures are told; nothing for one device.
pub fn statement(view: &RunView<'_>) -> Option<String> {
    let [first, others @ ..] = view.levels.media() else { return None };
    if others.is_empty() {
        return None;
    }
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    Some(format!(
        "trials were made on several media: {first}, {}; figures are told as on the first, those \
         of the others divided by the factors in the report",
        others.join(", ")
    ))
}

/// Each device's factors against the first.
pub fn finding(view: &RunView<'_>) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "The media of this run",
        "How each medium differs from the first under one workload, by setups that were measured \
         on several of them, with its standard error. All figures of this report are told as on the \
         first. That a setup gains as much on one as on the other is taken for granted.",
        [
            ("medium", ColumnKind::Name),
            ("workload", ColumnKind::Name),
            ("trials", ColumnKind::Number),
            ("throughput", ColumnKind::Number),
            ("latency (p99)", ColumnKind::Number),
        ],
        BRIEF,
    );
    if !view.levels.are_several() {
        return finding;
    }
    for (place, medium) in view.levels.media().iter().enumerate() {
        for workload in view.results.workloads() {
            let made = view.trials.iter().filter(|trial| {
                trial.made_on.as_ref() == Some(medium) && trial.key.workload == *workload
            });
            let shown = |figure| shown(place, view.levels.level(figure, workload, place));
            finding.rows.push(vec![
                medium.to_string(),
                workload.clone(),
                made.count().to_string(),
                shown(EffectKey::Rate),
                shown(EffectKey::Latency),
            ]);
        }
    }
    finding
}

fn shown(place: usize, level: Option<DeviceEffect>) -> String {
    let change = |log: f64| FigureUnit::PercentChange.show(percent(log));
    match level {
        _ if place == 0 => "as it is".to_owned(),
        None => "not known: it shares no setup".to_owned(),
        Some(DeviceEffect { log, error: Some(error) }) => {
            format!("{} ± {:.1} %", change(log), 100.0 * error)
        }
        Some(DeviceEffect { log, error: None }) => change(log),
    }
}
