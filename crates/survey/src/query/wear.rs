//! The wear of cards: what the latest reading of their counters shows.
//!
//! Limit: life used is what the device claims, in its own steps; eMMC chips count in tenths.

use super::listed::ListedCard;
use crate::database::ResultTable;
use crate::metric::SurveyMetric;
use crate::record::SourceKind;

/// Adds to each individual card the life that its latest reading shows as used: the largest of
/// those of several areas.
pub fn add_life_used(cards: &mut [ListedCard], results: &ResultTable) {
    let name = SurveyMetric::LifeUsed.name();
    for listed in cards.iter_mut().filter(|listed| listed.card.is_individual) {
        let sources = listed.card.sources.iter();
        let readings = sources.filter(|source| source.kind == SourceKind::WearReading.name());
        // Sources are sorted by date.
        listed.life_used = readings.rev().find_map(|source| {
            let rows = results.of_source(source.id).iter();
            let lives = rows.filter(|row| results.measures[row.measure].metric == name);
            lives.map(|row| row.value.value).max_by(f64::total_cmp)
        });
    }
}
