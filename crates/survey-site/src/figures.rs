//! The figures of cards, by how they were measured, setup and measure.

use std::collections::BTreeMap;

use flashfit_search::student;
use flashfit_survey::SourceKind;
use flashfit_survey::database::{ResultTable, StoredResult, StoredSource};
use flashfit_survey::metric::MetricGroup;
use flashfit_survey::query::ListedCard;
use flashfit_survey::query::cells::{MeasuredWay, SurveyCell};
use flashfit_survey::query::statistics::FigureSample;
use flashfit_survey::record::SurveyValue;

use crate::SiteData;
use crate::product::SiteProduct;
use crate::words;

/// A figure of one card, as a logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CardFigure {
    pub log: f64,
    /// The standard error and its degrees of freedom; `None` if it was measured once.
    pub error: Option<(f64, f64)>,
}

impl CardFigure {
    /// Of all sources of a card.
    fn of(values: &[SurveyValue]) -> Option<Self> {
        let logs: Vec<f64> = values.iter().map(|value| value.value.ln()).collect();
        let sample = FigureSample::of(&logs)?;
        let error = match (values, sample.deviation) {
            ([one], _) => error_of_repeats(one),
            (_, Some(deviation)) => {
                let count = values.len() as f64;
                Some((deviation / count.sqrt(), count - 1.0))
            }
            _ => None,
        };
        Some(Self { log: sample.mean, error })
    }

    /// The 95 % interval of its repeats.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let (error, freedom) = self.error?;
        let half = student::quantile(0.975, freedom) * error;
        Some((self.log - half, self.log + half))
    }
}

/// From the 95 % interval of a figure.
fn error_of_repeats(value: &SurveyValue) -> Option<(f64, f64)> {
    let freedom = f64::from(value.count.checked_sub(1).filter(|freedom| *freedom > 0)?);
    let half = (value.high? / value.low?).ln() / 2.0;
    let error = half / student::quantile(0.975, freedom);
    error.is_finite().then_some((error, freedom))
}

/// A figure of a product: the mean of its cards.
#[derive(Debug, Clone, PartialEq)]
pub struct ProductFigure {
    pub cards: usize,
    pub sample: FigureSample,
    /// The only card, if there is one.
    pub only: Option<CardFigure>,
}

impl ProductFigure {
    /// The 95 % interval of the mean of its cards.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.sample.interval()
    }

    /// The interval of the cards, or of the repeats of the only one.
    pub fn any_interval(&self) -> Option<(f64, f64)> {
        self.interval().or_else(|| self.only?.interval())
    }
}

/// By cell and card.
type ProductCells = BTreeMap<SurveyCell, BTreeMap<usize, CardFigure>>;

/// Figures of speed, latency and wear of full trials.
#[derive(Debug, Default)]
pub struct FigureTable {
    pub ways: Vec<MeasuredWay>,
    products: Vec<ProductCells>,
}

impl FigureTable {
    pub fn of(cards: &[ListedCard], results: &ResultTable, products: &[SiteProduct]) -> Self {
        let is_wanted: Vec<bool> = results
            .measures
            .iter()
            .map(|measure| {
                let group = words::group(&measure.metric);
                let is_group = matches!(
                    group,
                    Some(MetricGroup::Speed | MetricGroup::Latency | MetricGroup::Wear)
                );
                is_group && measure.length.is_empty() && !measure.workload.is_empty()
            })
            .collect();
        let mut ways: BTreeMap<MeasuredWay, usize> = BTreeMap::new();
        let mut cells_of = |product: &SiteProduct| -> ProductCells {
            let mut values: BTreeMap<SurveyCell, BTreeMap<usize, Vec<SurveyValue>>> =
                BTreeMap::new();
            for card in &product.cards {
                for source in &cards[*card].card.sources {
                    let rows = results.of_source(source.id).iter();
                    let rows = rows.filter(|row| is_wanted[row.measure]);
                    for row in rows.filter(|row| row.value.value.ln().is_finite()) {
                        let way = way_of(source, &mut ways);
                        let cell = SurveyCell { way, setup: row.setup, measure: row.measure };
                        let of_card = values.entry(cell).or_default().entry(*card).or_default();
                        of_card.push(row.value);
                    }
                }
            }
            let figures = |of_cards: BTreeMap<usize, Vec<SurveyValue>>| {
                let figures = of_cards.into_iter();
                figures
                    .filter_map(|(card, values)| Some((card, CardFigure::of(&values)?)))
                    .collect()
            };
            values.into_iter().map(|(cell, cards)| (cell, figures(cards))).collect()
        };
        let products = products.iter().map(&mut cells_of).collect();
        let mut ways: Vec<(MeasuredWay, usize)> = ways.into_iter().collect();
        ways.sort_by_key(|(_, index)| *index);
        Self { ways: ways.into_iter().map(|(way, _)| way).collect(), products }
    }

    pub fn card(&self, product: &SiteProduct, cell: SurveyCell, card: usize) -> Option<CardFigure> {
        self.products[product.index].get(&cell)?.get(&card).copied()
    }

    /// The cells of a product with its cards.
    pub fn cells(
        &self,
        product: &SiteProduct,
    ) -> impl Iterator<Item = (SurveyCell, &BTreeMap<usize, CardFigure>)> {
        self.products[product.index].iter().map(|(cell, cards)| (*cell, cards))
    }

    /// The figure of a product: of its individual cards, or else of the first group of cards that
    /// cannot be distinguished.
    pub fn product(
        &self,
        cards: &[ListedCard],
        product: &SiteProduct,
        cell: SurveyCell,
    ) -> Option<ProductFigure> {
        let found = self.products[product.index].get(&cell)?;
        let own: Vec<CardFigure> =
            product.individuals(cards).filter_map(|card| found.get(&card).copied()).collect();
        let group = || product.cards.iter().find_map(|card| found.get(card)).copied();
        let figures = if own.is_empty() { group().into_iter().collect() } else { own };
        let logs: Vec<f64> = figures.iter().map(|figure| figure.log).collect();
        let only = if let [only] = figures[..] { Some(only) } else { None };
        Some(ProductFigure { cards: figures.len(), sample: FigureSample::of(&logs)?, only })
    }
}

fn way_of(source: &StoredSource, ways: &mut BTreeMap<MeasuredWay, usize>) -> usize {
    let next = ways.len();
    *ways.entry(MeasuredWay::of(source)).or_insert(next)
}

/// A figure of one source.
pub struct SourceFigure<'a> {
    pub card: &'a ListedCard,
    pub row: &'a StoredResult,
}

/// The figures of a product that belong to this group, without those of runs of workloads.
pub fn rows<'a>(
    data: &'a SiteData<'_>,
    product: &'a SiteProduct,
    group: MetricGroup,
) -> impl Iterator<Item = SourceFigure<'a>> {
    let cards = product.cards.iter().map(|card| &data.cards[*card]);
    let sources = cards.flat_map(|card| card.card.sources.iter().map(move |source| (card, source)));
    sources.flat_map(move |(card, source)| {
        let of_source = data.results.of_source(source.id).iter();
        let wanted = of_source.filter(move |row| {
            let measure = &data.results.measures[row.measure];
            words::group(&measure.metric) == Some(group)
                && (group == MetricGroup::Construction || source.kind != SourceKind::Run.name())
        });
        wanted.map(move |row| SourceFigure { card, row })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(value: f64, range: Option<(f64, f64)>, count: u32) -> SurveyValue {
        let (low, high) = (range.map(|(low, _)| low), range.map(|(_, high)| high));
        SurveyValue { value, low, high, count, confidence: None }
    }

    #[test]
    fn the_interval_of_repeats_is_found_again() {
        let one = CardFigure::of(&[value(100.0, Some((80.0, 125.0)), 3)]).unwrap();
        let (low, high) = one.interval().unwrap();
        assert!((low.exp() - 80.0).abs() < 1e-6 && (high.exp() - 125.0).abs() < 1e-6);
        assert_eq!(CardFigure::of(&[value(100.0, None, 1)]).unwrap().interval(), None);
        // Several runs of one card are its repeats.
        let several = CardFigure::of(&[value(100.0, None, 1), value(400.0, None, 1)]).unwrap();
        assert!((several.log.exp() - 200.0).abs() < 1e-6 && several.error.is_some());
        assert_eq!(CardFigure::of(&[]), None);
    }
}
