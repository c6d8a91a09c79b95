//! The rankings of a run as JSON.

use flashfit_tune::Criterion;
use flashfit_tune::analysis::Ranked;
use schemars::JsonSchema;
use serde::Serialize;

use super::RunView;
use super::answer::hundredths;
use super::head_to_head::{self, HeadToHeadParts};
use super::life::YearsPart;
use super::matrix::{self, MatrixRow};
use super::rankings::ShownRanking;
use super::setup_figures::{self, SetupFigures};

#[derive(JsonSchema, Serialize)]
pub struct RankingsDocument {
    /// What setups are ranked by.
    by: Criterion,
    /// All file systems together, then each; for the device, then for each workload.
    rankings: Vec<Table>,
    /// The best setup of each file system under each workload.
    matrix: Vec<MatrixRow>,
    setups: Vec<SetupFigures>,
    /// The finalists and the baseline compared with each other.
    head_to_head: Vec<HeadToHeadParts>,
}

#[derive(JsonSchema, Serialize)]
struct Table {
    title: String,
    /// `null` for all workloads together.
    workload: Option<String>,
    /// `null` for all file systems together.
    filesystem: Option<String>,
    rows: Vec<RankingRow>,
}

/// Merits in thousandths.
#[derive(JsonSchema, Serialize)]
struct RankingRow {
    place: u32,
    setup: String,
    filesystem: String,
    options: Vec<String>,
    scheduler: String,
    /// `null` for all workloads together.
    workload: Option<String>,
    /// `baseline`, `recommended` or `candidate`.
    role: &'static str,
    /// How much better than the baseline; `null` if either was not measured.
    growth_percent_hundredths: Option<i64>,
    merit_thousandths: i64,
    low_thousandths: Option<i64>,
    high_thousandths: Option<i64>,
    trials: u32,
    /// With a usage model.
    #[serde(flatten)]
    life: Option<YearsPart>,
    note: String,
}

pub fn document(view: &RunView<'_>, rankings: &[ShownRanking], by: Criterion) -> RankingsDocument {
    RankingsDocument {
        by,
        rankings: rankings.iter().map(|ranking| table(view, ranking)).collect(),
        matrix: matrix::rows(view, by),
        setups: setup_figures::of(view),
        head_to_head: head_to_head::of_finalists(&view.conclusion),
    }
}

fn table(view: &RunView<'_>, shown: &ShownRanking) -> Table {
    let lives = super::life::by_label(view);
    let ShownRanking { table, ranking } = shown;
    let workload = ranking.workload.as_deref();
    let rows = table.rows.iter().zip(&ranking.rows).map(|(row, Ranked { setup, .. })| RankingRow {
        place: row.rank,
        setup: row.setup.clone(),
        filesystem: setup.filesystem.clone(),
        options: setup.options.clone(),
        scheduler: setup.scheduler.to_string(),
        workload: ranking.workload.clone(),
        role: row.role.mark().unwrap_or("candidate"),
        growth_percent_hundredths: matrix::growth(view, setup, workload, ranking.by)
            .map(hundredths),
        merit_thousandths: thousandths(row.score).unwrap_or_default(),
        low_thousandths: thousandths(row.low),
        high_thousandths: thousandths(row.high),
        trials: row.trials,
        life: lives.get(&row.setup).map(|life| YearsPart::from(*life)),
        note: row.note.clone(),
    });
    let (workload, filesystem) =
        (ranking.workload.clone(), ranking.filesystem.name().map(str::to_owned));
    Table { title: table.title.clone(), workload, filesystem, rows: rows.collect() }
}

fn thousandths(value: f64) -> Option<i64> {
    value.is_finite().then(|| (value * 1000.0).round() as i64)
}
