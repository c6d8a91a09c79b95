//! Findings about how well trials repeat: noise and steady state of each workload, and setups with
//! two different results.

use std::collections::BTreeMap;

use flashfit_bench::SteadyState;
use flashfit_filesystem::Setup;
use flashfit_report::{ColumnKind, ReportFinding};
use flashfit_tune::{Conclusion, Objective, TrialPurpose};

use super::RunView;

/// Setups whose trials under one workload fall into two groups.
pub fn two_modes(conclusion: &Conclusion) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Two different results under one workload",
        "The full trials of these setups fall into two groups that are further apart than noise. \
         Neither a mean nor an interval describes them; what decides between the groups is not \
         known.",
        [
            ("setup", ColumnKind::Name),
            ("workload", ColumnKind::Name),
            ("ratio", ColumnKind::Number),
            ("worse trials", ColumnKind::Number),
            ("better trials", ColumnKind::Number),
        ],
        3,
    );
    for found in &conclusion.two_modes {
        finding.rows.push(vec![
            conclusion.problem.setups[found.candidate].label(),
            conclusion.problem.workloads[found.workload].clone(),
            format!("{:.1}", found.ratio.exp()),
            found.worse.to_string(),
            found.better.to_string(),
        ]);
    }
    finding
}

/// Noise and steady state of each workload.
pub fn finding(view: &RunView<'_>) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Noise and steady state",
        "The standard deviation of full trials of one setup in one workload, the number of repeats \
         that it is estimated from, and how many of the \
         stages that were long enough reached a steady state by the criteria of fio (bandwidth \
         within 10 % of its mean) and SNIA (range 20 %, slope 10 % over five seconds).",
        [
            ("workload", ColumnKind::Name),
            ("full trials", ColumnKind::Number),
            ("short trials", ColumnKind::Number),
            ("spread", ColumnKind::Number),
            ("repeats", ColumnKind::Number),
            ("steady (fio)", ColumnKind::Number),
            ("steady (SNIA)", ColumnKind::Number),
        ],
        0,
    );
    for workload in view.results.workloads() {
        let of_it: Vec<_> =
            view.trials.iter().filter(|trial| trial.key.workload == *workload).collect();
        let whole = of_it.iter().filter(|trial| trial.key.length.is_full()).count();
        let stages = of_it
            .iter()
            .filter_map(|trial| trial.points())
            .flatten()
            .flat_map(|point| &point.stages)
            .filter_map(|stage| stage.steady);
        let steady: Vec<SteadyState> = stages.collect();
        let judged: Vec<bool> = steady.iter().filter_map(|steady| steady.snia).collect();
        let share = |yes: usize, of: usize| match of {
            0 => String::new(),
            _ => format!("{yes} of {of}"),
        };
        if of_it.is_empty() {
            continue;
        }
        let spread = spread(view, workload);
        finding.rows.push(vec![
            workload.clone(),
            whole.to_string(),
            (of_it.len() - whole).to_string(),
            spread.map_or_else(String::new, |(sd, _)| format!("{:.1} %", 100.0 * sd)),
            spread.map_or_else(String::new, |(_, repeats)| repeats.to_string()),
            share(steady.iter().filter(|steady| steady.fio).count(), steady.len()),
            share(judged.iter().filter(|yes| **yes).count(), judged.len()),
        ]);
    }
    finding
}

/// The standard deviation of the logarithms of repeats, pooled over setups, and the number of
/// repeats beyond the first.
fn spread(view: &RunView<'_>, workload: &str) -> Option<(f64, usize)> {
    let objective = Objective::of(&view.header.spec);
    let mut by_setup: BTreeMap<(&Setup, bool), Vec<f64>> = BTreeMap::new();
    for trial in &view.levelled {
        let key = &trial.key;
        if key.workload != workload || !key.length.is_full() {
            continue;
        }
        if let flashfit_search::TrialOutcome::Measured { log_merit, .. } = objective.outcome(trial)
        {
            let confirms = key.purpose == TrialPurpose::Confirm;
            by_setup.entry((&key.setup, confirms)).or_default().push(log_merit);
        }
    }
    let mut squares = 0.0;
    let mut freedom = 0usize;
    for logs in by_setup.values().filter(|logs| logs.len() > 1) {
        let mean = flashfit_tune::stats::mean(logs);
        squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
        freedom += logs.len() - 1;
    }
    let variance = squares / freedom as f64;
    (freedom > 0).then(|| (variance.sqrt(), freedom))
}
