//! Checks the states of a log one after another, and counts what was found.
//!
//! Some states get a second power cut during their recovery; some that are equivalent to one before
//! are looked at nevertheless.

use std::collections::BTreeSet;

use flashfit_device::random::Random;
use flashfit_filesystem::Promise;

use super::batch::{BrokenState, StateBatch};
use crate::CrashError;
use crate::equivalence::Equivalence;
use crate::examination::StateExamination;
use crate::log::LogEntry;
use crate::state::{BuiltState, CrashState, IN_ORDER, RecoveryCut};

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

/// Checks states one after another; returns how many, which are fewer if the time is over or at an
/// interrupt. Those of the batch are a fair sample then, too. Second power cuts are drawn from the
/// seed.
pub(super) fn check(
    examination: &mut StateExamination<'_>,
    states: &[CrashState],
    seed: u64,
    batch: &mut StateBatch,
    keeps: &BTreeSet<Promise>,
    stops: Stops<'_>,
) -> Result<usize, CrashError> {
    let mut fair = (0, batch.clone());
    let fair_part = |(count, part): (usize, StateBatch), batch: &mut StateBatch| {
        *batch = part;
        Ok(count)
    };
    for (index, state) in states.iter().enumerate() {
        let number = batch.from as usize + index;
        // In between, those that are checked are rather those at early positions.
        if number % IN_ORDER == 0 {
            if (stops.is_over)() {
                return Ok(index);
            }
            fair = (index, batch.clone());
        }
        if (stops.is_interrupted)() {
            return fair_part(fair, batch);
        }
        let built = examination.build(state);
        let id = format!("{}/{}/{number}", batch.setup, batch.round);
        let turn = batch.counts.mounted + offset(batch);
        let is_turn = turn % RECOVERY_CUT_ONE_IN == 0;
        // What a card writes during recovery is not recorded.
        let cuts = is_turn && state.cut_seed.is_none();
        let log = match check_one(examination, state, &built, &id, cuts, batch, keeps) {
            // An interrupt ends the programs that look at a state.
            Err(_) if (stops.is_interrupted)() => return fair_part(fair, batch),
            other => other?,
        };
        if let Some(cut) = recovery_cut(log.len(), seed, number as u64).filter(|_| cuts) {
            let second = examination.build_recovery(&built, &log, &cut);
            let state = CrashState { recovery: Some(cut), ..state.clone() };
            let id = format!("{id}r");
            match check_one(examination, &state, &second, &id, false, batch, keeps) {
                Err(_) if (stops.is_interrupted)() => return fair_part(fair, batch),
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
        let again = examination.look(state, built, false)?;
        counts.rechecked += 1;
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

/// A second power cut somewhere in a recovery of so many requests, of a state of a round.
fn recovery_cut(requests: usize, seed: u64, state: u64) -> Option<RecoveryCut> {
    if requests == 0 {
        return None;
    }
    let mut random = Random::new(seed.rotate_left(32) ^ state);
    let position = 1 + random.below(requests as u64);
    let position = u32::try_from(position).expect("recoveries are short");
    Some(RecoveryCut { position, drops_unflushed: random.below(2) == 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_cuts_come_at_all_positions_with_and_without_what_was_not_flushed() {
        for requests in [10, 25, 50] {
            let mut cuts = BTreeSet::new();
            for seed in 0..100 {
                for turn in 0..20 {
                    let cut = recovery_cut(requests, seed, turn * RECOVERY_CUT_ONE_IN).unwrap();
                    cuts.insert((cut.position, cut.drops_unflushed));
                }
            }
            let last = u32::try_from(requests).unwrap();
            let all = (1..=last).flat_map(|position| [(position, false), (position, true)]);
            assert_eq!(cuts, all.collect());
        }
        assert_eq!(recovery_cut(0, 1, 1), None);
        assert_eq!(recovery_cut(50, 1, 7), recovery_cut(50, 1, 7));
    }
}
