//! The methodology's tables: the best setups of each file system, for the device and by workload.

use flashfit_report::{RangeMeaning, RankRow, RankingTable, quantity::FigureUnit};
use flashfit_tune::Criterion;
use flashfit_tune::analysis::{self, Ranked};

use super::answer::hundredths;
use super::{RunView, matrix};

/// A ranking as it is shown.
pub struct ShownRanking {
    pub table: RankingTable,
    /// What it is of; its rows are those of the table.
    pub ranking: analysis::Ranking,
}

/// All rankings by one criterion: the best `top` setups of each file system and the baseline.
pub fn rankings(view: &RunView<'_>, by: Criterion, top: usize) -> Vec<RankingTable> {
    shown_rankings(view, by, top).into_iter().map(|shown| shown.table).collect()
}

/// The same with the setups. The table of a single workload, which would repeat that of the device,
/// is left out.
pub fn shown_rankings(view: &RunView<'_>, by: Criterion, top: usize) -> Vec<ShownRanking> {
    let all = analysis::rankings(&view.results, &filesystems(view), by).into_iter();
    all.filter(|ranking| !ranking.rows.is_empty())
        .filter(|ranking| ranking.workload.is_none() || view.workloads.len() > 1)
        .map(|ranking| shown(view, ranking, top))
        .collect()
}

/// The best setups of all file systems; `None` if there is one file system, or no trial.
pub fn overall(view: &RunView<'_>, by: Criterion, top: usize) -> Option<ShownRanking> {
    let ranking = analysis::overall(&view.results, by);
    let is_shown = view.space.choices.len() > 1 && !ranking.rows.is_empty();
    is_shown.then(|| shown(view, ranking, top))
}

fn shown(view: &RunView<'_>, mut ranking: analysis::Ranking, top: usize) -> ShownRanking {
    let rows = rows(view, &ranking, top);
    let table = RankingTable {
        title: title(&ranking),
        scale_note: scale_note(ranking.by),
        unit: FigureUnit::Number,
        spread: RangeMeaning::Interval(95),
        rows,
    };
    let mut index = 0;
    ranking.rows.retain(|row| {
        index += 1;
        is_shown(view, index - 1, row, top)
    });
    ShownRanking { table, ranking }
}

pub fn filesystems(view: &RunView<'_>) -> Vec<String> {
    view.space.choices.iter().map(|choices| choices.filesystem.name.clone()).collect()
}

fn title(ranking: &analysis::Ranking) -> String {
    let filesystem = ranking.filesystem.as_str();
    match &ranking.workload {
        Some(workload) => format!("{workload}, {filesystem}"),
        None => format!("All workloads, {filesystem}"),
    }
}

/// The figure of wear; more is better.
pub(super) const WEAR_FIGURE: &str = "bytes written by the workload / bytes programmed by the \
                                      device, or bytes written to a device that does not report \
                                      those";

/// What all scores have in common.
const SCORES: &str = "The score of all workloads is the sum of theirs. Higher is better. Growth: the \
                      mean change from the baseline, over the workloads by their weights; if the \
                      two disagree, growth decides. It is of all full-length trials, so it can \
                      differ from the gain of the verdict, which is of fresh trials. Setups \
                      measured once come after the others, whatever their score.";

fn scale_note(by: Criterion) -> String {
    let score = match by {
        Criterion::Throughput => {
            "1000 ln(KiB/s), or 1000 ln(operations/s) for workloads that create and delete \
             files, averaged over the points; reads, writes and stages are added"
        }
        Criterion::Latency => "1 / worst completion latency, in 1/s",
        Criterion::Wear => WEAR_FIGURE,
    };
    format!("Score: {score}. {SCORES}")
}

fn rows(view: &RunView<'_>, ranking: &analysis::Ranking, top: usize) -> Vec<RankRow> {
    let growth = |row: &Ranked| {
        let workload = ranking.workload.as_deref();
        let growth = matrix::growth(view, &row.setup, workload, ranking.by);
        let percent = growth.map(|growth| hundredths(growth) as f64 / 100.0);
        percent.map_or_else(String::new, |percent| FigureUnit::PercentChange.show(percent))
    };
    ranking
        .rows
        .iter()
        .enumerate()
        .filter(|(index, row)| is_shown(view, *index, row, top))
        .map(|(index, row)| RankRow { growth: growth(row), ..row_of(view, index, row) })
        .collect()
}

fn is_shown(view: &RunView<'_>, index: usize, row: &Ranked, top: usize) -> bool {
    index < top || view.role(&row.setup) != flashfit_report::SetupRole::Candidate
}

fn row_of(view: &RunView<'_>, index: usize, row: &Ranked) -> RankRow {
    let (low, high) = row.merit.interval.unwrap_or((f64::NAN, f64::NAN));
    RankRow {
        rank: u32::try_from(index + 1).unwrap_or(u32::MAX),
        setup: row.setup.label(),
        role: view.role(&row.setup),
        score: row.merit.middle,
        low,
        high,
        growth: String::new(),
        trials: u32::try_from(row.merit.count).unwrap_or(u32::MAX),
        years: super::life::of_setup(view, &row.setup).map_or_else(String::new, super::life::cell),
        note: match row.merit.interval {
            None => "measured once".to_owned(),
            Some(_) if index > 0 && row.ties_with_first => "tied with #1".to_owned(),
            Some(_) => String::new(),
        },
    }
}
