//! How much results depend on the state in which a workload starts: a finding, and a sentence for
//! the strongest dependence of each file system and workload.

use flashfit_bench::FigureKind;
use flashfit_report::{ColumnKind, FigureUnit, ReportFinding};
use flashfit_tune::Criterion;
use flashfit_tune::recommend::percent;
use flashfit_tune::start_effect::{KindEffect, StartEffect};
use flashfit_tune::starts;

use super::RunView;

const BYTES_PER_MB: f64 = 1e6;

/// Dependences that the verdict names.
const MOST_SENTENCES: usize = 3;

/// Each kind of start of each workload and file system where it matters.
pub fn finding(view: &RunView<'_>) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "What happened before matters",
        "Each trial starts in one of several kinds of states. The results of these workloads \
         depend on it by more than chance: the change from the mean of all kinds, from full trials. \
         The intervals of all gains allow for it.",
        [
            ("workload", ColumnKind::Name),
            ("file system", ColumnKind::Name),
            ("started", ColumnKind::Remark),
            ("change", ColumnKind::Number),
            ("result", ColumnKind::Number),
            ("trials", ColumnKind::Number),
        ],
        4,
    );
    for effect in &view.conclusion.start_effects {
        for kind in &effect.kinds {
            finding.rows.push(vec![
                effect.workload.clone(),
                effect.filesystem.clone(),
                title(view, &kind.kind),
                FigureUnit::PercentChange.show(percent(kind.log)),
                result(view, effect, kind).unwrap_or_default(),
                kind.trials.to_string(),
            ]);
        }
    }
    finding
}

/// `sync-files with ext4 depends on what was done before: 2.8 MB/s after a remount to 5.0 MB/s on a
/// new file system`.
pub fn sentences(view: &RunView<'_>) -> Vec<String> {
    let shown = view.conclusion.start_effects.iter().take(MOST_SENTENCES);
    shown.filter_map(|effect| sentence(view, effect)).collect()
}

fn sentence(view: &RunView<'_>, effect: &StartEffect) -> Option<String> {
    let (worst, best) = (effect.kinds.first()?, effect.kinds.last()?);
    let (low, high) = (title(view, &worst.kind), title(view, &best.kind));
    let StartEffect { workload, filesystem, .. } = effect;
    let begin = format!("{workload} with {filesystem} depends on what was done before");
    Some(match result(view, effect, worst).zip(result(view, effect, best)) {
        Some((slow, fast)) => format!("{begin}: {slow} {low}, {fast} {high}."),
        None => format!(
            "{begin}: {} better {high} than {low}.",
            FigureUnit::PercentChange.show(percent(effect.ratio()))
        ),
    })
}

fn title(view: &RunView<'_>, name: &str) -> String {
    let kinds = starts::kinds(&view.header.spec);
    kinds.iter().find(|kind| kind.name == name).map_or(name, |kind| &kind.title).to_owned()
}

/// The mean result of the file system's trials after such a start, where the run is about speed and
/// the workload has figures of one kind.
fn result(view: &RunView<'_>, effect: &StartEffect, kind: &KindEffect) -> Option<String> {
    if view.header.spec.by != Criterion::Throughput {
        return None;
    }
    let of_workload = view.trials.iter().filter(|trial| trial.key.workload == effect.workload);
    let stages = of_workload.filter_map(|trial| trial.points()).flatten();
    let kinds: Vec<FigureKind> =
        stages.flat_map(|point| &point.stages).map(|stage| stage.kind).collect();
    let first = *kinds.first()?;
    let rate = (effect.level + kind.log).exp();
    kinds.iter().all(|kind| *kind == first).then(|| match first {
        FigureKind::Throughput => format!("{:.1} MB/s", rate * 1024.0 / BYTES_PER_MB),
        FigureKind::Operations => format!("{rate:.0}/s"),
        FigureKind::Time => format!("{:.2} s", 1e6 / rate),
    })
}
