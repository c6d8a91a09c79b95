//! What most products have in common: ways of measuring, a setup and measures. Only figures that
//! were measured in the same way are in one table or chart.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_report::DotEmphasis;
use flashfit_search::student;
use flashfit_survey::query::cells::SurveyCell;

use crate::SiteData;
use crate::constants::ERROR;
use crate::figures::ProductFigure;
use crate::product::SiteProduct;

/// Workloads that a reader looks for first.
const FIRST: [&str; 4] = ["linear-write", "random-write", "linear-read", "random-read"];

/// A way of measuring, with the setup and the measures that most of these products have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedWay {
    pub way: usize,
    pub setup: usize,
    /// Of this setup, those of the most products first.
    pub measures: Vec<usize>,
    pub products: usize,
    pub cards: usize,
}

impl SharedWay {
    pub fn cell(&self, measure: usize) -> SurveyCell {
        SurveyCell { way: self.way, setup: self.setup, measure }
    }
}

/// What is found of one way.
#[derive(Default)]
struct Found {
    products: BTreeSet<usize>,
    cards: BTreeSet<usize>,
    /// By setup and measure, the products.
    setups: BTreeMap<usize, BTreeMap<usize, BTreeSet<usize>>>,
}

/// The ways in which these products were measured by this metric, that of the most cards first.
pub fn ways(data: &SiteData<'_>, products: &[&SiteProduct], metric: &str) -> Vec<SharedWay> {
    let mut ways: BTreeMap<usize, Found> = BTreeMap::new();
    let measures = &data.results.measures;
    for product in products {
        let cells = data.figures.cells(product);
        for (cell, cards) in cells.filter(|(cell, _)| measures[cell.measure].metric == metric) {
            let found = ways.entry(cell.way).or_default();
            found.products.insert(product.index);
            found.cards.extend(cards.keys());
            let of_setup = found.setups.entry(cell.setup).or_default();
            of_setup.entry(cell.measure).or_default().insert(product.index);
        }
    }
    let mut shared: Vec<SharedWay> = ways
        .into_iter()
        .map(|(way, found)| {
            let covered = |measures: &BTreeMap<usize, BTreeSet<usize>>| {
                measures.values().map(BTreeSet::len).sum::<usize>()
            };
            let is_default = |setup: &usize| {
                let setup = &data.results.setups[*setup];
                (setup.options.is_empty(), setup.filesystem == "ext4")
            };
            let (setup, covered) = found
                .setups
                .iter()
                .max_by_key(|(setup, measures)| {
                    (covered(measures), is_default(setup), std::cmp::Reverse(**setup))
                })
                .expect("a way was found with a setup");
            let first = |measure: &usize| {
                let name = measures[*measure].workload.as_str();
                FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len())
            };
            let mut order: Vec<(&usize, &BTreeSet<usize>)> = covered.iter().collect();
            order.sort_by_key(|(measure, products)| {
                (std::cmp::Reverse(products.len()), first(measure), **measure)
            });
            SharedWay {
                way,
                setup: *setup,
                measures: order.into_iter().map(|(measure, _)| *measure).collect(),
                products: found.products.len(),
                cards: found.cards.len(),
            }
        })
        .collect();
    shared.sort_by_key(|way| (std::cmp::Reverse((way.cards, way.products)), way.way));
    shared
}

/// Which of these figures are the best or tied with it: as for setups, the best is among them with
/// 95 % confidence. One card says nothing about its product's others.
pub fn emphases(figures: &[ProductFigure], more_is_better: bool) -> Vec<DotEmphasis> {
    let sign = if more_is_better { 1.0 } else { -1.0 };
    let several = figures.iter().filter(|figure| figure.cards > 1);
    let best = several.max_by(|a, b| (sign * a.sample.mean).total_cmp(&(sign * b.sample.mean)));
    let tail = ERROR / (figures.len().max(2) - 1) as f64;
    let emphasis = |figure: &ProductFigure| {
        let Some(best) = best else { return DotEmphasis::Hollow };
        let Some((error, freedom)) = figure.sample.error_of_difference(&best.sample) else {
            return DotEmphasis::Hollow;
        };
        let reach = student::quantile(1.0 - tail, freedom) * error;
        let is_tied = sign * (figure.sample.mean - best.sample.mean) + reach >= 0.0;
        if is_tied { DotEmphasis::Strong } else { DotEmphasis::Plain }
    };
    figures.iter().map(emphasis).collect()
}

#[cfg(test)]
mod tests {
    use flashfit_survey::query::statistics::FigureSample;

    use super::*;

    fn figure(logs: &[f64]) -> ProductFigure {
        ProductFigure { cards: logs.len(), sample: FigureSample::of(logs).unwrap(), only: None }
    }

    #[test]
    fn one_card_cannot_win_and_ties_are_shown() {
        let figures = [
            figure(&[9.0]),
            figure(&[5.0, 5.1, 4.9, 5.0]),
            figure(&[4.9, 5.1, 5.0]),
            figure(&[4.0, 4.1, 3.9]),
        ];
        let wanted =
            [DotEmphasis::Hollow, DotEmphasis::Strong, DotEmphasis::Strong, DotEmphasis::Plain];
        assert_eq!(emphases(&figures, true), wanted);
        assert_eq!(emphases(&figures, false)[3], DotEmphasis::Strong);
        assert_eq!(emphases(&figures[..1], true), [DotEmphasis::Hollow]);
    }
}
