//! What can be compared: the same measure of the same setup, measured in the same way.
//!
//! Kernel, machine, test bed and the conditions of a run belong to a cell, because a card is not
//! slower for having been measured on another machine.

use std::collections::BTreeMap;

use super::listed::ListedCard;
use crate::database::{ResultTable, StoredResult, StoredSource};
use crate::metric::SurveyMetric;
use crate::record::SourceKind;

/// How a figure was measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MeasuredWay {
    pub source_kind: String,
    pub conditions: String,
    pub kernel: String,
    pub machine: String,
    pub processors: Option<u64>,
    pub test_bed: String,
}

impl MeasuredWay {
    pub fn of(source: &StoredSource) -> Self {
        Self {
            source_kind: source.kind.clone(),
            conditions: source.conditions.clone(),
            kernel: source.kernel.clone(),
            machine: source.machine.clone(),
            processors: source.processors,
            test_bed: source.test_bed.clone(),
        }
    }
}

/// Indexes of way, setup and measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SurveyCell {
    pub way: usize,
    pub setup: usize,
    pub measure: usize,
}

/// A figure of a source, and how many repeats it is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellFigure {
    pub value: f64,
    pub count: u32,
}

/// Figures by cell and card; of several sources of one card, each once.
#[derive(Debug, Default)]
pub struct CellTable {
    pub ways: Vec<MeasuredWay>,
    /// For each cell, the index of a card and its figures.
    pub cells: BTreeMap<SurveyCell, BTreeMap<usize, Vec<CellFigure>>>,
}

/// Whether a setup and a measure of a source are wanted.
type Wants<'a> = &'a dyn Fn(&ListedCard, &StoredSource, usize, usize) -> bool;

impl CellTable {
    /// The figures of these cards, as far as `wants` a setup and a measure of a source.
    pub fn of(cards: &[ListedCard], results: &ResultTable, wants: Wants<'_>) -> Self {
        let mut ways: BTreeMap<MeasuredWay, usize> = BTreeMap::new();
        let mut table = Self::default();
        for (card, listed) in cards.iter().enumerate() {
            for source in &listed.card.sources {
                let next = ways.len();
                let way = *ways.entry(MeasuredWay::of(source)).or_insert(next);
                // A counter grows, so the state of a card is its latest reading. Sources are
                // sorted by date.
                let is_state =
                    source.kind == SourceKind::WearReading.name() && listed.card.is_individual;
                for row in results.of_source(source.id) {
                    let is_wanted = row.value.value.is_finite()
                        && wants(listed, source, row.setup, row.measure);
                    if is_wanted {
                        let cell = SurveyCell { way, setup: row.setup, measure: row.measure };
                        let cards = table.cells.entry(cell).or_default();
                        let figures = cards.entry(card).or_default();
                        if is_state {
                            figures.clear();
                        }
                        let (value, count) = (row.value.value, row.value.count);
                        figures.push(CellFigure { value, count });
                    }
                }
            }
        }
        table.add_clean_campaigns(cards, results, (&ways, wants));
        let mut sorted: Vec<(MeasuredWay, usize)> = ways.into_iter().collect();
        sorted.sort_by_key(|(_, index)| *index);
        table.ways = sorted.into_iter().map(|(way, _)| way).collect();
        table
    }

    /// Campaigns of power cuts have rows only of the oracles that found something. One in which
    /// an oracle found nothing counts as 0 where others have a figure of that oracle.
    fn add_clean_campaigns(
        &mut self,
        cards: &[ListedCard],
        results: &ResultTable,
        (ways, wants): (&BTreeMap<MeasuredWay, usize>, Wants<'_>),
    ) {
        let metric = |measure: usize| results.measures[measure].metric.as_str();
        let is_failure = |measure| metric(measure) == SurveyMetric::FailedCuts.name();
        let cells: Vec<SurveyCell> =
            self.cells.keys().filter(|cell| is_failure(cell.measure)).copied().collect();
        if cells.is_empty() {
            return;
        }
        for (card, listed) in cards.iter().enumerate() {
            for source in &listed.card.sources {
                let rows = results.of_source(source.id);
                let way = ways[&MeasuredWay::of(source)];
                let cuts = |cell: &SurveyCell| {
                    let is_of_cell = |measure: usize| {
                        metric(measure) == SurveyMetric::PowerCuts.name()
                            && results.measures[measure].workload
                                == results.measures[cell.measure].workload
                    };
                    rows.iter().find(|row| row.setup == cell.setup && is_of_cell(row.measure))
                };
                for cell in cells.iter().filter(|cell| cell.way == way) {
                    let is_there =
                        |row: &StoredResult| row.setup == cell.setup && row.measure == cell.measure;
                    let Some(cuts) = cuts(cell) else { continue };
                    if !rows.iter().any(is_there) && wants(listed, source, cell.setup, cell.measure)
                    {
                        let count = cuts.value.value.clamp(0.0, f64::from(u32::MAX)) as u32;
                        let figures = self.cells.entry(*cell).or_default().entry(card).or_default();
                        figures.push(CellFigure { value: 0.0, count });
                    }
                }
            }
        }
    }
}
