//! Of which card a source is that is there already, in this or another state.
//!
//! A name and a serial number that is surely the card's identify it. The serial number of a USB
//! device may be that of a reader, so a name is surer; what has neither is of the unidentified
//! cards. The source goes to the card that is surer, and is never of two.

use rusqlite::{OptionalExtension, Transaction, params};

use super::adding;
use crate::error::SurveyError;
use crate::identity::is_reader_kind;
use crate::record::SurveySource;

/// Letters of the key of a card without a name in messages.
const SHORT_KEY: usize = 10;

/// How surely the sources of a card are of one card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CardCertainty {
    Unidentified,
    /// By a serial number that may be that of a reader.
    Reader,
    Certain,
}

fn certainty(transaction: &Transaction<'_>, card: i64) -> rusqlite::Result<CardCertainty> {
    let query = "SELECT is_individual, kind, name FROM card WHERE id = ?1";
    let (is_individual, kind, name): (bool, String, String) = transaction
        .prepare_cached(query)?
        .query_row([card], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(match is_individual {
        false => CardCertainty::Unidentified,
        true if is_reader_kind(&kind) && name.is_empty() => CardCertainty::Reader,
        true => CardCertainty::Certain,
    })
}

/// Two cards that are both said to have a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OtherCard(pub i64);

/// Assigns a source that is there to its own card or to `card`, whichever is surer; the card that
/// it has then. An error if they are as sure, and nothing is changed then.
pub(super) fn settle(
    transaction: &Transaction<'_>,
    source: &SurveySource,
    card: i64,
) -> rusqlite::Result<Result<i64, OtherCard>> {
    let query = "SELECT card FROM source WHERE origin = ?1 OR address = ?2";
    let now: Option<i64> = transaction
        .prepare_cached(query)?
        .query_row([&source.origin, &source.address], |row| row.get(0))
        .optional()?;
    let Some(now) = now.filter(|now| *now != card) else { return Ok(Ok(card)) };
    let (before, after) = (certainty(transaction, now)?, certainty(transaction, card)?);
    if before == after && before != CardCertainty::Unidentified {
        return Ok(Err(OtherCard(now)));
    }
    let mut left = now;
    if after > before {
        let change = "UPDATE source SET card = ?1 WHERE origin = ?2 OR address = ?3";
        transaction.execute(change, params![card, source.origin, source.address])?;
        left = card;
    }
    for empty in [now, card] {
        adding::remove_if_empty(transaction, empty)?;
    }
    Ok(Ok(left))
}

/// What is wrong if a source of another card is said to be of `card`.
pub(super) fn conflict(
    transaction: &Transaction<'_>,
    other: OtherCard,
    card: i64,
) -> rusqlite::Result<SurveyError> {
    let described = |card: i64| -> rusqlite::Result<(String, String)> {
        let query = "SELECT name, (SELECT key FROM card_key WHERE card = card.id
                ORDER BY sequence, key LIMIT 1)
            FROM card WHERE id = ?1";
        transaction.query_row(query, [card], |row| Ok((row.get(0)?, row.get(1)?)))
    };
    let ((before, key), (now, _)) = (described(other.0)?, described(card)?);
    Ok(match (before.is_empty(), now.is_empty()) {
        (false, false) => SurveyError::OtherName { before, now },
        (false, true) => SurveyError::OtherCard { before: format!("the card `{before}`") },
        (true, _) => {
            let key = key.get(..SHORT_KEY).unwrap_or(&key);
            SurveyError::OtherCard { before: format!("card {key}, which has no name") }
        }
    })
}

/// Gives a source that an earlier version added the origin of this version, so that it is not
/// added twice. Not that of another card, which earlier versions took for the same.
pub(super) fn adopt_origin(
    transaction: &Transaction<'_>,
    source: &SurveySource,
    card: i64,
) -> rusqlite::Result<()> {
    let Some(former) = &source.former_origin else { return Ok(()) };
    let query = "SELECT id, card FROM source WHERE origin = ?1 AND bundle = ''";
    let found: Option<(i64, i64)> =
        transaction.query_row(query, [former], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((id, before)) = found else { return Ok(()) };
    let is_alike = || -> rusqlite::Result<bool> {
        let query = "SELECT one.kind = other.kind AND one.manufacturer = other.manufacturer
                AND one.product = other.product AND one.capacity_bytes IS other.capacity_bytes
            FROM card AS one, card AS other WHERE one.id = ?1 AND other.id = ?2";
        transaction.query_row(query, [before, card], |row| row.get(0))
    };
    let least = certainty(transaction, before)?.min(certainty(transaction, card)?);
    if before == card || (least < CardCertainty::Certain && is_alike()?) {
        let change = "UPDATE OR IGNORE source SET origin = ?1 WHERE id = ?2";
        transaction.execute(change, params![source.origin, id])?;
    }
    Ok(())
}
