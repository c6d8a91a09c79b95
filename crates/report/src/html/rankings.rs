//! The rankings as tables: rank, setup, score with its interval, and number of trials.

use crate::document::{RankRow, RankingTable, SetupRole};
use crate::markup::Element;
use crate::text::count_of;

use super::parts::{
    cell, column_head, heading, interval_text, number_cell, paragraph, row, scrolling, table,
};

/// How many setups are visible before the rest is unfolded.
const SHOWN_ROWS: usize = 10;

/// All rankings, folded: the charts and the matrix above show what matters of them.
pub(super) fn section(rankings: &[RankingTable]) -> Option<Element> {
    let first = rankings.first()?;
    let same_note = rankings.iter().all(|ranking| ranking.scale_note == first.scale_note);
    let summary = Element::new("summary").text(count_of(rankings.len(), "ranking"));
    let details = Element::new("details")
        .child(summary)
        .children(same_note.then(|| paragraph(&first.scale_note).class("scale")));
    let details = rankings.iter().fold(details, |details, ranking| {
        let (shown, folded) = split(&ranking.rows);
        details
            .child(Element::new("h3").text(&ranking.title))
            .children((!same_note).then(|| paragraph(&ranking.scale_note).class("scale")))
            .child(scrolling(&ranking.title, rank_table(ranking, &shown)))
            .children(fold(ranking, &folded))
    });
    Some(Element::new("section").child(heading("rankings", "Rankings")).child(details))
}

/// The visible and the folded rows. The baseline and the recommended setup are always visible, and
/// a single row is not folded.
fn split(rows: &[RankRow]) -> (Vec<&RankRow>, Vec<&RankRow>) {
    let (shown, folded): (Vec<_>, Vec<_>) = rows
        .iter()
        .enumerate()
        .partition(|(index, row)| *index < SHOWN_ROWS || row.role != SetupRole::Candidate);
    if folded.len() < 2 {
        return (rows.iter().collect(), Vec::new());
    }
    let rows_of = |rows: Vec<(usize, _)>| rows.into_iter().map(|(_, row)| row).collect();
    (rows_of(shown), rows_of(folded))
}

fn fold(ranking: &RankingTable, rows: &[&RankRow]) -> Option<Element> {
    (!rows.is_empty()).then(|| {
        let label = format!("{}: the other setups", ranking.title);
        Element::new("details")
            .child(Element::new("summary").text(count_of(rows.len(), "more setup")))
            .child(scrolling(&label, rank_table(ranking, rows)))
    })
}

fn rank_table(ranking: &RankingTable, rows: &[&RankRow]) -> Element {
    let spread = ranking.spread.heading();
    let heads = [("rank", true), ("setup", false), ("score", true), (spread.as_str(), true)];
    let growth = ranking.has_growth().then_some(("growth", true));
    let years = ranking.has_years().then_some(("years", true));
    let heads = heads
        .into_iter()
        .chain(growth)
        .chain([("n", true)])
        .chain(years)
        .chain([("note", false)])
        .map(|(title, number)| column_head(title, number));
    let rows = rows.iter().map(|row| rank_row(ranking, row)).collect();
    table(heads, rows)
}

fn rank_row(ranking: &RankingTable, entry: &RankRow) -> Element {
    let unit = ranking.unit;
    let interval = interval_text(unit, entry.low, entry.high, entry.trials);
    let growth = ranking.has_growth().then(|| number_cell(&entry.growth));
    let years = ranking.has_years().then(|| number_cell(&entry.years));
    let trials = number_cell(&entry.trials.to_string());
    let cells = [
        number_cell(&entry.rank.to_string()),
        cell(&entry.role.marked(&entry.setup)).class("name"),
        number_cell(&unit.show(entry.score)),
        number_cell(&interval),
    ];
    let note = cell(&entry.note).class("note");
    let marked = row(cells.into_iter().chain(growth).chain([trials]).chain(years).chain([note]));
    match entry.role.mark() {
        Some(mark) => marked.class(mark),
        None => marked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rankings_show_the_best_and_the_baseline() {
        let mut rows = vec![RankRow::default(); 30];
        rows[20].role = SetupRole::Baseline;
        let (shown, folded) = split(&rows);
        assert_eq!((shown.len(), folded.len()), (11, 19));
        assert_eq!(shown[10].role, SetupRole::Baseline);
        let (shown, folded) = split(&rows[..11]);
        assert_eq!((shown.len(), folded.len()), (11, 0));
    }
}
