//! Workloads by file systems: how much better the best setup of each file system is than the
//! baseline. The best of several setups is a little too good, as the choice favors luck.

use flashfit_filesystem::Setup;
use flashfit_report::{ColumnKind, ReportFinding};
use flashfit_tune::Criterion;
use flashfit_tune::analysis;
use schemars::JsonSchema;
use serde::Serialize;

use super::RunView;
use super::answer::hundredths;
use super::rankings::filesystems;

/// A line of the matrix as JSON.
#[derive(Debug, JsonSchema, Serialize)]
pub struct MatrixRow {
    /// `null` for all workloads together.
    workload: Option<String>,
    cells: Vec<MatrixCell>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct MatrixCell {
    filesystem: String,
    /// The best setup; `null` if none was measured.
    setup: Option<Setup>,
    /// How much better than the baseline; `null` if that was not measured.
    growth_percent_hundredths: Option<i64>,
    trials: usize,
}

/// How much better a setup is than the baseline, as a logarithm.
pub fn growth(
    view: &RunView<'_>,
    setup: &Setup,
    workload: Option<&str>,
    by: Criterion,
) -> Option<f64> {
    let baseline = view.space.baseline()?;
    let weight = |name: &str| view.header.spec.weight(name);
    analysis::growth(&view.results, (setup, &baseline), workload, by, weight)
}

pub fn rows(view: &RunView<'_>, by: Criterion) -> Vec<MatrixRow> {
    let names = filesystems(view);
    let matrix = analysis::matrix(&view.results, &names, by).into_iter();
    matrix
        .map(|(workload, best)| {
            let cells = names.iter().zip(best).map(|(filesystem, best)| {
                let growth = |best: &analysis::Ranked| {
                    growth(view, &best.setup, workload.as_deref(), by).map(hundredths)
                };
                MatrixCell {
                    filesystem: filesystem.clone(),
                    growth_percent_hundredths: best.as_ref().and_then(growth),
                    trials: best.as_ref().map_or(0, |best| best.merit.count),
                    setup: best.map(|best| best.setup),
                }
            });
            MatrixRow { cells: cells.collect(), workload }
        })
        .collect()
}

/// The matrix as a table; without rows if there is nothing to compare.
pub fn finding(view: &RunView<'_>, by: Criterion) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Best setup of each file system against the baseline (* best of the row, unless it is worse)",
        "The change from the baseline, for the best measured setup.",
        [("workload", ColumnKind::Name)],
        usize::MAX,
    );
    let rows = rows(view, by);
    if rows.len() < 2 && filesystems(view).len() < 2 {
        return finding;
    }
    finding.columns.extend(filesystems(view).into_iter().map(|name| (name, ColumnKind::Number)));
    for row in rows {
        let best = row.cells.iter().filter_map(|cell| cell.growth_percent_hundredths).max();
        let best = best.filter(|growth| *growth >= 0);
        let cell = |cell: &MatrixCell| match cell.growth_percent_hundredths {
            None => "–".to_owned(),
            growth @ Some(hundredths) => {
                let percent = hundredths as f64 / 100.0;
                let shown = flashfit_report::FigureUnit::PercentChange.show(percent);
                if growth == best { format!("{shown} *") } else { shown }
            }
        };
        let name = row.workload.clone().unwrap_or_else(|| "all".to_owned());
        finding.rows.push(std::iter::once(name).chain(row.cells.iter().map(cell)).collect());
    }
    finding
}
