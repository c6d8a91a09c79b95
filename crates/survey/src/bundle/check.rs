//! Reads a bundle that a stranger wrote: nothing in it is executed or believed beyond its schema.
//!
//! A bundle is accepted as a whole or not at all. Unknown keys, texts that are too long or have
//! control characters, numbers outside their ranges, indexes of nothing and repeated cards, sources
//! and figures are refused. Limit: that figures were measured cannot be checked.

use std::collections::HashSet;
use std::hash::Hash;

use serde_json::Value;

use super::format::{BundleCard, BundleFigure, BundleSource, SurveyBundle};
use super::{SCHEMA, SCHEMA_VERSION};
use crate::identity;
use crate::metric::SurveyMetric;
use crate::record::{
    LAST_SECOND, MOST_BYTES, MOST_PROCESSORS, MOST_RESULTS, SourceKind, SurveyValue, stored_text,
};

/// The largest file that is read.
pub const BUNDLE_BYTES: u64 = 256 << 20;
const MOST_CARDS: usize = 100_000;
const MOST_SOURCES: usize = 1_000_000;
const MOST_NAMES: usize = 100_000;
/// Figures that are not 0 lie between these.
const LEAST_VALUE: f64 = 1e-12;
const MOST_VALUE: f64 = 1e24;

/// A bundle whose every text and number was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedBundle(SurveyBundle);

impl CheckedBundle {
    pub fn bundle(&self) -> &SurveyBundle {
        &self.0
    }

    pub fn sources(&self) -> usize {
        self.0.cards.iter().map(|card| card.sources.len()).sum()
    }

    pub fn figures(&self) -> usize {
        let sources = self.0.cards.iter().flat_map(|card| &card.sources);
        sources.map(|source| source.figures.len()).sum()
    }
}

impl TryFrom<SurveyBundle> for CheckedBundle {
    type Error = String;

    fn try_from(bundle: SurveyBundle) -> Result<Self, String> {
        check(&bundle)?;
        Ok(Self(bundle))
    }
}

/// Whether the beginning of a file is that of a bundle as flashfit writes it.
pub fn is_bundle(head: &[u8]) -> bool {
    let name = format!("\"{SCHEMA}\"");
    head.windows(name.len()).any(|part| part == name.as_bytes())
}

/// Reads a bundle.
///
/// # Errors
/// What is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<CheckedBundle, String> {
    let found = serde_json::from_slice::<SurveyBundle>(bytes);
    let bundle = found.map_err(|error| match newer(bytes) {
        true => "a newer version of flashfit wrote it".to_owned(),
        false => format!("it is not a bundle that this version reads: {error}"),
    })?;
    CheckedBundle::try_from(bundle)
}

/// Whether it says that it has a later version of the schema.
fn newer(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Head {
        schema_version: u64,
    }
    let head = serde_json::from_slice::<Head>(bytes);
    head.is_ok_and(|head| head.schema_version > u64::from(SCHEMA_VERSION))
}

/// The same of a document that was parsed.
pub(crate) fn of_document(document: Value) -> Result<CheckedBundle, String> {
    let bundle = serde_json::from_value::<SurveyBundle>(document)
        .map_err(|error| format!("it is not a bundle that this version reads: {error}"))?;
    CheckedBundle::try_from(bundle)
}

/// Whether a figure is in the range of those of a bundle.
fn is_in_range(value: f64) -> bool {
    value == 0.0 || (LEAST_VALUE..=MOST_VALUE).contains(&value)
}

/// A figure with what of its interval and confidence is in the ranges of a bundle; `None` if its
/// value is not.
pub(crate) fn within_ranges(value: SurveyValue) -> Option<SurveyValue> {
    let is_ordered = value.low.zip(value.high).is_none_or(|(low, high)| low <= high);
    is_in_range(value.value).then(|| SurveyValue {
        low: value.low.filter(|_| is_ordered).map(|low| if is_in_range(low) { low } else { 0.0 }),
        high: value.high.filter(|high| is_ordered && is_in_range(*high)),
        confidence: value.confidence.filter(|share| (0.0..=1.0).contains(share)),
        ..value
    })
}

/// Whether a measure of a bundle can have this direction.
pub(super) fn is_direction(text: &str) -> bool {
    ["", "read", "write"].contains(&text)
}

fn check(bundle: &SurveyBundle) -> Result<(), String> {
    if bundle.schema != SCHEMA || bundle.schema_version != SCHEMA_VERSION {
        return Err("its schema is not that of a bundle of this version".to_owned());
    }
    text("tool_version", &bundle.tool_version)?;
    pseudonym("survey", &bundle.survey)?;
    limit("setups", bundle.setups.len(), MOST_NAMES)?;
    for of in &bundle.setups {
        for part in [&of.filesystem, &of.options, &of.scheduler] {
            text("setups", part)?;
        }
    }
    limit("measures", bundle.measures.len(), MOST_NAMES)?;
    for of in &bundle.measures {
        if SurveyMetric::of_name(&of.metric).is_none() {
            return Err("a metric is unknown to this version".to_owned());
        }
        for part in [&of.unit, &of.workload, &of.point, &of.stage, &of.length] {
            text("measures", part)?;
        }
        if !is_direction(&of.direction) {
            return Err("a direction is neither `read` nor `write`".to_owned());
        }
    }
    distinct("setups", bundle.setups.iter())?;
    distinct("measures", bundle.measures.iter())?;
    limit("cards", bundle.cards.len(), MOST_CARDS)?;
    distinct("cards", bundle.cards.iter().map(|card| &card.card))?;
    let sources = || bundle.cards.iter().flat_map(|card| &card.sources);
    limit("sources", sources().count(), MOST_SOURCES)?;
    distinct("sources", sources().map(|source| &source.source))?;
    distinct("runs", sources().map(|source| &source.run))?;
    for card in &bundle.cards {
        let of_card = |reason: String| {
            format!(
                "card {} of product `{}`: {reason}",
                stored_text(&card.card),
                stored_text(&card.product)
            )
        };
        self::card(card).map_err(of_card)?;
        for source in &card.sources {
            self::source(source).map_err(of_card)?;
            figures(&source.figures, bundle).map_err(of_card)?;
        }
    }
    Ok(())
}

fn card(card: &BundleCard) -> Result<(), String> {
    pseudonym("card", &card.card)?;
    let texts = [
        ("manufacturer", &card.manufacturer),
        ("oem", &card.oem),
        ("product", &card.product),
        ("revision", &card.revision),
        ("manufactured", &card.manufactured),
        ("name", &card.name),
    ];
    texts.into_iter().try_for_each(|(name, value)| text(name, value))?;
    if !identity::is_kind(&card.kind) {
        return Err("a card has an unknown kind".to_owned());
    }
    if card.simulated != identity::is_simulated_kind(&card.kind) {
        return Err("a card is of a simulated kind or simulated, but not both".to_owned());
    }
    number("capacity_bytes", card.capacity_bytes, MOST_BYTES)?;
    if card.sources.is_empty() {
        return Err("a card has no sources".to_owned());
    }
    Ok(())
}

fn source(source: &BundleSource) -> Result<(), String> {
    pseudonym("source", &source.source)?;
    pseudonym("run", &source.run)?;
    if SourceKind::of_name(&source.kind).is_none() {
        return Err("a source has a kind that is unknown to this version".to_owned());
    }
    let texts = [
        ("tool_version", &source.tool_version),
        ("kernel", &source.kernel),
        ("machine", &source.machine),
        ("test_bed", &source.test_bed),
        ("firmware", &source.firmware),
        ("conditions", &source.conditions),
    ];
    texts.into_iter().try_for_each(|(name, value)| text(name, value))?;
    number("day_unix_s", source.day_unix_s, LAST_SECOND)?;
    number("processors", source.processors, MOST_PROCESSORS)?;
    number("erase_block_bytes", source.erase_block_bytes, MOST_BYTES)?;
    number("write_unit_bytes", source.write_unit_bytes, MOST_BYTES)?;
    number("real_capacity_bytes", source.real_capacity_bytes, MOST_BYTES)
}

fn figures(figures: &[BundleFigure], bundle: &SurveyBundle) -> Result<(), String> {
    limit("figures", figures.len(), MOST_RESULTS)?;
    distinct("figures", figures.iter().map(|figure| (figure.setup, figure.measure)))?;
    for figure in figures {
        if figure.setup >= bundle.setups.len() || figure.measure >= bundle.measures.len() {
            return Err("a figure has an index of no setup or measure".to_owned());
        }
        let values = [Some(figure.value), figure.low, figure.high];
        if !values.into_iter().flatten().all(is_in_range) {
            return Err(format!("a figure is not 0 or between {LEAST_VALUE:e} and {MOST_VALUE:e}"));
        }
        if figure.low.zip(figure.high).is_some_and(|(low, high)| low > high) {
            return Err("an interval ends before it begins".to_owned());
        }
        if figure.confidence.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err("a confidence is not between 0 and 1".to_owned());
        }
    }
    Ok(())
}

fn text(name: &str, value: &str) -> Result<(), String> {
    match stored_text(value) == value {
        true => Ok(()),
        false => Err(format!("a text of `{name}` is too long or has control characters")),
    }
}

fn pseudonym(name: &str, value: &str) -> Result<(), String> {
    match identity::is_hash(value) {
        true => Ok(()),
        false => Err(format!("a `{name}` is not 64 hexadecimal digits")),
    }
}

fn number(name: &str, value: Option<u64>, most: u64) -> Result<(), String> {
    match value {
        Some(value) if value > most => Err(format!("a `{name}` is larger than {most}")),
        _ => Ok(()),
    }
}

fn limit(name: &str, count: usize, most: usize) -> Result<(), String> {
    match count > most {
        true => Err(format!("it has {count} {name}, more than {most}")),
        false => Ok(()),
    }
}

fn distinct<T: Hash + Eq>(name: &str, items: impl Iterator<Item = T>) -> Result<(), String> {
    let mut seen = HashSet::new();
    match items.into_iter().all(|item| seen.insert(item)) {
        true => Ok(()),
        false => Err(format!("the same is twice in `{name}`")),
    }
}
