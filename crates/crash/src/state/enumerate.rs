//! The states of a log that are worth checking.
//!
//! At every position: all requests there, none of those since the last flush, one missing, one
//! only, a random subset, and the last write torn at write units: its first units, its last ones,
//! or random ones are there. The same of a write that bypasses the cache and is under way. Where a
//! flush ends a group of requests, each of them is once the missing one and once the only one. From
//! these, as many as are wanted are drawn. Of a long log, positions are drawn first.
//!
//! States come in random order, so that the first ones are a fair sample when there is no time for
//! the rest. A few at a time are in the order of their positions, in which they are built fastest.

use std::collections::HashSet;

use flashfit_device::random::Random;

use super::{CrashState, FlushFault, TornWrite, window};
use crate::log::{CrashLog, LogEntry, LoggedWrite};

/// Of more requests since the last flush, random ones are taken in turn.
const MOST_IN_TURN: usize = 24;

/// Of longer logs, not every position is taken.
const LONG_LOG: u32 = 10_000;
/// Requests that the states of a long log may list as lost, all together: 256 MiB.
const MOST_LISTED: usize = 1 << 26;

/// So many states in a row are in the order of their positions; a fair sample ends at a multiple.
pub const IN_ORDER: usize = 20;
/// Increased whenever the same log and seed give other states, or give them in another order.
pub const ENUMERATION: u32 = 2;

/// How states are enumerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enumeration {
    pub seed: u64,
    /// The most states, drawn evenly from all.
    pub most: usize,
    /// Sectors that a write leaves or takes together.
    pub unit_sectors: u32,
    pub flushes: FlushFault,
    /// Whether a simulated card decides what is there.
    pub by_card: bool,
}

/// States of a log in random order, without duplicates; [`IN_ORDER`] of them at a time are sorted.
pub fn enumerate(log: &CrashLog, how: &Enumeration) -> Vec<CrashState> {
    let mut random = Random::new(how.seed);
    let mut states = if how.by_card {
        by_card(log, how.most, &mut random)
    } else {
        by_model(log, how, &mut random)
    };
    for some in states.chunks_mut(IN_ORDER) {
        some.sort_by(|a, b| (a.position, &a.dropped).cmp(&(b.position, &b.dropped)));
    }
    states
}

/// States of a device that keeps its promises, or ignores flushes.
fn by_model(log: &CrashLog, how: &Enumeration, random: &mut Random) -> Vec<CrashState> {
    let mut states = Vec::new();
    if log.end() > LONG_LOG {
        at_some(log, how, random, &mut states);
    } else {
        for position in 1..=log.end() {
            at(log, position, how, random, &mut states);
        }
    }
    let mut known = HashSet::new();
    states.retain(|state| known.insert(state.clone()));
    random.shuffle(&mut states);
    states.truncate(how.most);
    states
}

/// States at random positions, until there are enough.
fn at_some(log: &CrashLog, how: &Enumeration, random: &mut Random, states: &mut Vec<CrashState>) {
    let mut positions: Vec<u32> = (1..=log.end()).collect();
    random.shuffle(&mut positions);
    let mut listed = 0;
    for position in positions {
        if states.len() >= how.most || listed > MOST_LISTED {
            return;
        }
        let known = states.len();
        at(log, position, how, random, states);
        listed += states[known..].iter().map(|state| state.dropped.len()).sum::<usize>();
    }
}

/// Power cuts of a card at random positions.
fn by_card(log: &CrashLog, most: usize, random: &mut Random) -> Vec<CrashState> {
    (0..most)
        .map(|_| {
            let position = 1 + random.below(u64::from(log.end().max(1)));
            let position = u32::try_from(position).expect("logs are short").min(log.end());
            CrashState { cut_seed: Some(random.next_u64()), ..CrashState::complete(position) }
        })
        .collect()
}

fn at(
    log: &CrashLog,
    position: u32,
    how: &Enumeration,
    random: &mut Random,
    states: &mut Vec<CrashState>,
) {
    let ignored = ignored_flush(log, position, how.flushes, random);
    let volatile = window(log, position, |entry| match how.flushes {
        FlushFault::None => false,
        FlushFault::One => Some(entry) == ignored,
        FlushFault::All => true,
    });
    states.push(CrashState::complete(position));
    if let Some(LogEntry::Write(LoggedWrite { is_durable: true, .. })) =
        log.entries.get(position as usize)
    {
        states.extend(torn(log, position, position, how.unit_sectors, random));
    }
    let Some(last) = volatile.last().copied() else { return };
    let dropping = |dropped: Vec<u32>| CrashState { dropped, ..CrashState::complete(position) };
    let without = |index: usize| vec![volatile[index]];
    let only = |index: usize| {
        volatile.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, e)| *e).collect()
    };
    states.push(dropping(volatile.clone()));
    let count = volatile.len();
    let next_is_flush = log.entries.get(position as usize).is_none_or(LogEntry::is_flush);
    if next_is_flush && count > 1 {
        let mut indexes: Vec<usize> = (0..count).collect();
        if count > MOST_IN_TURN {
            random.shuffle(&mut indexes);
            indexes.truncate(MOST_IN_TURN);
        }
        for index in indexes {
            states.push(dropping(without(index)));
            states.push(dropping(only(index)));
        }
    } else if count > 1 {
        let mut any = || index_below(random, count);
        let (missing, kept) = (any(), any());
        states.push(dropping(without(missing)));
        states.push(dropping(only(kept)));
    }
    if count > 2 {
        let subset = volatile.iter().copied().filter(|_| random.below(2) == 0).collect();
        states.push(dropping(subset));
    }
    if last + 1 == position {
        states.extend(torn(log, position, last, how.unit_sectors, random));
    }
}

/// A write torn, with all before it there.
fn torn(
    log: &CrashLog,
    position: u32,
    entry: u32,
    unit_sectors: u32,
    random: &mut Random,
) -> Option<CrashState> {
    let LogEntry::Write(write) = &log.entries[entry as usize] else { return None };
    let skipped = write.sector % u64::from(unit_sectors);
    let skipped_sectors = u32::try_from(skipped).expect("less than a unit");
    let units = (skipped_sectors + write.sectors).div_ceil(unit_sectors);
    if units < 2 {
        return None;
    }
    let middle = 1 + random.below(u64::from(units) - 1);
    let middle = u32::try_from(middle).expect("fewer than the units");
    let kept_units = match random.below(3) {
        0 => (0..middle).collect(),
        1 => (middle..units).collect(),
        _ => (0..units).filter(|_| random.below(2) == 0).collect(),
    };
    let torn = TornWrite { entry, unit_sectors, skipped_sectors, kept_units };
    Some(CrashState { torn: Some(torn), ..CrashState::complete(position) })
}

fn ignored_flush(
    log: &CrashLog,
    position: u32,
    faults: FlushFault,
    random: &mut Random,
) -> Option<u32> {
    if faults != FlushFault::One {
        return None;
    }
    let flushes: Vec<u32> =
        (0..position).filter(|entry| log.entries[*entry as usize].is_flush()).collect();
    // The last ones matter most: an older flush is covered by later ones.
    let recent = &flushes[flushes.len().saturating_sub(2)..];
    (!recent.is_empty()).then(|| recent[index_below(random, recent.len())])
}

fn index_below(random: &mut Random, count: usize) -> usize {
    usize::try_from(random.below(count as u64)).expect("below a usize")
}
