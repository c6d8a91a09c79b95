//! Reads cards and sources.

use rusqlite::Row;

use super::SurveyDatabase;
use crate::error::SurveyError;
use crate::record::{
    LAST_SECOND, MOST_BYTES, MOST_PROCESSORS, ProbedConstruction, test_bed_kind, up_to,
};

/// A card with what was added of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCard {
    pub id: i64,
    /// Its keys, the oldest first; one for each salt with which it was added.
    pub keys: Vec<String>,
    pub kind: String,
    pub manufacturer: String,
    pub oem: String,
    pub product: String,
    pub revision: String,
    pub manufactured: String,
    pub capacity_bytes: Option<u64>,
    /// Whether it is one card; otherwise, all cards of the product that cannot be distinguished.
    pub is_individual: bool,
    pub is_simulated: bool,
    pub name: String,
    pub serial: Option<String>,
    pub sources: Vec<StoredSource>,
}

/// A source without its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSource {
    pub id: i64,
    pub address: String,
    pub origin: String,
    pub rank: u64,
    /// A name of [`crate::SourceKind`].
    pub kind: String,
    pub is_simulated: bool,
    /// A pseudonym of the survey whose bundle it is from; empty if it was measured for this one.
    pub bundle: String,
    pub created_unix_s: Option<u64>,
    pub tool_version: String,
    pub kernel: String,
    pub machine: String,
    pub processors: Option<u64>,
    pub test_bed: String,
    pub firmware: String,
    pub conditions: String,
    pub construction: ProbedConstruction,
    /// How many results it has.
    pub results: u64,
}

impl SurveyDatabase {
    /// All cards, sorted by product and key.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn cards(&self) -> Result<Vec<StoredCard>, SurveyError> {
        self.read_cards().map_err(|error| self.failed(&error))
    }

    fn read_cards(&self) -> rusqlite::Result<Vec<StoredCard>> {
        // One view of the database for all queries.
        let reading = self.connection.unchecked_transaction()?;
        let mut query = reading.prepare(
            "SELECT id, kind, manufacturer, oem, product, revision, manufactured, capacity_bytes,
                is_individual, is_simulated, name, serial FROM card",
        )?;
        let mut cards: Vec<StoredCard> =
            query.query_map([], card)?.collect::<rusqlite::Result<_>>()?;
        cards.sort_by_key(|card| card.id);
        let at = |cards: &[StoredCard], id: i64| cards.binary_search_by_key(&id, |card| card.id);
        let mut query = reading.prepare("SELECT card, key FROM card_key ORDER BY sequence, key")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            if let Ok(index) = at(&cards, row.get(0)?) {
                cards[index].keys.push(row.get(1)?);
            }
        }
        let mut query = reading.prepare(
            "SELECT id, address, kind, is_simulated, created_unix_s, tool_version, kernel, machine,
                processors, test_bed, firmware, conditions, erase_block_bytes, write_unit_bytes,
                real_capacity_bytes,
                (SELECT count(*) FROM result WHERE result.source = source.id), card, origin, rank,
                bundle
             FROM source ORDER BY created_unix_s, address",
        )?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            if let Ok(index) = at(&cards, row.get(16)?) {
                cards[index].sources.push(source(row)?);
            }
        }
        cards.sort_by(|one, other| {
            let order = |card: &StoredCard| {
                (card.is_simulated, card.kind.clone(), card.manufacturer.clone())
            };
            order(one)
                .cmp(&order(other))
                .then_with(|| one.product.cmp(&other.product))
                .then_with(|| one.keys.cmp(&other.keys))
        });
        Ok(cards)
    }

    /// Numbers that the database can be asked for, such as counts.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn count(&self, table: SurveyTable) -> Result<u64, SurveyError> {
        let query = match table {
            SurveyTable::Cards => "SELECT count(*) FROM card",
            SurveyTable::Sources => "SELECT count(*) FROM source",
            SurveyTable::Results => "SELECT count(*) FROM result",
        };
        let count = self.connection.query_row(query, [], |row| row.get::<_, i64>(0));
        count.map(unsigned).map_err(|error| self.failed(&error))
    }
}

/// What can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurveyTable {
    Cards,
    Sources,
    Results,
}

fn card(row: &Row<'_>) -> rusqlite::Result<StoredCard> {
    Ok(StoredCard {
        id: row.get(0)?,
        keys: Vec::new(),
        kind: row.get(1)?,
        manufacturer: row.get(2)?,
        oem: row.get(3)?,
        product: row.get(4)?,
        revision: row.get(5)?,
        manufactured: row.get(6)?,
        capacity_bytes: up_to(row.get::<_, Option<i64>>(7)?.map(unsigned), MOST_BYTES),
        is_individual: row.get(8)?,
        is_simulated: row.get(9)?,
        name: row.get(10)?,
        serial: row.get(11)?,
        sources: Vec::new(),
    })
}

fn source(row: &Row<'_>) -> rusqlite::Result<StoredSource> {
    let number = |column: usize, most: u64| -> rusqlite::Result<Option<u64>> {
        Ok(up_to(row.get::<_, Option<i64>>(column)?.map(unsigned), most))
    };
    // Earlier versions stored the host too.
    let test_bed: String = row.get(9)?;
    Ok(StoredSource {
        id: row.get(0)?,
        address: row.get(1)?,
        origin: row.get(17)?,
        rank: unsigned(row.get(18)?),
        kind: row.get(2)?,
        is_simulated: row.get(3)?,
        bundle: row.get(19)?,
        created_unix_s: number(4, LAST_SECOND)?,
        tool_version: row.get(5)?,
        kernel: row.get(6)?,
        machine: row.get(7)?,
        processors: number(8, MOST_PROCESSORS)?,
        test_bed: test_bed_kind(&test_bed).to_owned(),
        firmware: row.get(10)?,
        conditions: row.get(11)?,
        construction: ProbedConstruction {
            erase_block: number(12, MOST_BYTES)?,
            write_unit: number(13, MOST_BYTES)?,
            capacity: number(14, MOST_BYTES)?,
        },
        results: unsigned(row.get(15)?),
    })
}

/// Negative numbers are not written; in a damaged file they count as 0.
fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
