//! Whether the results depend on the processors or on the device: with a high processor load,
//! another test bed or board may rank setups differently.

use flashfit_report::{ColumnKind, ReportFinding};
use flashfit_tune::stats;

use super::RunView;

/// The processor load of each workload on each file system, the highest first.
pub fn finding(view: &RunView<'_>) -> ReportFinding {
    let processors = view.header.facts.processors;
    let busy = format!("busy, of {processors}");
    let explanation = format!(
        "The processor load during measurements (median of trials), other work included; the test \
         bed is `{}`. With a low load, results depend on the device. With a high load, they depend \
         on these processors, and another test bed or board may rank setups differently.",
        view.header.facts.test_bed
    );
    let mut finding = ReportFinding::new(
        "Processor load",
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
