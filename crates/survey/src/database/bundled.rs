//! Adds a bundle: cards and sources of others, next to those of the survey, never in their place.
//!
//! Keys and addresses are made from what the bundle claims in a way that no own card or source has
//! them, so a bundle can only add rows, and they are marked by the survey that it claims to be
//! from. What this survey measured itself is recognized by its pseudonyms under all salts: it is
//! not added as a row of others, and replaces such a row when it is added later.

use std::collections::HashSet;

use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

use super::SurveyDatabase;
use super::adding::{self, CardDescription};
use crate::bundle::format::{BundleCard, BundleSource, SurveyBundle};
use crate::bundle::{BundleKeys, CheckedBundle, stored_card, stored_run, stored_source};
use crate::error::SurveyError;
use crate::identity::{CardIdentity, Salt};
use crate::record::{
    MeasuredSetup, ProbedConstruction, SourceFacts, SourceKind, SurveyMeasure, SurveyResult,
    SurveySource, SurveyValue,
};

/// Shows that a name was given by somebody else, so that it names no card of one's own.
const NAME_SUFFIX: &str = " (bundle)";

/// What a bundle added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BundleAddition {
    pub cards: u64,
    pub sources: u64,
    pub figures: u64,
    /// Sources that were there, or that this survey measured itself.
    pub present: u64,
}

impl SurveyDatabase {
    /// What makes the pseudonyms of this survey's bundles.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn bundle_keys(&self) -> Result<BundleKeys, SurveyError> {
        let query = "SELECT bytes FROM salt WHERE is_own";
        let salt: rusqlite::Result<Salt> = self.connection.query_row(query, [], |row| row.get(0));
        salt.map(BundleKeys::new).map_err(|error| self.failed(&error))
    }

    /// Adds what a bundle has, in one transaction.
    ///
    /// # Errors
    /// See [`SurveyError`]; nothing is changed then.
    pub fn add_bundle(&mut self, bundle: &CheckedBundle) -> Result<BundleAddition, SurveyError> {
        let path = self.path.clone();
        let failed = |error: rusqlite::Error| SurveyError::of(&path, &error);
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior).map_err(failed)?;
        let addition = add(&transaction, bundle.bundle()).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(addition)
    }
}

fn add(transaction: &Transaction<'_>, bundle: &SurveyBundle) -> rusqlite::Result<BundleAddition> {
    let own = own_pseudonyms(transaction)?;
    let mut addition = BundleAddition::default();
    for card in &bundle.cards {
        let mut id = None;
        for found in &card.sources {
            let source = record(card, found, bundle);
            let is_own = own.contains(&source.address) || own.contains(&source.origin);
            if is_own || exists(transaction, &source)? {
                addition.present += 1;
                continue;
            }
            let card = match id {
                Some(id) => id,
                None => {
                    let (found, is_new) = stored(transaction, card, &source.card)?;
                    addition.cards += u64::from(is_new);
                    *id.insert(found)
                }
            };
            adding::insert(transaction, &source, card, &bundle.survey)?;
            addition.sources += 1;
            addition.figures += source.results.len() as u64;
        }
    }
    Ok(addition)
}

/// The addresses and origins that a bundle's rows would have which are of this survey's own
/// sources.
pub(super) fn own_pseudonyms(transaction: &Transaction<'_>) -> rusqlite::Result<HashSet<String>> {
    let keys = all_keys(transaction)?;
    let mut query = transaction.prepare("SELECT address, origin FROM source WHERE bundle = ''")?;
    let mut rows = query.query([])?;
    let mut own = HashSet::new();
    while let Some(row) = rows.next()? {
        let (address, origin): (String, String) = (row.get(0)?, row.get(1)?);
        for keys in &keys {
            own.insert(stored_source(&keys.source(&address)));
            own.insert(stored_run(&keys.run(&origin)));
        }
    }
    Ok(own)
}

/// Removes rows from bundles that are of this source, which the survey now has itself.
pub(super) fn displace(
    transaction: &Transaction<'_>,
    source: &SurveySource,
) -> rusqlite::Result<()> {
    let mut find = transaction.prepare_cached(
        "SELECT id, card FROM source WHERE bundle <> '' AND (address = ?1 OR origin = ?2)",
    )?;
    for keys in all_keys(transaction)? {
        let address = stored_source(&keys.source(&source.address));
        let origin = stored_run(&keys.run(&source.origin));
        let found = find.query_map([address, origin], |row| Ok((row.get(0)?, row.get(1)?)))?;
        for (id, card) in found.collect::<rusqlite::Result<Vec<(i64, i64)>>>()? {
            transaction.execute("DELETE FROM source WHERE id = ?1", [id])?;
            adding::remove_if_empty(transaction, card)?;
        }
    }
    Ok(())
}

fn all_keys(transaction: &Transaction<'_>) -> rusqlite::Result<Vec<BundleKeys>> {
    let mut query = transaction.prepare_cached("SELECT bytes FROM salt ORDER BY bytes")?;
    query.query_map([], |row| row.get(0).map(BundleKeys::new))?.collect()
}

fn exists(transaction: &Transaction<'_>, source: &SurveySource) -> rusqlite::Result<bool> {
    transaction
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM source WHERE origin = ?1 OR address = ?2)")?
        .query_row([&source.origin, &source.address], |row| row.get(0))
}

/// The row of a card, and whether it was made. Another description is another card.
fn stored(
    transaction: &Transaction<'_>,
    card: &BundleCard,
    identity: &CardIdentity,
) -> rusqlite::Result<(i64, bool)> {
    let capacity = card.capacity_bytes.map_or_else(String::new, |bytes| bytes.to_string());
    let kinds = [card.individual.to_string(), card.simulated.to_string()];
    let description = [
        card.kind.as_str(),
        &card.manufacturer,
        &card.oem,
        &card.product,
        &card.revision,
        &card.manufactured,
        &capacity,
        &kinds[0],
        &kinds[1],
    ];
    let key = stored_card(&card.card, &description);
    let query = "SELECT card FROM card_key WHERE key = ?1";
    if let Some(id) = transaction.query_row(query, [&key], |row| row.get(0)).optional()? {
        return Ok((id, false));
    }
    let id = adding::new_card(
        transaction,
        &CardDescription {
            identity,
            is_simulated: card.simulated,
            is_individual: card.individual,
            name: "",
            serial: None,
        },
    )?;
    let insert = "INSERT INTO card_key (key, card) VALUES (?1, ?2)";
    transaction.execute(insert, params![key, id])?;
    if !card.name.is_empty() {
        let name = format!("{}{NAME_SUFFIX}", card.name);
        transaction.execute("UPDATE card SET name = ?2 WHERE id = ?1", params![id, name])?;
    }
    Ok((id, true))
}

fn record(card: &BundleCard, source: &BundleSource, bundle: &SurveyBundle) -> SurveySource {
    let results = source.figures.iter().map(|figure| SurveyResult {
        setup: MeasuredSetup::from(&bundle.setups[figure.setup]),
        measure: SurveyMeasure::from(&bundle.measures[figure.measure]),
        value: SurveyValue {
            value: figure.value,
            low: figure.low,
            high: figure.high,
            count: figure.count,
            confidence: figure.confidence,
        },
    });
    SurveySource {
        address: stored_source(&source.source),
        origin: stored_run(&source.run),
        former_origin: None,
        rank: 0,
        kind: SourceKind::of_name(&source.kind).expect("it was checked"),
        is_simulated: card.simulated,
        card: CardIdentity {
            kind: card.kind.clone(),
            manufacturer: card.manufacturer.clone(),
            oem: card.oem.clone(),
            product: card.product.clone(),
            revision: card.revision.clone(),
            manufactured: card.manufactured.clone(),
            capacity: card.capacity_bytes,
            serial: String::new(),
        },
        facts: SourceFacts {
            created_unix_s: source.day_unix_s,
            tool_version: source.tool_version.clone(),
            kernel: source.kernel.clone(),
            machine: source.machine.clone(),
            processors: source.processors,
            test_bed: source.test_bed.clone(),
            firmware: source.firmware.clone(),
            conditions: source.conditions.clone(),
        },
        construction: ProbedConstruction {
            erase_block: source.erase_block_bytes,
            write_unit: source.write_unit_bytes,
            capacity: source.real_capacity_bytes,
        },
        results: results.collect(),
        notes: Vec::new(),
    }
}
