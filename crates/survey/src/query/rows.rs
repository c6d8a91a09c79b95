//! Filters of results, by columns of the card, of the source, and of what was measured.

use super::filter::{ColumnValue, RowFilter};
use super::listed::ListedCard;
use crate::database::{ResultTable, StoredSource};
use crate::error::SurveyError;

/// The columns that are not of the card.
const OWN: [&str; 15] = [
    "source_kind",
    "address",
    "created_unix_s",
    "kernel",
    "machine",
    "test_bed",
    "firmware",
    "conditions",
    "filesystem",
    "options",
    "scheduler",
    "metric",
    "workload",
    "stage",
    "direction",
];

/// Conditions on results.
#[derive(Debug, Clone, Default)]
pub struct ResultFilters(Vec<RowFilter>);

impl ResultFilters {
    /// All columns.
    pub fn columns() -> Vec<&'static str> {
        ListedCard::COLUMNS.iter().chain(&OWN).copied().collect()
    }

    /// # Errors
    /// If a text is not a condition on one of the columns.
    pub fn parse(texts: &[String]) -> Result<Self, SurveyError> {
        let columns = Self::columns();
        let filters = texts.iter().map(|text| RowFilter::parse(text, &columns));
        filters.collect::<Result<_, _>>().map(Self)
    }

    /// Whether one of them is on this column.
    pub fn has(&self, column: &str) -> bool {
        self.0.iter().any(|filter| filter.column() == column)
    }

    /// Whether a result matches, of this setup and measure of the table.
    pub fn matches(
        &self,
        card: &ListedCard,
        source: &StoredSource,
        (results, setup, measure): (&ResultTable, usize, usize),
    ) -> bool {
        let text = |text: &str| (!text.is_empty()).then(|| ColumnValue::Text(text.to_owned()));
        let (setup, measure) = (&results.setups[setup], &results.measures[measure]);
        let value = |column: &str| match column {
            "source_kind" => text(&source.kind),
            "address" => text(&source.address),
            "created_unix_s" => source.created_unix_s.map(|at| ColumnValue::Number(at as f64)),
            "kernel" => text(&source.kernel),
            "machine" => text(&source.machine),
            "test_bed" => text(&source.test_bed),
            "firmware" => text(&source.firmware),
            "conditions" => text(&source.conditions),
            "filesystem" => text(&setup.filesystem),
            "options" => text(&setup.options),
            "scheduler" => text(&setup.scheduler),
            "metric" => text(&measure.metric),
            "workload" => text(&measure.workload),
            "stage" => text(&measure.stage),
            "direction" => text(&measure.direction),
            other => card.column(other),
        };
        self.0.iter().all(|filter| filter.matches(value(filter.column()).as_ref()))
    }
}
