//! What can be compared: the same measure of the same setup, measured in the same way.
//!
//! Kernel, machine, test bed and the conditions of a run belong to a cell, because a card is not
//! slower for having been measured on another machine.

use std::collections::BTreeMap;

use super::listed::ListedCard;
use crate::database::{ResultTable, StoredSource};

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

/// The logarithms of figures by cell and card; of several sources of one card, each once.
#[derive(Debug, Default)]
pub struct CellTable {
    pub ways: Vec<MeasuredWay>,
    /// For each cell, the index of a card and its figures.
    pub cells: BTreeMap<SurveyCell, BTreeMap<usize, Vec<f64>>>,
}

impl CellTable {
    /// The figures of these cards, as far as `wants` a setup and a measure of a source.
    pub fn of(
        cards: &[ListedCard],
        results: &ResultTable,
        wants: &dyn Fn(&ListedCard, &StoredSource, usize, usize) -> bool,
    ) -> Self {
        let mut ways: BTreeMap<MeasuredWay, usize> = BTreeMap::new();
        let mut table = Self::default();
        for (card, listed) in cards.iter().enumerate() {
            for source in &listed.card.sources {
                let next = ways.len();
                let way = *ways.entry(MeasuredWay::of(source)).or_insert(next);
                for row in results.of_source(source.id) {
                    let log = row.value.value.ln();
                    if log.is_finite() && wants(listed, source, row.setup, row.measure) {
                        let cell = SurveyCell { way, setup: row.setup, measure: row.measure };
                        let cards = table.cells.entry(cell).or_default();
                        cards.entry(card).or_default().push(log);
                    }
                }
            }
        }
        let mut sorted: Vec<(MeasuredWay, usize)> = ways.into_iter().collect();
        sorted.sort_by_key(|(_, index)| *index);
        table.ways = sorted.into_iter().map(|(way, _)| way).collect();
        table
    }
}
