//! Variation within a product and between products, cell by cell.
//!
//! The sample of a product are its individual cards. Cards that cannot be distinguished, and
//! simulated cards, are one card each, so their products have no interval.

use std::collections::BTreeMap;

use super::cells::{CellTable, MeasuredWay};
use super::listed::ListedCard;
use super::statistics::LogSample;
use crate::database::ResultTable;
use crate::record::{MeasuredSetup, SurveyMeasure};

/// A product in a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedProduct {
    /// The index of a card of the product, which says what it is.
    pub example: usize,
    pub way: MeasuredWay,
    pub setup: MeasuredSetup,
    pub measure: SurveyMeasure,
    pub cards: usize,
    /// Sources with the figure.
    pub sources: usize,
    /// Logarithms of the cards' means.
    pub sample: LogSample,
    pub least: f64,
    pub most: f64,
    /// Logarithm of the ratio to the first product of the cell, with its 95 % interval.
    pub to_first: Option<(f64, Option<(f64, f64)>)>,
}

/// The figures of products; in each cell, the product with the most cards comes first.
pub fn compare(
    cards: &[ListedCard],
    results: &ResultTable,
    table: &CellTable,
) -> Vec<ComparedProduct> {
    let mut compared = Vec::new();
    for (cell, values) in &table.cells {
        let mut products: BTreeMap<Vec<String>, Vec<(usize, &Vec<f64>)>> = BTreeMap::new();
        for (card, logs) in values {
            products.entry(cards[*card].product_key()).or_default().push((*card, logs));
        }
        let mut rows: Vec<ComparedProduct> = Vec::new();
        for members in products.values() {
            let means: Vec<f64> =
                members.iter().filter_map(|(_, logs)| Some(LogSample::of(logs)?.mean)).collect();
            let Some(sample) = LogSample::of(&means) else { continue };
            rows.push(ComparedProduct {
                example: members[0].0,
                way: table.ways[cell.way].clone(),
                setup: results.setups[cell.setup].clone(),
                measure: results.measures[cell.measure].clone(),
                cards: means.len(),
                sources: members.iter().map(|(_, logs)| logs.len()).sum(),
                sample,
                least: means.iter().copied().fold(f64::INFINITY, f64::min),
                most: means.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                to_first: None,
            });
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.cards));
        let first = rows.first().map(|row| row.sample);
        for row in rows.iter_mut().skip(1) {
            row.to_first = first.map(|first| row.sample.minus(&first));
        }
        compared.extend(rows);
    }
    compared
}
