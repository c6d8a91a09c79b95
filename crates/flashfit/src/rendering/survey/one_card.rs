//! One card of a survey: identity, sources, results.

use std::fmt::Write;

use flashfit_host::calendar::day;
use flashfit_report::text::{plain, wrap};
use flashfit_report::{Column, Shorten, TextTable};
use flashfit_survey::database::{ResultTable, StoredResult, StoredSource};
use flashfit_survey::query::{ListedCard, ResultFilters};
use schemars::JsonSchema;
use serde::Serialize;

use super::cards::CardRow;
use super::{figure, wear_table};

/// Rows that are shown as text.
const MOST_ROWS: usize = 40;
/// Letters of an address that are shown.
const SHORT_ADDRESS: usize = 10;

/// That of `survey show`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct CardDocument {
    /// The file of the survey.
    pub database: String,
    pub card: CardRow,
    pub sources: Vec<SourceRow>,
    pub results: Vec<ResultRow>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct SourceRow {
    /// SHA-256 of the content.
    pub address: String,
    pub kind: String,
    simulated: bool,
    pub created_unix_s: Option<u64>,
    tool_version: String,
    kernel: String,
    machine: String,
    test_bed: String,
    firmware: String,
    conditions: String,
    erase_block_bytes: Option<u64>,
    write_unit_bytes: Option<u64>,
    real_capacity_bytes: Option<u64>,
    /// How many figures it has.
    figures: u64,
}

/// A figure of a source.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct ResultRow {
    /// The source.
    pub address: String,
    /// When the source was measured.
    pub created_unix_s: Option<u64>,
    simulated: bool,
    pub metric: String,
    pub unit: String,
    workload: String,
    point: String,
    stage: String,
    direction: String,
    length: String,
    filesystem: String,
    options: String,
    scheduler: String,
    pub value: f64,
    /// 95 % interval.
    low: Option<f64>,
    high: Option<f64>,
    /// Repeats.
    count: u32,
    /// Probability of a value that a probe found.
    confidence: Option<f64>,
}

impl SourceRow {
    fn new(source: &StoredSource) -> Self {
        Self {
            address: source.address.clone(),
            kind: source.kind.clone(),
            simulated: source.is_simulated,
            created_unix_s: source.created_unix_s,
            tool_version: source.tool_version.clone(),
            kernel: source.kernel.clone(),
            machine: source.machine.clone(),
            test_bed: source.test_bed.clone(),
            firmware: source.firmware.clone(),
            conditions: source.conditions.clone(),
            erase_block_bytes: source.construction.erase_block,
            write_unit_bytes: source.construction.write_unit,
            real_capacity_bytes: source.construction.capacity,
            figures: source.results,
        }
    }
}

impl ResultRow {
    fn new(source: &StoredSource, results: &ResultTable, row: &StoredResult) -> Self {
        let (setup, measure) = (&results.setups[row.setup], &results.measures[row.measure]);
        Self {
            address: source.address.clone(),
            created_unix_s: source.created_unix_s,
            simulated: source.is_simulated,
            metric: measure.metric.clone(),
            unit: measure.unit.clone(),
            workload: measure.workload.clone(),
            point: measure.point.clone(),
            stage: measure.stage.clone(),
            direction: measure.direction.clone(),
            length: measure.length.clone(),
            filesystem: setup.filesystem.clone(),
            options: setup.options.clone(),
            scheduler: setup.scheduler.clone(),
            value: row.value.value,
            low: row.value.low,
            high: row.value.high,
            count: row.value.count,
            confidence: row.value.confidence,
        }
    }
}

impl CardDocument {
    pub fn new(
        database: String,
        card: &ListedCard,
        results: &ResultTable,
        filters: &ResultFilters,
    ) -> Self {
        let mut rows = Vec::new();
        for source in &card.card.sources {
            let wanted = results.of_source(source.id).iter();
            let wanted = wanted
                .filter(|row| filters.matches(card, source, (results, row.setup, row.measure)));
            rows.extend(wanted.map(|row| ResultRow::new(source, results, row)));
        }
        Self {
            database,
            card: CardRow::new(card),
            sources: card.card.sources.iter().map(SourceRow::new).collect(),
            results: rows,
        }
    }
}

/// Identity, sources, and the first results.
pub fn card_text(document: &CardDocument, width: usize) -> String {
    let card = &document.card;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            writeln!(text, "{name:<14} {}", plain(value)).expect("a string");
        }
    };
    line("card", &card.card);
    line("name", &card.name);
    let is_said = card.kind == "simulated";
    let simulated = if card.simulated && !is_said { ", simulated" } else { "" };
    line("kind", &format!("{}{simulated}", card.kind));
    line("manufacturer", format!("{} {}", card.manufacturer, card.oem).trim());
    line("product", &card.product);
    line("revision", &card.revision);
    line("made", &card.manufactured);
    line("serial number", card.serial.as_deref().unwrap_or_default());
    line(
        "size",
        &card.capacity_bytes.map_or_else(String::new, |size| figure(size as f64, "bytes")),
    );
    if card.bundled {
        line("measured by", "others, according to a bundle");
    }
    if !card.individual && !card.simulated {
        line("cards", "any number: they have neither a serial number nor a name");
    }
    if !card.doubts.is_empty() {
        for part in wrap(&format!("! {}", plain(&card.doubts)), width) {
            writeln!(text, "{part}").expect("a string");
        }
    }
    text.push('\n');
    text.push_str(&sources(&document.sources).render(width));
    if document.results.is_empty() {
        text.push_str("\nno results\n");
        return text;
    }
    if let Some(wear) = wear_table::of_readings(&document.sources, &document.results) {
        text.push('\n');
        text.push_str(&wear.render(width));
    }
    text.push('\n');
    text.push_str(&results(&document.results).render(width));
    let more = document.results.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        writeln!(text, "and {more} more; --where selects some, --csv prints all")
            .expect("a string");
    }
    text
}

fn sources(rows: &[SourceRow]) -> TextTable {
    let mut table = TextTable::new([
        Column::text("SOURCE"),
        Column::text("KIND"),
        Column::text("DATE"),
        Column::text("KERNEL").shorten(Shorten::End),
        Column::text("CONDITIONS").shorten(Shorten::End),
        Column::number("FIGURES"),
    ]);
    for row in rows {
        table.row([
            row.address.get(..SHORT_ADDRESS).unwrap_or_default().to_owned(),
            row.kind.clone(),
            row.created_unix_s.map_or_else(|| "-".to_owned(), day),
            plain(&row.kernel),
            plain(&row.conditions),
            row.figures.to_string(),
        ]);
    }
    table
}

fn results(rows: &[ResultRow]) -> TextTable {
    let mut table = TextTable::new([
        Column::text("SETUP").shorten(Shorten::Middle),
        Column::text("WORKLOAD").shorten(Shorten::Middle),
        Column::text("METRIC").shorten(Shorten::End),
        Column::number("VALUE"),
        Column::number("95 % INTERVAL"),
        Column::number("REPEATS"),
    ]);
    for row in rows.iter().take(MOST_ROWS) {
        let setup = [row.filesystem.as_str(), &row.options, &row.scheduler];
        let place = [row.workload.as_str(), &row.point, &row.stage, &row.direction, &row.length];
        let interval = row.low.zip(row.high).map_or_else(String::new, |(low, high)| {
            format!("{} to {}", figure(low, &row.unit), figure(high, &row.unit))
        });
        table.row([
            plain(&joined(&setup)),
            plain(&joined(&place)),
            plain(&row.metric),
            figure(row.value, &row.unit),
            interval,
            row.count.to_string(),
        ]);
    }
    table
}

/// The parts that are not empty.
pub fn joined(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}
