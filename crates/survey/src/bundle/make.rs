//! Makes a bundle: what was measured by the owner of the survey, without what is private.
//!
//! Left out are serial numbers, keys, salts, addresses of documents, names of cards (unless asked
//! for), the time of day, and rows that came from bundles of others. Names of workloads, points,
//! stages, options, kernels and conditions that look like a path or an address are replaced.

use std::collections::HashMap;

use super::check::{is_direction, within_ranges};
use super::format::{
    BundleCard, BundleFigure, BundleMeasure, BundleSetup, BundleSource, SurveyBundle,
};
use super::{BundleKeys, SCHEMA, SCHEMA_VERSION};
use crate::database::{ResultTable, StoredResult, StoredSource};
use crate::import::is_command_name;
use crate::metric::SurveyMetric;
use crate::query::ListedCard;
use crate::record::{MeasuredSetup, SurveyMeasure};

const DAY: u64 = 86_400;

#[derive(Debug, Clone, Copy, Default)]
pub struct BundleOptions {
    /// Whether names of cards are kept.
    pub with_names: bool,
    /// Whether simulated cards are in it: anyone can simulate them, and the file of a model has a
    /// name that its user chose.
    pub with_simulated: bool,
}

/// A bundle, and what was not put into it.
#[derive(Debug)]
pub struct MadeBundle {
    pub bundle: SurveyBundle,
    pub sources: usize,
    pub figures: usize,
    pub simulated_left_out: usize,
    /// Cards of bundles of others.
    pub bundled_left_out: usize,
}

/// A bundle of these cards.
pub fn make(
    cards: &[ListedCard],
    results: &ResultTable,
    keys: &BundleKeys,
    options: BundleOptions,
) -> MadeBundle {
    let mut tables =
        Tables { keys, results, setups: Indexes::default(), measures: Indexes::default() };
    let mut made = Vec::new();
    let (mut simulated_left_out, mut bundled_left_out) = (0, 0);
    for listed in cards {
        if listed.is_bundled() {
            bundled_left_out += 1;
        } else if listed.card.is_simulated && !options.with_simulated {
            simulated_left_out += 1;
        } else if !listed.card.sources.is_empty() {
            made.push(card(listed, &mut tables, options));
        }
    }
    // The order of cards in a survey follows their keys.
    made.sort_by(|one, other| one.card.cmp(&other.card));
    let (setups, measures) = (tables.setups.items, tables.measures.items);
    let sources = made.iter().map(|card| card.sources.len()).sum();
    let figures =
        made.iter().flat_map(|card| &card.sources).map(|source| source.figures.len()).sum();
    MadeBundle {
        bundle: SurveyBundle {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            survey: keys.survey(),
            setups,
            measures,
            cards: made,
        },
        sources,
        figures,
        simulated_left_out,
        bundled_left_out,
    }
}

/// Setups and measures as they are used, each once.
struct Tables<'a> {
    keys: &'a BundleKeys,
    results: &'a ResultTable,
    setups: Indexes<BundleSetup>,
    measures: Indexes<BundleMeasure>,
}

/// Different items with their index.
struct Indexes<T> {
    items: Vec<T>,
    of: HashMap<T, usize>,
}

impl<T> Default for Indexes<T> {
    fn default() -> Self {
        Self { items: Vec::new(), of: HashMap::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Indexes<T> {
    fn index(&mut self, item: T) -> usize {
        *self.of.entry(item.clone()).or_insert_with(|| {
            self.items.push(item);
            self.items.len() - 1
        })
    }
}

fn card(listed: &ListedCard, tables: &mut Tables<'_>, options: BundleOptions) -> BundleCard {
    let card = &listed.card;
    let key = card.keys.first().map_or("", String::as_str);
    let name = if options.with_names { card.name.clone() } else { String::new() };
    let own = card.sources.iter().filter(|source| source.bundle.is_empty());
    let mut sources: Vec<BundleSource> = own.map(|one| source(one, tables)).collect();
    sources.sort_by(|one, other| {
        (one.day_unix_s, &one.source).cmp(&(other.day_unix_s, &other.source))
    });
    BundleCard {
        card: tables.keys.card(key),
        kind: card.kind.clone(),
        manufacturer: card.manufacturer.clone(),
        oem: card.oem.clone(),
        product: card.product.clone(),
        revision: card.revision.clone(),
        manufactured: card.manufactured.clone(),
        capacity_bytes: card.capacity_bytes,
        individual: card.is_individual,
        simulated: card.is_simulated,
        name,
        sources,
    }
}

fn source(stored: &StoredSource, tables: &mut Tables<'_>) -> BundleSource {
    let keys = tables.keys;
    let results = tables.results;
    let rows = results.of_source(stored.id).iter();
    let rows = rows.filter(|row| {
        let measure = &results.measures[row.measure];
        SurveyMetric::of_name(&measure.metric).is_some() && is_direction(&measure.direction)
    });
    let figures = rows.filter_map(|row| figure(row, tables)).collect();
    BundleSource {
        source: keys.source(&stored.address),
        run: keys.run(&stored.origin),
        kind: stored.kind.clone(),
        day_unix_s: stored.created_unix_s.map(|time| time - time % DAY),
        tool_version: stored.tool_version.clone(),
        kernel: public(&stored.kernel, keys),
        machine: public(&stored.machine, keys),
        processors: stored.processors,
        test_bed: public(&stored.test_bed, keys),
        firmware: stored.firmware.clone(),
        conditions: public(&stored.conditions, keys),
        erase_block_bytes: stored.construction.erase_block,
        write_unit_bytes: stored.construction.write_unit,
        real_capacity_bytes: stored.construction.capacity,
        figures,
    }
}

fn figure(row: &StoredResult, tables: &mut Tables<'_>) -> Option<BundleFigure> {
    let value = within_ranges(row.value)?;
    let keys = tables.keys;
    let MeasuredSetup { filesystem, options, scheduler } = &tables.results.setups[row.setup];
    let setup = BundleSetup {
        filesystem: filesystem.clone(),
        options: public(options, keys),
        scheduler: scheduler.clone(),
    };
    let SurveyMeasure { metric, unit, workload, point, stage, direction, length } =
        &tables.results.measures[row.measure];
    let measure = BundleMeasure {
        metric: metric.clone(),
        unit: unit.clone(),
        workload: public(workload, keys),
        point: public(point, keys),
        stage: public(stage, keys),
        direction: direction.clone(),
        length: length.clone(),
    };
    Some(BundleFigure {
        setup: tables.setups.index(setup),
        measure: tables.measures.index(measure),
        value: value.value,
        low: value.low,
        high: value.high,
        count: value.count,
        confidence: value.confidence,
    })
}

/// The text, unless it looks like a path, a URL or the address of a host, or is the hash of a
/// command, which can be found by trying commands.
fn public(text: &str, keys: &BundleKeys) -> String {
    let is_private = text.contains(['/', '\\', '@', '~']) || is_command_name(text);
    if is_private { keys.hidden(text) } else { text.to_owned() }
}
