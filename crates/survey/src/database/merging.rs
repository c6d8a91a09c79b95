//! Merges another survey: the union of sources, and of what is known about which are of one card.
//!
//! The other file may be a stranger's: it is opened as any survey, and what is read goes through
//! the limits of an addition. Keys stay as they are, and the salts are adopted. Two cards with keys
//! of different salts are one if both surveys have a source in common, or as soon as a source of
//! the card is added again. Names are kept; of two names of one card, the first in the alphabet.

use std::collections::HashSet;

use rusqlite::{Transaction, TransactionBehavior, params};

use super::adding::{self, Addition, CardDescription};
use super::replacing::{self, OtherCard};
use super::{ResultTable, StoredCard, StoredSource, SurveyDatabase, bundled};
use crate::bundle::within_ranges;
use crate::error::SurveyError;
use crate::identity::{CardIdentity, Salt, is_hash};
use crate::record::{
    MOST_RESULTS, MeasuredSetup, SourceFacts, SourceKind, SurveyMeasure, SurveyResult,
    SurveySource, stored_text,
};

/// What a merge changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergedSurvey {
    pub added: u64,
    pub replaced: u64,
    /// There already, in this or a later state.
    pub present: u64,
}

impl SurveyDatabase {
    /// Adds all that another survey has, in one transaction.
    ///
    /// # Errors
    /// See [`SurveyError`]; nothing is changed then.
    pub fn merge(&mut self, other: &Self, with_serial: bool) -> Result<MergedSurvey, SurveyError> {
        let (cards, results) = (other.cards()?, other.results()?);
        let salts = other.salts().map_err(|error| other.failed(&error))?;
        let foreign = |reason: &str| SurveyError::Foreign {
            path: other.path.clone(),
            reason: reason.to_owned(),
        };
        let path = self.path.clone();
        let failed = |error: rusqlite::Error| SurveyError::of(&path, &error);
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior).map_err(failed)?;
        adopt_salts(&transaction, &salts).map_err(failed)?;
        let mut merged = MergedSurvey::default();
        // Rows from bundles come last: those that are of this survey's own sources are left out.
        for is_bundled in [false, true] {
            let own = if is_bundled {
                bundled::own_pseudonyms(&transaction).map_err(failed)?
            } else {
                HashSet::new()
            };
            for stored in &cards {
                if !stored.keys.iter().all(|key| is_hash(key)) || stored.keys.is_empty() {
                    return Err(foreign("it has a card without a valid key"));
                }
                let identity = identity(stored);
                let wanted = |source: &&StoredSource| source.bundle.is_empty() != is_bundled;
                for found in stored.sources.iter().filter(wanted) {
                    if is_bundled && !is_hash(&found.bundle) {
                        return Err(foreign("it has a source of a bundle without a valid origin"));
                    }
                    if own.contains(&found.address) || own.contains(&found.origin) {
                        merged.present += 1;
                        continue;
                    }
                    let source = record(found, &identity, &results).map_err(foreign)?;
                    let merge = (stored, &source, found.bundle.as_str());
                    match merge_source(&transaction, merge, with_serial).map_err(failed)? {
                        Addition::Added => merged.added += 1,
                        Addition::Replaced => merged.replaced += 1,
                        Addition::Present | Addition::Older => merged.present += 1,
                    }
                }
            }
        }
        transaction.commit().map_err(failed)?;
        Ok(merged)
    }

    /// The keys of a device under all salts.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn keys_of(&self, card: &CardIdentity) -> Result<Vec<String>, SurveyError> {
        let salts = self.salts().map_err(|error| self.failed(&error))?;
        Ok(salts.iter().map(|(salt, _)| card.key(salt, "")).collect())
    }

    /// The salts, and whether each is the survey's own.
    fn salts(&self) -> rusqlite::Result<Vec<(Salt, bool)>> {
        let mut query = self.connection.prepare("SELECT bytes, is_own FROM salt ORDER BY bytes")?;
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }
}

/// Keeps the salts of the other survey. One without cards takes its own salt from there, so that
/// keys are equal in both.
fn adopt_salts(transaction: &Transaction<'_>, salts: &[(Salt, bool)]) -> rusqlite::Result<()> {
    let is_empty: bool =
        transaction.query_row("SELECT NOT EXISTS (SELECT 1 FROM card)", [], |row| row.get(0))?;
    if is_empty && salts.iter().any(|(_, is_own)| *is_own) {
        transaction.execute("DELETE FROM salt", [])?;
    }
    for (salt, is_own) in salts {
        let is_own = is_empty && *is_own;
        transaction.execute(
            "INSERT OR IGNORE INTO salt (bytes, is_own) VALUES (?1, ?2)",
            params![salt, is_own],
        )?;
    }
    Ok(())
}

fn merge_source(
    transaction: &Transaction<'_>,
    (stored, source, bundle): (&StoredCard, &SurveySource, &str),
    with_serial: bool,
) -> rusqlite::Result<Addition> {
    if bundle.is_empty() {
        bundled::displace(transaction, source)?;
    }
    let source = &*source.within_limits();
    let name = stored_text(&stored.name);
    let description = CardDescription {
        identity: &source.card,
        is_simulated: stored.is_simulated,
        is_individual: stored.is_individual,
        name: &name,
        serial: stored.serial.as_deref().filter(|_| with_serial),
    };
    let mut card = adding::card(transaction, &stored.keys, &description)?;
    let addition = adding::insert(transaction, source, card, bundle)?;
    if addition != Addition::Added {
        card = same_card(transaction, source, card)?;
    }
    first_name(transaction, card, &name)?;
    Ok(addition)
}

/// A source that both surveys have shows that its cards are one; the card that is left.
fn same_card(
    transaction: &Transaction<'_>,
    source: &SurveySource,
    card: i64,
) -> rusqlite::Result<i64> {
    match replacing::settle(transaction, source, card)? {
        Ok(card) => Ok(card),
        Err(OtherCard(now)) => {
            adding::join(transaction, now, card)?;
            Ok(now)
        }
    }
}

fn first_name(transaction: &Transaction<'_>, card: i64, name: &str) -> rusqlite::Result<()> {
    if !name.is_empty() {
        let change = "UPDATE card SET name = min(name, ?2) WHERE id = ?1 AND name <> ''";
        transaction.execute(change, params![card, name])?;
    }
    Ok(())
}

fn identity(card: &StoredCard) -> CardIdentity {
    CardIdentity {
        kind: stored_text(&card.kind),
        manufacturer: stored_text(&card.manufacturer),
        oem: stored_text(&card.oem),
        product: stored_text(&card.product),
        revision: stored_text(&card.revision),
        manufactured: stored_text(&card.manufactured),
        capacity: card.capacity_bytes,
        serial: String::new(),
    }
}

/// A source of another survey as one that is added; the reason, if it cannot be.
fn record(
    source: &StoredSource,
    card: &CardIdentity,
    results: &ResultTable,
) -> Result<SurveySource, &'static str> {
    let kind = SourceKind::of_name(&source.kind)
        .ok_or("it has a source of a kind that this version does not know")?;
    if !is_hash(&source.address) || !is_hash(&source.origin) {
        return Err("it has a source without a valid address");
    }
    let rows = results.of_source(source.id);
    if rows.len() > MOST_RESULTS {
        return Err("it has a source with too many results");
    }
    let results = rows.iter().filter_map(|row| {
        Some(SurveyResult {
            setup: stored_setup(&results.setups[row.setup]),
            measure: stored_measure(&results.measures[row.measure]),
            value: within_ranges(row.value)?,
        })
    });
    Ok(SurveySource {
        address: source.address.clone(),
        origin: source.origin.clone(),
        former_origin: None,
        rank: source.rank,
        kind,
        is_simulated: source.is_simulated,
        card: card.clone(),
        facts: SourceFacts {
            created_unix_s: source.created_unix_s,
            tool_version: stored_text(&source.tool_version),
            kernel: stored_text(&source.kernel),
            machine: stored_text(&source.machine),
            processors: source.processors,
            test_bed: stored_text(&source.test_bed),
            firmware: stored_text(&source.firmware),
            conditions: stored_text(&source.conditions),
        },
        construction: source.construction,
        results: results.collect(),
        notes: Vec::new(),
    })
}

fn stored_setup(setup: &MeasuredSetup) -> MeasuredSetup {
    MeasuredSetup {
        filesystem: stored_text(&setup.filesystem),
        options: stored_text(&setup.options),
        scheduler: stored_text(&setup.scheduler),
    }
}

fn stored_measure(of: &SurveyMeasure) -> SurveyMeasure {
    SurveyMeasure {
        metric: stored_text(&of.metric),
        unit: stored_text(&of.unit),
        workload: stored_text(&of.workload),
        point: stored_text(&of.point),
        stage: stored_text(&of.stage),
        direction: stored_text(&of.direction),
        length: stored_text(&of.length),
    }
}
