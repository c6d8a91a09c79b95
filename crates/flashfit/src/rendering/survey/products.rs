//! Products of a survey, compared.

use std::fmt::Write;

use flashfit_report::text::plain;
use flashfit_report::{Column, Shorten, TextTable};
use flashfit_survey::metric::MetricScale;
use flashfit_survey::query::ListedCard;
use flashfit_survey::query::comparison::ComparedProduct;
use schemars::JsonSchema;
use serde::Serialize;

use super::one_card::joined;
use super::{figure, size};

/// Rows that are shown as text.
const MOST_ROWS: usize = 60;

/// That of `survey compare`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ProductsDocument {
    /// The file of the survey.
    pub database: String,
    pub results: Vec<ProductRow>,
}

/// A product under one setup, workload and so on, measured in one way. Rows that differ in the
/// product alone follow each other, the product with the most cards first.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct ProductRow {
    kind: String,
    manufacturer: String,
    product: String,
    capacity_bytes: Option<u64>,
    simulated: bool,
    /// Whether others measured some of its cards, and a bundle brought them.
    bundled: bool,
    /// False if the product's cards cannot be distinguished; they then count as one.
    individual: bool,
    metric: String,
    unit: String,
    workload: String,
    point: String,
    stage: String,
    direction: String,
    length: String,
    filesystem: String,
    options: String,
    scheduler: String,
    kernel: String,
    machine: String,
    test_bed: String,
    conditions: String,
    cards: usize,
    /// How many of them others measured.
    bundled_cards: usize,
    sources: usize,
    /// Mean of the cards (geometric for rates and latencies), with its 95 % interval.
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    /// Standard deviation of the cards, in percent of their mean.
    variation_percent: Option<f64>,
    least: f64,
    most: f64,
    /// To the first product, with its 95 % interval; null for the first, and for figures with an
    /// arithmetic mean.
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    /// The same of figures with an arithmetic mean: their difference to the first product.
    difference: Option<f64>,
    difference_low: Option<f64>,
    difference_high: Option<f64>,
}

impl ProductRow {
    fn new(cards: &[ListedCard], row: &ComparedProduct) -> Self {
        let (card, interval) = (&cards[row.example].card, row.interval);
        let figure = |mean: f64| row.scale.figure(mean);
        let is_ratio = row.scale == MetricScale::Logarithmic;
        let to_first = |wanted: bool| {
            let (middle, interval) = row.to_first.filter(|_| wanted).unzip();
            let (low, high) = interval.flatten().unzip();
            [middle, low, high].map(|value| value.map(figure))
        };
        let [ratio, ratio_low, ratio_high] = to_first(is_ratio);
        let [difference, difference_low, difference_high] = to_first(!is_ratio);
        Self {
            kind: card.kind.clone(),
            manufacturer: card.manufacturer.clone(),
            product: card.product.clone(),
            capacity_bytes: card.capacity_bytes,
            simulated: card.is_simulated,
            bundled: row.bundled > 0,
            individual: card.is_individual,
            metric: row.measure.metric.clone(),
            unit: row.measure.unit.clone(),
            workload: row.measure.workload.clone(),
            point: row.measure.point.clone(),
            stage: row.measure.stage.clone(),
            direction: row.measure.direction.clone(),
            length: row.measure.length.clone(),
            filesystem: row.setup.filesystem.clone(),
            options: row.setup.options.clone(),
            scheduler: row.setup.scheduler.clone(),
            kernel: row.way.kernel.clone(),
            machine: row.way.machine.clone(),
            test_bed: row.way.test_bed.clone(),
            conditions: row.way.conditions.clone(),
            cards: row.cards,
            bundled_cards: row.bundled,
            sources: row.sources,
            value: figure(row.sample.mean),
            low: interval.map(|(low, _)| figure(low)),
            high: interval.map(|(_, high)| figure(high)),
            variation_percent: row.variation_percent(),
            least: figure(row.least),
            most: figure(row.most),
            ratio,
            ratio_low,
            ratio_high,
            difference,
            difference_low,
            difference_high,
        }
    }

    /// What it is the figure of, apart from the product.
    fn place(&self) -> String {
        let measure = [self.workload.as_str(), &self.point, &self.stage, &self.direction];
        let setup = [self.filesystem.as_str(), &self.options, &self.scheduler];
        let metric = [self.length.as_str(), &self.metric];
        let parts = [joined(&setup), joined(&measure), joined(&metric)];
        joined(&parts.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn way(&self) -> String {
        [self.kernel.as_str(), &self.machine, &self.test_bed, &self.conditions].join(", ")
    }
}

impl ProductsDocument {
    pub fn new(database: String, cards: &[ListedCard], rows: &[ComparedProduct]) -> Self {
        Self { database, results: rows.iter().map(|row| ProductRow::new(cards, row)).collect() }
    }
}

/// A table for each setup and workload.
pub fn products_text(document: &ProductsDocument, width: usize) -> String {
    if document.results.is_empty() {
        return "no results match\n".to_owned();
    }
    let shown = &document.results[..document.results.len().min(MOST_ROWS)];
    let mut text = String::new();
    let mut way = String::new();
    let same = |one: &ProductRow, other: &ProductRow| {
        one.place() == other.place() && one.way() == other.way()
    };
    for rows in shown.chunk_by(same) {
        if rows[0].way() != way {
            way = rows[0].way();
            writeln!(text, "Measured with {}", plain(&way)).expect("a string");
        }
        writeln!(text, "\n{}", plain(&rows[0].place())).expect("a string");
        text.push_str(&table(rows).render(width));
    }
    if shown.iter().any(|row| row.simulated) {
        text.push_str("\nSimulated cards are marked with (sim).\n");
    }
    if shown.iter().any(|row| row.bundled) {
        text.push_str(
            "\n+ measured by others, from a bundle; --where bundled=false leaves them out\n",
        );
    }
    let more = document.results.len() - shown.len();
    if more > 0 {
        writeln!(text, "\nand {more} more; --where selects some, --csv prints all")
            .expect("a string");
    }
    text
}

fn table(rows: &[ProductRow]) -> TextTable {
    let mut table = TextTable::new([
        Column::text("  PRODUCT").shorten(Shorten::Middle),
        Column::number("CARDS"),
        Column::number("MEAN"),
        Column::number("95 % INTERVAL"),
        Column::number("VARIATION"),
        Column::number("TO FIRST"),
    ]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for row in rows {
        let mark = [(row.simulated, " (sim)"), (row.bundled, " +")];
        let mark: String = mark.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
        let cards = match row.bundled_cards {
            0 => row.cards.to_string(),
            others if others == row.cards => format!("{others}+"),
            others => format!("{} ({others}+)", row.cards),
        };
        let named = [row.manufacturer.as_str(), &row.product, &size(row.capacity_bytes)];
        let between = |low: Option<f64>, high: Option<f64>| {
            let (low, high) = (low?, high?);
            Some(format!("{} to {}", figure(low, &row.unit), figure(high, &row.unit)))
        };
        let ratio = row.ratio.map(|ratio| match (row.ratio_low, row.ratio_high) {
            (Some(low), Some(high)) => format!("{ratio:.2} ({low:.2} to {high:.2})"),
            _ => format!("{ratio:.2}"),
        });
        let signed = |value: f64| {
            let sign = if value < 0.0 { "-" } else { "+" };
            format!("{sign}{}", figure(value.abs(), &row.unit))
        };
        let difference =
            row.difference.map(|value| match (row.difference_low, row.difference_high) {
                (Some(low), Some(high)) => {
                    format!("{} ({} to {})", signed(value), signed(low), signed(high))
                }
                _ => signed(value),
            });
        table.row([
            format!("  {}{mark}", plain(&joined(&named))),
            cards,
            figure(row.value, &row.unit),
            or_dash(between(row.low, row.high)),
            or_dash(row.variation_percent.map(|percent| format!("{percent:.1} %"))),
            or_dash(ratio.or(difference)),
        ]);
    }
    table
}
