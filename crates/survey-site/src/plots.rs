//! The charts: what products have in common, and the cards of one product.

use flashfit_report::markup::Element;
use flashfit_report::svg::draw_dots;
use flashfit_report::{BetterDirection, DotChart, DotEmphasis, DotRow, FigureUnit, ValueScale};
use flashfit_survey::metric::MetricGroup;
use flashfit_survey::query::cells::SurveyCell;

use crate::SiteData;
use crate::constants::CHART_ROWS;
use crate::figures::ProductFigure;
use crate::product::{SiteProduct, card_name};
use crate::shared::emphases;
use crate::{page, words};

/// On a linear scale, smaller values could not be distinguished.
const LINEAR_RATIO: f64 = 8.0;

/// A measure of several products; `None` if only one has it.
pub fn measure(
    data: &SiteData<'_>,
    products: &[&SiteProduct],
    cell: SurveyCell,
) -> Option<Element> {
    let measure = &data.results.measures[cell.measure];
    let more_is_better = words::group(&measure.metric) == Some(MetricGroup::Speed);
    let found: Vec<(&SiteProduct, ProductFigure)> = products
        .iter()
        .filter_map(|product| Some((*product, data.figures.product(data.cards, product, cell)?)))
        .collect();
    if found.len() < 2 {
        return None;
    }
    let figures: Vec<ProductFigure> = found.iter().map(|(_, figure)| figure.clone()).collect();
    let (unit, factor) = words::unit(&measure.unit);
    let mut rows: Vec<DotRow> = found
        .iter()
        .zip(emphases(&figures, more_is_better))
        .map(|((product, figure), emphasis)| DotRow {
            name: product.title(data.cards),
            value: figure.sample.mean.exp() * factor,
            range: figure.interval().map(|(low, high)| (low.exp() * factor, high.exp() * factor)),
            emphasis,
        })
        .collect();
    rows.sort_by(|a, b| b.value.total_cmp(&a.value));
    if !more_is_better {
        rows.reverse();
    }
    let (best, worse) = if more_is_better { ("highest", "lower") } else { ("lowest", "higher") };
    let chart = DotChart {
        title: title(&measure.metric, &words::measure(measure)),
        unit,
        direction: if more_is_better {
            BetterDirection::HigherIsBetter
        } else {
            BetterDirection::LowerIsBetter
        },
        scale: scale(&rows),
        legend: vec![
            (DotEmphasis::Strong, format!("{best} of several cards, or tied with it")),
            (DotEmphasis::Plain, worse.to_owned()),
            (DotEmphasis::Hollow, "one card, so the product is uncertain".to_owned()),
        ],
        simulated: found[0].0.is_simulated,
        rows,
    };
    Some(limited(chart))
}

fn title(metric: &str, what: &str) -> String {
    match metric {
        "rate" => what.to_owned(),
        "latency-p99" => format!("{what}, 99th percentile"),
        other => format!("{what}, {}", other.replace('-', " ")),
    }
}

/// The first rows, with their number.
fn limited(mut chart: DotChart) -> Element {
    let all = chart.rows.len();
    chart.rows.truncate(CHART_ROWS);
    let caption = match all > chart.rows.len() {
        true => format!("The first {} of {all}; the table has all.", chart.rows.len()),
        false => String::new(),
    };
    page::figure(&caption, draw_dots(&chart))
}

fn scale(rows: &[DotRow]) -> ValueScale {
    let values = rows.iter().map(|row| row.value);
    let most = values.clone().fold(0.0, f64::max);
    let least = values.fold(f64::INFINITY, f64::min);
    let is_wide = least > 0.0 && most > LINEAR_RATIO * least;
    if is_wide { ValueScale::Logarithmic } else { ValueScale::Linear }
}

/// The erase blocks that probes found, the smallest first.
pub fn erase_blocks(data: &SiteData<'_>, products: &[&SiteProduct]) -> Option<Element> {
    let mut rows = Vec::new();
    for product in products {
        let cards = product.cards.iter().map(|card| &data.cards[*card]);
        let sizes: Vec<u64> = cards.flat_map(|card| card.erase_blocks.iter().copied()).collect();
        let (Some(usual), Some(least), Some(most)) =
            (usual(&sizes), sizes.iter().min(), sizes.iter().max())
        else {
            continue;
        };
        rows.push(DotRow {
            name: product.title(data.cards),
            value: usual as f64,
            range: (least < most).then_some((*least as f64, *most as f64)),
            emphasis: if least < most { DotEmphasis::Odd } else { DotEmphasis::Plain },
        });
    }
    if rows.len() < 2 {
        return None;
    }
    rows.sort_by(|a, b| a.value.total_cmp(&b.value));
    let chart = DotChart {
        title: "Erase block, as probed".to_owned(),
        unit: FigureUnit::Bytes,
        direction: BetterDirection::Neither,
        scale: scale(&rows),
        legend: vec![(
            DotEmphasis::Odd,
            "probes differ: the most frequent, from least to most".to_owned(),
        )],
        simulated: products[0].is_simulated,
        rows,
    };
    Some(limited(chart))
}

/// The most frequent value; of several, the smallest.
pub fn usual(values: &[u64]) -> Option<u64> {
    let count = |value: u64| values.iter().filter(|other| **other == value).count();
    values.iter().copied().max_by_key(|value| (count(*value), std::cmp::Reverse(*value)))
}

/// The cards of a product in one measure, those with marks first if there are too many.
pub fn cards(data: &SiteData<'_>, product: &SiteProduct, cell: SurveyCell) -> Option<Element> {
    let measure = &data.results.measures[cell.measure];
    let (unit, factor) = words::unit(&measure.unit);
    let mut rows: Vec<DotRow> = product
        .individuals(data.cards)
        .filter_map(|card| {
            let (figure, listed) = (data.figures.card(product, cell, card)?, &data.cards[card]);
            let is_marked = !listed.doubts().is_empty();
            Some(DotRow {
                name: format!("{}{}", card_name(listed), if is_marked { " !" } else { "" }),
                value: figure.log.exp() * factor,
                range: figure
                    .interval()
                    .map(|(low, high)| (low.exp() * factor, high.exp() * factor)),
                emphasis: match (is_marked, figure.error) {
                    (true, _) => DotEmphasis::Odd,
                    (false, Some(_)) => DotEmphasis::Plain,
                    (false, None) => DotEmphasis::Hollow,
                },
            })
        })
        .collect();
    if rows.len() < 2 {
        return None;
    }
    rows.sort_by_key(|row| row.emphasis != DotEmphasis::Odd);
    let all = rows.len();
    rows.truncate(CHART_ROWS);
    rows.sort_by(|a, b| b.value.total_cmp(&a.value));
    let shown = rows.len();
    let chart = DotChart {
        title: title(&measure.metric, &words::measure(measure)),
        unit,
        direction: BetterDirection::HigherIsBetter,
        scale: scale(&rows),
        legend: vec![
            (DotEmphasis::Plain, "a card, with the interval of its repeats".to_owned()),
            (DotEmphasis::Hollow, "a card that was measured once".to_owned()),
            (DotEmphasis::Odd, "a card with a mark".to_owned()),
        ],
        simulated: product.is_simulated,
        rows,
    };
    let caption = match all > shown {
        true => format!("{shown} of {all} cards, those with marks first."),
        false => String::new(),
    };
    Some(page::figure(&caption, draw_dots(&chart)))
}

/// What was found after power cuts: the share of cuts that broke a promise of the setup, the
/// smallest of each product first.
pub fn power_cuts(data: &SiteData<'_>, products: &[&SiteProduct]) -> Option<Element> {
    let mut rows = Vec::new();
    for product in products {
        for found in crate::figures::rows(data, product, MetricGroup::PowerLoss) {
            let measure = &data.results.measures[found.row.measure];
            if measure.metric != "broken-promises" || !measure.point.is_empty() {
                continue;
            }
            let (_, factor) = words::unit(words::stored_unit(measure));
            let value = found.row.value;
            let setup = words::setup(&data.results.setups[found.row.setup]);
            let ends = value.low.zip(value.high);
            rows.push(DotRow {
                name: format!("{}: {setup}", product.title(data.cards)),
                value: value.value * factor,
                range: ends.map(|(low, high)| (low * factor, high * factor)),
                emphasis: DotEmphasis::Plain,
            });
        }
    }
    if rows.is_empty() {
        return None;
    }
    rows.sort_by(|a, b| a.value.total_cmp(&b.value));
    let chart = DotChart {
        title: "Power cuts that broke a promise of the setup".to_owned(),
        unit: FigureUnit::Percent,
        direction: BetterDirection::LowerIsBetter,
        scale: ValueScale::Linear,
        legend: vec![(DotEmphasis::Plain, "share of power cuts, with 95 % interval".to_owned())],
        simulated: products[0].is_simulated,
        rows,
    };
    Some(limited(chart))
}
