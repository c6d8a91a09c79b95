//! What a campaign records of each batch of states, or of one live power cut.

use std::collections::BTreeSet;

use flashfit_card::CutReport;
use flashfit_filesystem::Promise;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::summary::StateCounts;
use crate::model::Violation;
use crate::state::CrashState;

/// States of one sort that a batch records.
const MOST_BROKEN: usize = 20;

/// States of one round that were checked one after another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateBatch {
    pub setup: String,
    pub round: u32,
    /// The states `from..to` of the round's enumeration.
    pub from: u32,
    pub to: u32,
    /// How many states were set aside for the round.
    pub most: u32,
    /// Whether the round has no more states.
    pub ends_round: bool,
    pub counts: StateCounts,
    /// States with a violation; of a promise that is not given too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<BrokenState>,
    /// A live power cut, of which a batch has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<CutRecord>,
    /// From the record before, or from the start of the command; records of earlier versions do not
    /// have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
}

/// When the power was cut, and what the device did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutRecord {
    /// Operations that were acknowledged before.
    pub acknowledged: u32,
    /// From the start of the work.
    pub after_ns: u64,
    /// That of its batch, in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Of a simulated card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<CutReport>,
}

/// A state with a violation.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct BrokenState {
    /// For `crash replay`.
    pub id: String,
    pub state: CrashState,
    pub violations: Vec<Violation>,
}

impl StateBatch {
    /// Records a state with a violation, if not enough of its sort are recorded: of those that
    /// break one of these promises, and of those that do not.
    pub(super) fn record(&mut self, found: BrokenState, keeps: &BTreeSet<Promise>) {
        let breaks = found.breaking(keeps).is_some();
        let of_its_sort = self.broken.iter().filter(|it| it.breaking(keeps).is_some() == breaks);
        if of_its_sort.count() < MOST_BROKEN {
            self.broken.push(found);
        }
    }
}

impl BrokenState {
    /// The first violation that breaks one of these promises.
    pub fn breaking(&self, keeps: &BTreeSet<Promise>) -> Option<&Violation> {
        self.violations.iter().find(|violation| keeps.contains(&violation.oracle.promise()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Oracle;

    /// Many states that break what nobody promised do not crowd out one that breaks a promise.
    #[test]
    fn a_batch_records_what_breaks_a_promise_besides_what_does_not() {
        let keeps = BTreeSet::from([Promise::Synced]);
        let found = |number: u32, oracle| BrokenState {
            id: format!("ext4/0/{number}"),
            state: CrashState::complete(number),
            violations: vec![Violation::new(oracle, "")],
        };
        let mut batch = StateBatch {
            setup: "ext4".to_owned(),
            round: 0,
            from: 0,
            to: 31,
            most: 31,
            ends_round: true,
            counts: StateCounts::default(),
            broken: Vec::new(),
            cut: None,
            elapsed_ns: None,
        };
        for number in 0..30 {
            batch.record(found(number, Oracle::NameOrder), &keeps);
        }
        batch.record(found(30, Oracle::SyncedName), &keeps);
        assert_eq!(batch.broken.len(), MOST_BROKEN + 1);
        assert!(batch.broken[MOST_BROKEN].breaking(&keeps).is_some());
    }
}
