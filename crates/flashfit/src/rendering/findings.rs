//! What was found beside the verdict, as tables: the front of throughput, latency, wear and safety,
//! what was measured how, and setups that are out.

use std::collections::BTreeMap;

use flashfit_bench::Steady;
use flashfit_filesystem::Setup;
use flashfit_report::{Finding, Kind};
use flashfit_tune::{Outcome, Purpose};

use super::RunView;

/// All that there are rows for.
pub fn findings(view: &RunView<'_>) -> Vec<Finding> {
    let all = [out(view), measuring(view)];
    all.into_iter().filter(|finding| !finding.rows.is_empty()).collect()
}

/// Setups that failed: they are out of the race.
fn out(view: &RunView<'_>) -> Finding {
    let mut finding = Finding::new(
        "Out of the race",
        "A trial of these setups failed; no more were made of them.",
        [("setup", Kind::Name), ("workload", Kind::Name), ("what it said", Kind::Remark)],
        0,
    );
    for trial in view.trials {
        if let Outcome::Failed { message } = &trial.outcome {
            finding.rows.push(vec![
                trial.key.setup.label(),
                trial.key.workload.clone(),
                message.clone(),
            ]);
        }
    }
    finding
}

/// What is known of the measuring, workload by workload.
fn measuring(view: &RunView<'_>) -> Finding {
    let mut finding = Finding::new(
        "Noise and steadiness",
        "The spread of whole trials of one setup under one workload (standard deviation), and how \
         many of the stages that were long enough were in a steady state, by fio's criterion \
         (bandwidth within 10 % of its mean) and by the SNIA's (range 20 %, slope 10 % over five \
         seconds).",
        [
            ("workload", Kind::Name),
            ("whole trials", Kind::Number),
            ("short trials", Kind::Number),
            ("spread", Kind::Number),
            ("steady (fio)", Kind::Number),
            ("steady (SNIA)", Kind::Number),
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
        let steady: Vec<Steady> = stages.collect();
        let told: Vec<bool> = steady.iter().filter_map(|steady| steady.snia).collect();
        let share = |yes: usize, of: usize| match of {
            0 => String::new(),
            _ => format!("{yes} of {of}"),
        };
        finding.rows.push(vec![
            workload.clone(),
            whole.to_string(),
            (of_it.len() - whole).to_string(),
            spread(view, workload).map_or_else(String::new, |sd| format!("{:.1} %", 100.0 * sd)),
            share(steady.iter().filter(|steady| steady.fio).count(), steady.len()),
            share(told.iter().filter(|yes| **yes).count(), told.len()),
        ]);
    }
    finding
}

/// The standard deviation of the logarithms of repeats, pooled over setups.
fn spread(view: &RunView<'_>, workload: &str) -> Option<f64> {
    let judge = view.header.spec.judge();
    let mut by_setup: BTreeMap<(&Setup, bool), Vec<f64>> = BTreeMap::new();
    for trial in view.trials {
        let key = &trial.key;
        if key.workload != workload || !key.length.is_full() {
            continue;
        }
        if let Ok(flashfit_search::Outcome::Measured { log_merit, .. }) = judge.outcome(trial) {
            let confirms = key.purpose == Purpose::Confirm;
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
    #[expect(clippy::cast_precision_loss, reason = "a run has few trials")]
    let variance = squares / freedom as f64;
    (freedom > 0).then(|| variance.sqrt())
}
