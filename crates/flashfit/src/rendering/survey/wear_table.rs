//! How the wear of a card grew: a line for each reading of its counters.

use flashfit_host::calendar::day;
use flashfit_report::{Column, TextTable};
use flashfit_survey::{SourceKind, SurveyMetric};

use super::figure;
use super::one_card::{ResultRow, SourceRow};

/// What is shown of each reading.
const SHOWN: [(&str, SurveyMetric); 5] = [
    ("LIFE USED", SurveyMetric::LifeUsed),
    ("SPARES USED", SurveyMetric::SpareUsed),
    ("HOST WRITTEN", SurveyMetric::HostWritten),
    ("FLASH WRITTEN", SurveyMetric::FlashWritten),
    ("ERASES, MEAN", SurveyMetric::EraseCountMean),
];

/// The readings in their order, if there are any; of several counters of one quantity, the largest.
pub fn of_readings(sources: &[SourceRow], results: &[ResultRow]) -> Option<TextTable> {
    let is_reading = |source: &&SourceRow| source.kind == SourceKind::WearReading.name();
    let readings: Vec<&SourceRow> = sources.iter().filter(is_reading).collect();
    let largest = |source: &SourceRow, metric: SurveyMetric| {
        let rows = results.iter().filter(|row| row.address == source.address);
        let rows = rows.filter(|row| row.metric == metric.name());
        rows.max_by(|one, other| one.value.total_cmp(&other.value))
    };
    let shown: Vec<_> = SHOWN
        .into_iter()
        .filter(|(_, metric)| readings.iter().any(|source| largest(source, *metric).is_some()))
        .collect();
    if shown.is_empty() {
        return None;
    }
    let columns = shown.iter().map(|(title, _)| Column::number(title));
    let mut table = TextTable::new([Column::text("WEAR ON")].into_iter().chain(columns));
    for source in readings {
        let dash = || "-".to_owned();
        let cells = shown.iter().map(|(_, metric)| {
            largest(source, *metric).map_or_else(dash, |row| figure(row.value, &row.unit))
        });
        let date = source.created_unix_s.map_or_else(dash, day);
        table.row([date].into_iter().chain(cells));
    }
    Some(table)
}
