//! Variation within a product and between products, cell by cell.
//!
//! The sample of a product are its individual cards. Cards that cannot be distinguished, and
//! simulated cards, are one card each, so their products have no interval. Speeds and latencies
//! are compared by their logarithms, all else, which can be 0, by arithmetic means.
//!
//! Limit: the mean of few shares has an interval that is at least as wide as Wilson's of all power
//! cuts together; of other figures, cards that are all equal show no variation and no interval.

use std::collections::BTreeMap;

use super::cells::{CellFigure, CellTable, MeasuredWay};
use super::listed::ListedCard;
use super::statistics::{FigureSample, interval_of_difference, wilson};
use crate::database::ResultTable;
use crate::metric::MetricScale;
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
    /// How many of them others measured.
    pub bundled: usize,
    /// Sources with the figure.
    pub sources: usize,
    /// On what scale the following figures are.
    pub scale: MetricScale,
    /// The cards' means.
    pub sample: FigureSample,
    /// The 95 % interval of their mean.
    pub interval: Option<(f64, f64)>,
    pub least: f64,
    pub most: f64,
    /// Difference to the first product of the cell, with its 95 % interval.
    pub to_first: Option<(f64, Option<(f64, f64)>)>,
}

impl ComparedProduct {
    /// The standard deviation of the cards in percent of their mean.
    pub fn variation_percent(&self) -> Option<f64> {
        let deviation = self.sample.deviation?;
        match self.scale {
            MetricScale::Logarithmic => Some(deviation.exp_m1() * 100.0),
            MetricScale::Linear | MetricScale::Share => {
                (self.sample.mean > 0.0).then(|| deviation / self.sample.mean * 100.0)
            }
        }
    }

    fn minus(&self, first: &Self) -> (f64, Option<(f64, f64)>) {
        if self.scale == MetricScale::Logarithmic {
            return self.sample.minus(&first.sample);
        }
        let intervals = self.interval.zip(first.interval);
        let (own, other) = (self.sample.mean, first.sample.mean);
        let interval = intervals.map(|(own_interval, other_interval)| {
            interval_of_difference((own, own_interval), (other, other_interval))
        });
        (own - other, interval)
    }
}

/// The figures of products; in each cell, the product with the most cards comes first.
pub fn compare(
    cards: &[ListedCard],
    results: &ResultTable,
    table: &CellTable,
) -> Vec<ComparedProduct> {
    let mut compared = Vec::new();
    for (cell, values) in &table.cells {
        let measure = &results.measures[cell.measure];
        let scale = scale(&measure.metric, values.values().flatten());
        let mut products: BTreeMap<Vec<String>, Vec<(usize, &Vec<CellFigure>)>> = BTreeMap::new();
        for (card, figures) in values {
            products.entry(cards[*card].product_key()).or_default().push((*card, figures));
        }
        let mut rows: Vec<ComparedProduct> = Vec::new();
        for members in products.values() {
            let (of, means): (Vec<usize>, Vec<f64>) = members
                .iter()
                .filter_map(|(card, figures)| Some((*card, mean(scale, figures)?)))
                .unzip();
            let Some(sample) = FigureSample::of(&means) else { continue };
            let all = members.iter().flat_map(|(_, figures)| figures.iter());
            rows.push(ComparedProduct {
                example: members[0].0,
                way: table.ways[cell.way].clone(),
                setup: results.setups[cell.setup].clone(),
                measure: measure.clone(),
                cards: means.len(),
                bundled: of.iter().filter(|card| cards[**card].is_bundled()).count(),
                sources: members.iter().map(|(_, figures)| figures.len()).sum(),
                scale,
                sample,
                interval: interval(scale, &sample, all),
                least: means.iter().copied().fold(f64::INFINITY, f64::min),
                most: means.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                to_first: None,
            });
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.cards));
        if let Some((first, others)) = rows.split_first_mut() {
            for row in others {
                row.to_first = Some(row.minus(first));
            }
        }
        compared.extend(rows);
    }
    compared
}

/// The scale of a cell: figures without a logarithm are compared as they are.
fn scale<'a>(metric: &str, mut figures: impl Iterator<Item = &'a CellFigure>) -> MetricScale {
    match MetricScale::of(metric) {
        MetricScale::Logarithmic if figures.any(|figure| figure.value <= 0.0) => {
            MetricScale::Linear
        }
        scale => scale,
    }
}

/// The mean of one card, on the scale. Shares of several campaigns are that of all power cuts.
fn mean(scale: MetricScale, figures: &[CellFigure]) -> Option<f64> {
    let values = figures.iter().map(|figure| figure.value);
    let plain = |values: Vec<f64>| Some(FigureSample::of(&values)?.mean);
    match scale {
        MetricScale::Logarithmic => plain(values.map(f64::ln).collect()),
        MetricScale::Linear => plain(values.collect()),
        MetricScale::Share => match pooled(figures.iter()) {
            Some((share, _)) => Some(share),
            None => plain(values.collect()),
        },
    }
}

/// The share of all repeats, and their number.
fn pooled<'a>(figures: impl Iterator<Item = &'a CellFigure>) -> Option<(f64, f64)> {
    let add = |(part, all): (f64, f64), figure: &CellFigure| {
        let count = f64::from(figure.count);
        (part + figure.value * count, all + count)
    };
    let (part, all) = figures.fold((0.0, 0.0), add);
    (all > 0.0).then(|| ((part / all).clamp(0.0, 1.0), all))
}

fn interval<'a>(
    scale: MetricScale,
    sample: &FigureSample,
    figures: impl Iterator<Item = &'a CellFigure>,
) -> Option<(f64, f64)> {
    let (low, high) = sample.interval()?;
    match scale {
        MetricScale::Logarithmic => Some((low, high)),
        MetricScale::Linear => (low < high).then_some((low.max(0.0), high)),
        MetricScale::Share => {
            let (share, count) = pooled(figures)?;
            let (least, most) = wilson(share, count);
            Some((low.clamp(0.0, least), high.clamp(most, 1.0)))
        }
    }
}
