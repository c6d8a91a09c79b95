//! Checks the states of a log one after another, and counts what was found.
//!
//! Some states get a second power cut during their recovery; some that are equivalent to one before
//! are looked at nevertheless.

use std::collections::BTreeSet;

use flashfit_filesystem::Promise;

use super::batch::{BrokenState, StateBatch};
use crate::CrashError;
use crate::equivalence::Equivalence;
use crate::examination::StateExamination;
use crate::log::LogEntry;
use crate::state::{BuiltState, CrashState, RecoveryCut};

/// Of the equivalent states, one in so many is looked at nevertheless.
const RECHECK_ONE_IN: u64 = 50;
/// Of the states looked at, one in so many gets a power cut during its recovery.
const RECOVERY_CUT_ONE_IN: u64 = 25;

/// When no further state is checked.
#[derive(Clone, Copy)]
pub(super) struct Stops<'a> {
    pub is_over: &'a dyn Fn() -> bool,
    pub is_interrupted: &'a dyn Fn() -> bool,
}

/// Checks states one after another; returns how many, which are fewer if the time is over.
pub(super) fn check(
    examination: &mut StateExamination<'_>,
    states: &[CrashState],
    batch: &mut StateBatch,
    keeps: &BTreeSet<Promise>,
    stops: Stops<'_>,
) -> Result<usize, CrashError> {
    for (index, state) in states.iter().enumerate() {
        if (stops.is_over)() {
            return Ok(index);
        }
        let built = examination.build(state);
        let id = format!("{}/{}/{}", batch.setup, batch.round, batch.from as usize + index);
        let turn = batch.counts.mounted + offset(batch);
        let is_turn = turn % RECOVERY_CUT_ONE_IN == 0;
        // What a card writes during recovery is not recorded.
        let cuts = is_turn && state.cut_seed.is_none();
        let log = match check_one(examination, state, &built, &id, cuts, batch, keeps) {
            // An interrupt ends the programs that look at a state.
            Err(_) if (stops.is_interrupted)() => return Ok(index),
            other => other?,
        };
        if let Some(cut) = recovery_cut(log.len(), turn).filter(|_| cuts) {
            let second = examination.build_recovery(&built, &log, &cut);
            let state = CrashState { recovery: Some(cut), ..state.clone() };
            let id = format!("{id}r");
            match check_one(examination, &state, &second, &id, false, batch, keeps) {
                Err(_) if (stops.is_interrupted)() => return Ok(index + 1),
                other => other?,
            };
            batch.counts.recovery_cuts += 1;
        }
    }
    Ok(states.len())
}

/// Checks one state; returns the requests of its recovery where it was looked at and they were
/// asked for.
fn check_one(
    examination: &mut StateExamination<'_>,
    state: &CrashState,
    built: &BuiltState,
    id: &str,
    record_recovery: bool,
    batch: &mut StateBatch,
    keeps: &BTreeSet<Promise>,
) -> Result<Vec<LogEntry>, CrashError> {
    let mut examined = examination.examine(state, built, record_recovery)?;
    let offset = offset(batch);
    let counts = &mut batch.counts;
    let hits = match examined.equivalence {
        None => &mut counts.mounted,
        Some(Equivalence::Bytes) => &mut counts.same_bytes,
        Some(Equivalence::Reads) => &mut counts.same_reads,
    };
    let is_turn = examined.equivalence.is_some() && (*hits + offset) % RECHECK_ONE_IN == 0;
    if is_turn {
        counts.rechecked += 1;
        let again = examination.look(state, built, false)?;
        if again.violations != examined.violations {
            counts.mismatched += 1;
            // What the kernel made of it counts.
            examined.violations = again.violations;
        }
    }
    *hits += 1;
    let took = u64::try_from(examined.recovery.as_millis()).unwrap_or(u64::MAX);
    counts.longest_recovery_ms = counts.longest_recovery_ms.max(took);
    counts.count(&examined.violations, keeps);
    for class in &built.happened {
        counts.faults.entry(*class).or_default().count(&examined.violations, keeps);
    }
    if state.ignores_flush(examination.log()) {
        counts.ignored_flushes.count(&examined.violations, keeps);
    }
    if !examined.violations.is_empty() {
        let (id, state) = (id.to_owned(), state.clone());
        batch.record(BrokenState { id, state, violations: examined.violations }, keeps);
    }
    Ok(examined.recovery_log)
}

/// Batches have few states, the first of them at early positions of the log: the turn comes at
/// others in each round.
fn offset(batch: &StateBatch) -> u64 {
    u64::from(batch.round) * 7
}

/// A second power cut somewhere in a recovery of so many requests.
fn recovery_cut(requests: usize, random: u64) -> Option<RecoveryCut> {
    let position = 1 + random.wrapping_mul(7919).checked_rem(requests as u64)?;
    let position = u32::try_from(position).expect("recoveries are short");
    Some(RecoveryCut { position, drops_unflushed: random % 2 == 0 })
}
