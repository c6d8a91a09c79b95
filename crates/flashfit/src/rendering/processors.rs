//! How far the figures of a run are the processors' and how far the device's: what another stand or
//! another board would rank otherwise.

use flashfit_report::{ColumnKind, ReportFinding};
use flashfit_tune::stats;

use super::RunView;

/// How busy the processors were under each workload on each file system, the busiest first.
pub fn finding(view: &RunView<'_>) -> ReportFinding {
    let processors = view.header.facts.processors;
    let busy = format!("busy, of {processors}");
    let explanation = format!(
        "The share of time in which the processors worked while workloads were measured (median of \
         trials), whatever else they did meanwhile included; the stand is `{}`. A figure with a \
         low share is rather the medium's; the higher the share, the more it is these \
         processors', so that setups may rank otherwise on another stand or board.",
        view.header.facts.stand
    );
    let mut finding = ReportFinding::new(
        "Processor or medium",
        &explanation,
        [
            ("workload", ColumnKind::Name),
            ("file system", ColumnKind::Name),
            ("trials", ColumnKind::Number),
            (&busy, ColumnKind::Number),
        ],
        0,
    );
    let mut shares: Vec<(f64, &str, &str, usize)> = Vec::new();
    for workload in view.results.workloads() {
        for filesystem in &view.header.spec.filesystems {
            let of_both = view.trials.iter().filter(|trial| {
                trial.key.workload == *workload && trial.key.setup.filesystem == *filesystem
            });
            let found: Vec<f64> =
                of_both.filter_map(|trial| trial.processor.and_then(|time| time.share())).collect();
            if let Some(median) = stats::median(&found) {
                shares.push((median, workload, filesystem, found.len()));
            }
        }
    }
    shares.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (share, workload, filesystem, trials) in shares {
        finding.rows.push(vec![
            workload.to_owned(),
            filesystem.to_owned(),
            trials.to_string(),
            format!("{:.0} %", 100.0 * share),
        ]);
    }
    finding
}
