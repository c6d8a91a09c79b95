//! The setup with the highest mean, and those that are tied with it.
//!
//! The highest of many means is biased: a setup that won by luck looks better than it is. So no
//! gain is derived from it. What is said is that the best setup is among the highest and the tied
//! ones, with 95 % confidence for the whole table (Hsu, "Multiple Comparisons", 1996, section 4;
//! with Bonferroni's inequality in place of Dunnett's quantile, which is conservative). Setups are
//! compared on the same cards; with one card, by its repeats, whose errors at all points of a
//! workload are taken as common.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_search::student;
use flashfit_survey::query::cells::SurveyCell;
use flashfit_survey::query::statistics::FigureSample;

use crate::SiteData;
use crate::constants::ERROR;
use crate::figures::CardFigure;
use crate::product::SiteProduct;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetupPlace {
    Highest,
    Tied,
    /// It was measured once, so nothing is known about the noise.
    Unknown,
    Lower,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProductSetup {
    pub setup: usize,
    pub cards: usize,
    pub place: SetupPlace,
    score: f64,
}

/// Setups, the highest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetupRanking(pub Vec<ProductSetup>);

impl SetupRanking {
    pub fn count(&self, place: SetupPlace) -> usize {
        self.0.iter().filter(|standing| standing.place == place).count()
    }
}

/// Scores of cards by setup and card.
type Scores = BTreeMap<usize, BTreeMap<usize, CardFigure>>;

/// Compares the setups of a product by these measures: the mean of the workloads, each of which is
/// the mean of its measures. Only setups that have all of them are compared.
pub fn rank(
    data: &SiteData<'_>,
    product: &SiteProduct,
    way: usize,
    workloads: &[Vec<usize>],
) -> SetupRanking {
    let setups: BTreeSet<usize> = {
        let cells = data.figures.cells(product).filter(|(cell, _)| cell.way == way);
        cells.map(|(cell, _)| cell.setup).collect()
    };
    let individuals: Vec<usize> = product.individuals(data.cards).collect();
    let mut scores = scores_of(data, product, (way, &setups), workloads, &individuals);
    if scores.is_empty() {
        let pools = product.cards.iter().filter(|card| !individuals.contains(card));
        let mut found =
            pools.map(|card| scores_of(data, product, (way, &setups), workloads, &[*card]));
        scores = found.find(|scores| !scores.is_empty()).unwrap_or_default();
    }
    let is_default = |setup: &usize| data.results.setups[*setup].options.is_empty();
    let common = scores
        .iter()
        .max_by_key(|(setup, cards)| (cards.len(), is_default(setup), std::cmp::Reverse(**setup)));
    common.map(|(_, common)| ranking(&scores, common)).unwrap_or_default()
}

fn scores_of(
    data: &SiteData<'_>,
    product: &SiteProduct,
    (way, setups): (usize, &BTreeSet<usize>),
    workloads: &[Vec<usize>],
    cards: &[usize],
) -> Scores {
    let mut scores = Scores::new();
    for setup in setups {
        for card in cards {
            let figure = |measure: &usize| {
                let cell = SurveyCell { way, setup: *setup, measure: *measure };
                data.figures.card(product, cell, *card)
            };
            let workload = |measures: &Vec<usize>| {
                mean(&measures.iter().map(figure).collect::<Option<Vec<_>>>()?)
            };
            let found = workloads.iter().map(workload).collect::<Option<Vec<_>>>();
            if let Some(score) = found.and_then(|found| mean(&found)) {
                scores.entry(*setup).or_default().insert(*card, score);
            }
        }
    }
    scores
}

/// The mean of figures of the same trials; the error is the mean of their errors.
fn mean(figures: &[CardFigure]) -> Option<CardFigure> {
    let count = figures.len() as f64;
    let sample = FigureSample::of(&figures.iter().map(|figure| figure.log).collect::<Vec<_>>())?;
    let errors: Option<Vec<(f64, f64)>> = figures.iter().map(|figure| figure.error).collect();
    let error = errors.map(|errors| {
        let sum: f64 = errors.iter().map(|(error, _)| error).sum();
        (sum / count, errors.iter().map(|(_, freedom)| *freedom).fold(f64::INFINITY, f64::min))
    });
    Some(CardFigure { log: sample.mean, error })
}

/// `common` is the setup that most cards have.
fn ranking(scores: &Scores, common: &BTreeMap<usize, CardFigure>) -> SetupRanking {
    let mut rows: Vec<ProductSetup> = scores
        .iter()
        .filter_map(|(setup, cards)| {
            let differences: Vec<f64> =
                shared(cards, common).iter().map(|(own, other)| own.log - other.log).collect();
            let score = FigureSample::of(&differences)?.mean;
            let place = SetupPlace::Unknown;
            Some(ProductSetup { setup: *setup, cards: cards.len(), place, score })
        })
        .collect();
    // One lucky card does not make the highest mean.
    let is_broad = |row: &&ProductSetup| row.cards * 2 >= common.len();
    let highest = rows.iter().filter(is_broad).max_by(|a, b| a.score.total_cmp(&b.score));
    let Some(highest) = highest.map(|row| row.setup) else { return SetupRanking::default() };
    let tail = ERROR / (rows.len().max(2) - 1) as f64;
    for row in &mut rows {
        row.place = match row.setup == highest {
            true => SetupPlace::Highest,
            false => place(&shared(&scores[&row.setup], &scores[&highest]), tail),
        };
    }
    rows.sort_by(|a, b| {
        let first = |row: &ProductSetup| row.place != SetupPlace::Highest;
        first(a).cmp(&first(b)).then(b.score.total_cmp(&a.score))
    });
    SetupRanking(rows)
}

/// The cards that both have.
fn shared(
    own: &BTreeMap<usize, CardFigure>,
    other: &BTreeMap<usize, CardFigure>,
) -> Vec<(CardFigure, CardFigure)> {
    own.iter().filter_map(|(card, figure)| Some((*figure, *other.get(card)?))).collect()
}

fn place(pairs: &[(CardFigure, CardFigure)], tail: f64) -> SetupPlace {
    let differences: Vec<f64> = pairs.iter().map(|(own, highest)| own.log - highest.log).collect();
    let Some(sample) = FigureSample::of(&differences) else { return SetupPlace::Unknown };
    let error = match (pairs, sample.deviation) {
        ([(own, highest)], _) => own.error.zip(highest.error).map(|(own, highest)| {
            let squared = |(error, _): (f64, f64)| error * error;
            let variance = squared(own) + squared(highest);
            let part = |of: (f64, f64)| squared(of).powi(2) / of.1;
            let freedom = variance * variance / (part(own) + part(highest));
            (variance.sqrt(), if freedom.is_finite() { freedom.max(1.0) } else { 1.0 })
        }),
        (_, Some(deviation)) => {
            let count = pairs.len() as f64;
            Some((deviation / count.sqrt(), count - 1.0))
        }
        _ => None,
    };
    let Some((error, freedom)) = error else { return SetupPlace::Unknown };
    let reach = student::quantile(1.0 - tail, freedom) * error;
    if sample.mean + reach >= 0.0 { SetupPlace::Tied } else { SetupPlace::Lower }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(log: f64, error: Option<f64>) -> CardFigure {
        CardFigure { log, error: error.map(|error| (error, 2.0)) }
    }

    fn ranked(rows: &[(usize, &[f64])], error: Option<f64>) -> SetupRanking {
        let scores: Scores = rows
            .iter()
            .map(|(setup, logs)| {
                (*setup, logs.iter().map(|log| figure(*log, error)).enumerate().collect())
            })
            .collect();
        let common = scores.values().max_by_key(|cards| cards.len()).unwrap();
        ranking(&scores, common)
    }

    fn places(ranking: &SetupRanking) -> Vec<(usize, SetupPlace)> {
        ranking.0.iter().map(|row| (row.setup, row.place)).collect()
    }

    #[test]
    fn setups_are_compared_on_the_same_cards() {
        // Cards differ by much more than setups; setup 2 is 10 % slower on each.
        let rows: [(usize, &[f64]); 3] = [
            (0, &[1.0, 3.0, 5.0, 7.0]),
            (1, &[1.001, 2.999, 5.002, 6.997]),
            (2, &[0.9, 2.91, 4.89, 6.9]),
        ];
        let ranking = ranked(&rows, None);
        let wanted = [(0, SetupPlace::Highest), (1, SetupPlace::Tied), (2, SetupPlace::Lower)];
        assert_eq!(places(&ranking), wanted);
    }

    #[test]
    fn what_was_measured_once_is_unknown_and_one_card_needs_repeats() {
        let rows: [(usize, &[f64]); 2] = [(0, &[1.0]), (1, &[0.5])];
        assert_eq!(places(&ranked(&rows, None))[1].1, SetupPlace::Unknown);
        assert_eq!(places(&ranked(&rows, Some(0.01)))[1].1, SetupPlace::Lower);
        assert_eq!(places(&ranked(&rows, Some(0.3)))[1].1, SetupPlace::Tied);
    }

    #[test]
    fn one_lucky_card_is_not_the_highest_mean() {
        let rows: [(usize, &[f64]); 2] = [(0, &[1.0, 1.1, 1.2, 1.1]), (1, &[2.0])];
        let ranking = ranked(&rows, Some(0.1));
        assert_eq!((ranking.0[0].setup, ranking.0[0].place), (0, SetupPlace::Highest));
    }
}
