//! The methodology's tables: the best setups of each file system, for the device and by workload.

use flashfit_report::{RangeMeaning, RankRow, RankingTable, quantity::FigureUnit};
use flashfit_tune::Criterion;
use flashfit_tune::analysis::{self, Ranked};

use super::RunView;

/// All rankings by one merit, the best `top` setups of each, and the untuned one wherever it
/// stands.
pub fn rankings(view: &RunView<'_>, by: Criterion, top: usize) -> Vec<RankingTable> {
    let filesystems: Vec<String> =
        view.space.choices.iter().map(|choices| choices.filesystem.name.clone()).collect();
    analysis::rankings(&view.results, &filesystems, by)
        .into_iter()
        .filter(|ranking| !ranking.rows.is_empty())
        // Of a single workload the device's table says all.
        .filter(|ranking| ranking.workload.is_none() || view.workloads.len() > 1)
        .map(|ranking| RankingTable {
            title: title(&ranking),
            scale_note: scale_note(by).to_owned(),
            unit: FigureUnit::Number,
            spread: RangeMeaning::Interval(95),
            rows: rows(view, &ranking.rows, top),
        })
        .collect()
}

fn title(ranking: &analysis::Ranking) -> String {
    match &ranking.workload {
        Some(workload) => format!("{workload}, {}", ranking.filesystem),
        None => format!("The medium as a whole, {}", ranking.filesystem),
    }
}

fn scale_note(by: Criterion) -> &'static str {
    match by {
        Criterion::Throughput => {
            "Merit: 1000 ln(KiB/s), or of operations per second where files are made and removed, \
             averaged over the points; reads and writes add up. Higher is better; 10 more is 1 % \
             faster."
        }
        Criterion::Latency => "Merit: 1 / worst completion latency, in 1/s. Higher is better.",
        Criterion::Wear => {
            "Merit: bytes that the workload wrote by bytes that the medium programmed, or that were \
             written to it where it does not tell. Higher is better."
        }
    }
}

fn rows(view: &RunView<'_>, ranked: &[Ranked], top: usize) -> Vec<RankRow> {
    ranked
        .iter()
        .enumerate()
        .filter(|(place, row)| {
            *place < top || view.role(&row.setup) != flashfit_report::SetupRole::Candidate
        })
        .map(|(place, row)| row_of(view, place, row))
        .collect()
}

fn row_of(view: &RunView<'_>, place: usize, row: &Ranked) -> RankRow {
    let (low, high) = row.merit.interval.unwrap_or((f64::NAN, f64::NAN));
    RankRow {
        place: u32::try_from(place + 1).unwrap_or(u32::MAX),
        setup: row.setup.label(),
        role: view.role(&row.setup),
        merit: row.merit.middle,
        low,
        high,
        trials: u32::try_from(row.merit.count).unwrap_or(u32::MAX),
        note: if place > 0 && row.ties_with_first {
            "not told from #1".to_owned()
        } else {
            String::new()
        },
    }
}
