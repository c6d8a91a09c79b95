//! Setups that were not tried again: a trial of them failed, or too many lack the figure that the
//! run is ranked by.

use flashfit_report::{ColumnKind, ReportFinding};
use flashfit_tune::objective::SetupWithoutFigure;
use flashfit_tune::{Criterion, RecordedOutcome};

use super::RunView;

pub fn finding(view: &RunView<'_>) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Excluded setups",
        "These setups were not tried again: a trial of them failed, or too many of their trials \
         have no figure of what the run is ranked by.",
        [
            ("setup", ColumnKind::Name),
            ("workload", ColumnKind::Name),
            ("reason", ColumnKind::Remark),
        ],
        0,
    );
    let problem = &view.conclusion.problem;
    for found in &view.conclusion.setups_without_figure {
        let workload = problem.workloads[found.workload].clone();
        let by = view.header.spec.by;
        let label = problem.setups[found.candidate].label();
        finding.rows.push(vec![label, workload, without_figure(found, by)]);
    }
    for trial in view.trials {
        if let RecordedOutcome::Failed { message } = &trial.outcome {
            finding.rows.push(vec![
                trial.key.setup.label(),
                trial.key.workload.clone(),
                message.clone(),
            ]);
        }
    }
    finding
}

/// Why a setup without a failed trial was excluded.
fn without_figure(found: &SetupWithoutFigure, by: Criterion) -> String {
    let SetupWithoutFigure { lacking, completed, last, .. } = found;
    format!("{lacking} of {completed} trials have no figure of {by} (the last: {last})")
}

/// For a reader of the answer, that setups are excluded for lack of a figure; `None` if none is.
pub fn sentence(view: &RunView<'_>) -> Option<String> {
    let problem = &view.conclusion.problem;
    let mut setups: Vec<usize> =
        view.conclusion.setups_without_figure.iter().map(|found| found.candidate).collect();
    setups.dedup();
    let labels: Vec<String> = setups
        .into_iter()
        .map(|setup| {
            let label = problem.setups[setup].label();
            if setup == problem.space.baseline { format!("{label} (the baseline)") } else { label }
        })
        .collect();
    named(&labels, view.header.spec.by)
}

fn named(labels: &[String], by: Criterion) -> Option<String> {
    let verb = if labels.len() == 1 { "was" } else { "were" };
    (!labels.is_empty()).then(|| {
        format!(
            "{} {verb} not tried again, because too many trials have no figure of {by}.",
            labels.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use flashfit_tune::objective::NoFigure;

    use super::*;

    #[test]
    fn a_setup_without_figures_is_listed_with_its_reason() {
        let last = NoFigure::Wear { number: 17 };
        let found =
            SetupWithoutFigure { candidate: 3, workload: 1, lacking: 3, completed: 4, last };
        assert_eq!(
            without_figure(&found, Criterion::Wear),
            "3 of 4 trials have no figure of wear (the last: trial 17 has no count of what was \
             written to the device)"
        );
    }

    #[test]
    fn the_answer_names_setups_without_figures() {
        assert_eq!(named(&[], Criterion::Wear), None);
        let label = "ext4 (the baseline)".to_owned();
        assert_eq!(
            named(&[label], Criterion::Wear).as_deref(),
            Some(
                "ext4 (the baseline) was not tried again, because too many trials have no figure \
                 of wear."
            )
        );
    }
}
