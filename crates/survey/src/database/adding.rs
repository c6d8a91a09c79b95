//! Adds a source: finds its card, and inserts or replaces it with its results in one transaction.
//!
//! A source that is there is not changed. Of a run that continued, the state with the most trials
//! is kept, whatever the order in which its states are added. Keys are computed with all salts of
//! the database; cards that turn out to be the same are joined.

use rusqlite::{CachedStatement, OptionalExtension, Transaction, TransactionBehavior, params};

use super::{SurveyDatabase, bundled, replacing};
use crate::error::SurveyError;
use crate::identity::{CardIdentity, Salt};
use crate::record::{
    MeasuredSetup, SurveyMeasure, SurveyResult, SurveySource, stored_text, test_bed_kind,
};

/// How a source is added.
#[derive(Debug, Clone, Default)]
pub struct AddOptions {
    /// Whether serial numbers are kept as they are, next to the hashes.
    pub with_serial: bool,
    /// What the user calls the card.
    pub name: String,
}

/// What became of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addition {
    Added,
    /// A state of the same run with fewer trials was there.
    Replaced,
    /// It was there already.
    Present,
    /// A state of the same run with more trials is there.
    Older,
}

impl SurveyDatabase {
    /// Adds a source, or nothing if it fails.
    ///
    /// # Errors
    /// See [`SurveyError`].
    pub fn add(
        &mut self,
        source: &SurveySource,
        options: &AddOptions,
    ) -> Result<Addition, SurveyError> {
        let path = self.path.clone();
        let failed = |error: rusqlite::Error| SurveyError::of(&path, &error);
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior).map_err(failed)?;
        let source = &*source.within_limits();
        let name = stored_text(&options.name);
        let keys = keys(&transaction, &source.card, &name).map_err(failed)?;
        let serial = options.with_serial.then_some(source.card.serial.as_str());
        let description = CardDescription {
            identity: &source.card,
            is_simulated: source.is_simulated,
            is_individual: source.card.is_individual(&name),
            name: &name,
            serial: serial.filter(|serial| !serial.is_empty()),
        };
        let card = card(&transaction, &keys, &description).map_err(failed)?;
        let before: String = transaction
            .query_row("SELECT name FROM card WHERE id = ?1", [card], |row| row.get(0))
            .map_err(failed)?;
        if !name.is_empty() && before != name {
            return Err(SurveyError::OtherName { before, now: name });
        }
        bundled::displace(&transaction, source).map_err(failed)?;
        replacing::adopt_origin(&transaction, source, card).map_err(failed)?;
        let addition = insert(&transaction, source, card, "").map_err(failed)?;
        if addition != Addition::Added {
            if let Err(other) = replacing::settle(&transaction, source, card).map_err(failed)? {
                return Err(replacing::conflict(&transaction, other, card).map_err(failed)?);
            }
        }
        transaction.commit().map_err(failed)?;
        Ok(addition)
    }
}

/// The key under each salt, the own one first; a name is that of this database alone.
fn keys(
    transaction: &Transaction<'_>,
    card: &CardIdentity,
    name: &str,
) -> rusqlite::Result<Vec<String>> {
    let is_by_name = !name.is_empty() && !card.has_own_serial();
    let mut query = transaction.prepare_cached(
        "SELECT bytes FROM salt WHERE is_own OR NOT ?1 ORDER BY is_own DESC, bytes",
    )?;
    let keys = query.query_map([is_by_name], |row| Ok(card.key(&row.get::<_, Salt>(0)?, name)))?;
    let mut keys: Vec<String> = keys.collect::<rusqlite::Result<_>>()?;
    keys.dedup();
    Ok(keys)
}

/// What a card's row says.
pub(super) struct CardDescription<'a> {
    pub identity: &'a CardIdentity,
    pub is_simulated: bool,
    pub is_individual: bool,
    pub name: &'a str,
    pub serial: Option<&'a str>,
}

/// The card with these keys; makes it, or joins several of which it turns out that they are one.
pub(super) fn card(
    transaction: &Transaction<'_>,
    keys: &[String],
    description: &CardDescription<'_>,
) -> rusqlite::Result<i64> {
    let mut found: Vec<i64> = Vec::new();
    let mut lookup = transaction.prepare_cached("SELECT card FROM card_key WHERE key = ?1")?;
    for key in keys {
        found.extend(lookup.query_row([key], |row| row.get::<_, i64>(0)).optional()?);
    }
    found.sort_unstable();
    found.dedup();
    let card = match found.split_first() {
        Some((first, others)) => {
            for other in others {
                join(transaction, *first, *other)?;
            }
            *first
        }
        None => new_card(transaction, description)?,
    };
    let mut insert = transaction.prepare_cached(
        "INSERT OR IGNORE INTO card_key (key, card, sequence)
         SELECT ?1, ?2, coalesce(max(sequence) + 1, 0) FROM card_key WHERE card = ?2",
    )?;
    for key in keys {
        insert.execute(params![key, card])?;
    }
    describe(transaction, card, description.name, description.serial)?;
    Ok(card)
}

pub(super) fn new_card(
    transaction: &Transaction<'_>,
    description: &CardDescription<'_>,
) -> rusqlite::Result<i64> {
    let identity = description.identity;
    transaction
        .prepare_cached(
            "INSERT INTO card (kind, manufacturer, oem, product, revision, manufactured,
                capacity_bytes, is_individual, is_simulated, name, serial)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, '', NULL)",
        )?
        .execute(params![
            identity.kind,
            identity.manufacturer,
            identity.oem,
            identity.product,
            identity.revision,
            identity.manufactured,
            identity.capacity.map(bytes),
            description.is_individual,
            description.is_simulated,
        ])?;
    Ok(transaction.last_insert_rowid())
}

/// Adds name and serial number to a card that lacks them.
fn describe(
    transaction: &Transaction<'_>,
    card: i64,
    name: &str,
    serial: Option<&str>,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE card SET name = iif(name = '', ?2, name), serial = coalesce(serial, ?3)
             WHERE id = ?1",
        )?
        .execute(params![card, name, serial])?;
    Ok(())
}

/// Removes a card without sources.
pub(super) fn remove_if_empty(transaction: &Transaction<'_>, card: i64) -> rusqlite::Result<()> {
    let is_used: bool = transaction.query_row(
        "SELECT EXISTS (SELECT 1 FROM source WHERE card = ?1)",
        [card],
        |row| row.get(0),
    )?;
    if !is_used {
        transaction.execute("DELETE FROM card_key WHERE card = ?1", [card])?;
        transaction.execute("DELETE FROM card WHERE id = ?1", [card])?;
    }
    Ok(())
}

/// Makes two cards one.
pub(super) fn join(transaction: &Transaction<'_>, kept: i64, other: i64) -> rusqlite::Result<()> {
    let (name, serial): (String, Option<String>) =
        transaction.query_row("SELECT name, serial FROM card WHERE id = ?1", [other], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    transaction.execute("UPDATE source SET card = ?1 WHERE card = ?2", [kept, other])?;
    let next: i64 = transaction.query_row(
        "SELECT coalesce(max(sequence) + 1, 0) FROM card_key WHERE card = ?1",
        [kept],
        |row| row.get(0),
    )?;
    let change = "UPDATE card_key SET card = ?1, sequence = sequence + ?3 WHERE card = ?2";
    transaction.execute(change, [kept, other, next])?;
    transaction.execute("DELETE FROM card WHERE id = ?1", [other])?;
    describe(transaction, kept, &name, serial.as_deref())
}

/// Inserts a source of a card, unless it or a later state of it is there. One that replaces an
/// earlier state is put to the card of that, see [`replacing::settle`]. `bundle` is the survey
/// that a bundle claims to be from, and empty for what was measured for this one.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    source: &SurveySource,
    card: i64,
    bundle: &str,
) -> rusqlite::Result<Addition> {
    let found = transaction
        .prepare_cached("SELECT address, rank, card FROM source WHERE origin = ?1 OR address = ?2")?
        .query_row([&source.origin, &source.address], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })
        .optional()?;
    let rank = bytes(source.rank);
    let (addition, card) = match found {
        None => (Addition::Added, card),
        Some((address, ..)) if address == source.address => return Ok(Addition::Present),
        Some((address, before, _)) if (before, &address) > (rank, &source.address) => {
            return Ok(Addition::Older);
        }
        Some((address, _, card)) => {
            transaction.execute("DELETE FROM source WHERE address = ?1", [&address])?;
            (Addition::Replaced, card)
        }
    };
    let (facts, construction) = (&source.facts, &source.construction);
    transaction
        .prepare_cached(
            "INSERT INTO source (address, origin, rank, kind, card, is_simulated, created_unix_s,
                tool_version, kernel, machine, processors, test_bed, firmware, conditions,
                erase_block_bytes, write_unit_bytes, real_capacity_bytes, bundle)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                ?18)",
        )?
        .execute(params![
            source.address,
            source.origin,
            rank,
            source.kind.name(),
            card,
            source.is_simulated,
            facts.created_unix_s.map(bytes),
            facts.tool_version,
            facts.kernel,
            facts.machine,
            facts.processors.map(bytes),
            test_bed_kind(&facts.test_bed),
            facts.firmware,
            facts.conditions,
            construction.erase_block.map(bytes),
            construction.write_unit.map(bytes),
            construction.capacity.map(bytes),
            bundle,
        ])?;
    insert_results(transaction, transaction.last_insert_rowid(), &source.results)?;
    Ok(addition)
}

fn insert_results(
    transaction: &Transaction<'_>,
    source: i64,
    results: &[SurveyResult],
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO result (source, setup, measure, value, low, high, count, confidence)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    let mut names = Names::new(transaction)?;
    for result in results {
        let (setup, measure) = (names.setup(&result.setup)?, names.measure(&result.measure)?);
        let value = &result.value;
        insert.execute(params![
            source,
            setup,
            measure,
            value.value,
            value.low,
            value.high,
            value.count,
            value.confidence
        ])?;
    }
    Ok(())
}

/// The rows of setups and measures, made when they are first used.
struct Names<'a> {
    transaction: &'a Transaction<'a>,
    find_setup: CachedStatement<'a>,
    find_measure: CachedStatement<'a>,
}

impl<'a> Names<'a> {
    fn new(transaction: &'a Transaction<'a>) -> rusqlite::Result<Self> {
        Ok(Self {
            transaction,
            find_setup: transaction.prepare_cached(
                "SELECT id FROM setup WHERE filesystem = ?1 AND options = ?2 AND scheduler = ?3",
            )?,
            find_measure: transaction.prepare_cached(
                "SELECT id FROM measure WHERE metric = ?1 AND unit = ?2 AND workload = ?3
                    AND point = ?4 AND stage = ?5 AND direction = ?6 AND length = ?7",
            )?,
        })
    }

    fn setup(&mut self, setup: &MeasuredSetup) -> rusqlite::Result<i64> {
        let values = params![setup.filesystem, setup.options, setup.scheduler];
        if let Some(id) = self.find_setup.query_row(values, |row| row.get(0)).optional()? {
            return Ok(id);
        }
        self.transaction
            .prepare_cached(
                "INSERT INTO setup (filesystem, options, scheduler) VALUES (?1, ?2, ?3)",
            )?
            .execute(values)?;
        Ok(self.transaction.last_insert_rowid())
    }

    fn measure(&mut self, of: &SurveyMeasure) -> rusqlite::Result<i64> {
        let values =
            params![of.metric, of.unit, of.workload, of.point, of.stage, of.direction, of.length];
        if let Some(id) = self.find_measure.query_row(values, |row| row.get(0)).optional()? {
            return Ok(id);
        }
        self.transaction
            .prepare_cached(
                "INSERT INTO measure (metric, unit, workload, point, stage, direction, length)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(values)?;
        Ok(self.transaction.last_insert_rowid())
    }
}

/// A number as SQLite stores it; larger ones are not possible for what is counted here.
fn bytes(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
