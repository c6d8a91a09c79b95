//! Tests of states: what may be lost, and that building agrees with applying one by one.

use proptest::prelude::*;

use super::*;
use crate::blocks::{BLOCK_BYTES, BLOCK_SECTORS, BlockId, BlockPool};
use crate::log::{LogEntry, LoggedWrite, blocks_of};

const BLOCKS: u32 = 8;

fn log(requests: &[(u8, u8, u8)]) -> CrashLog {
    let mut pool = BlockPool::default();
    let mut entries = Vec::new();
    for (sector, sectors, content) in requests {
        let sector = u64::from(*sector) % 40;
        let sectors = 1 + u32::from(*sectors) % 20;
        if content % 4 == 0 {
            entries.push(LogEntry::Flush);
            continue;
        }
        let blocks = blocks_of(sector, sectors).map(|_| pool.intern(&[*content; BLOCK_BYTES]));
        let blocks = blocks.collect();
        let is_durable = content % 4 == 1;
        entries.push(LogEntry::Write(LoggedWrite { sector, sectors, blocks, is_durable }));
    }
    CrashLog {
        setup: String::new(),
        seed: 0,
        base: (0..BLOCKS).map(BlockId::unwritten).collect(),
        pool,
        entries,
        operations: Vec::new(),
    }
}

/// The bytes of a state, by applying every request to an array.
fn applied(log: &CrashLog, state: &CrashState) -> Vec<u8> {
    let mut bytes = vec![0; BLOCKS as usize * BLOCK_BYTES];
    let mut content = [0; BLOCK_BYTES];
    for (block, target) in (0..).zip(bytes.chunks_exact_mut(BLOCK_BYTES)) {
        log.pool.read(BlockId::unwritten(block), &mut content);
        target.copy_from_slice(&content);
    }
    let under_way = state.torn.iter().map(|torn| torn.entry).filter(|e| *e == state.position);
    for entry in (0..state.position).chain(under_way).filter(|e| !state.dropped.contains(e)) {
        let LogEntry::Write(write) = &log.entries[entry as usize] else { continue };
        for ((block, within), id) in blocks_of(write.sector, write.sectors).zip(&write.blocks) {
            log.pool.read(*id, &mut content);
            for sector in within {
                let place = u64::from(block * BLOCK_SECTORS + sector);
                let torn = state.torn.as_ref().filter(|torn| torn.entry == entry);
                // Units lie at multiples of their size on the device.
                let unit = |torn: &TornWrite| {
                    let size = u64::from(torn.unit_sectors);
                    u32::try_from(place / size - write.sector / size).unwrap()
                };
                if torn.is_some_and(|torn| !torn.kept_units.contains(&unit(torn))) {
                    continue;
                }
                let (at, from) = (place as usize * 512, sector as usize * 512);
                bytes[at..at + 512].copy_from_slice(&content[from..from + 512]);
            }
        }
    }
    bytes
}

fn built(log: &CrashLog, state: &CrashState) -> Vec<u8> {
    let mut pool = log.pool.clone();
    let built = StateBuilder::new(log).build(log, &mut pool, state);
    let mut bytes = Vec::new();
    let mut content = [0; BLOCK_BYTES];
    for block in 0..BLOCKS {
        pool.read(built.contents.block(block), &mut content);
        bytes.extend_from_slice(&content);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn built_states_are_those_of_applied_requests(
        requests in prop::collection::vec(any::<(u8, u8, u8)>(), 1..24),
        seed: u64,
    ) {
        let log = log(&requests);
        let flushes = FlushFault::None;
        let how = Enumeration { seed, most: 80, unit_sectors: 3, flushes, by_card: false };
        let mut builder = StateBuilder::new(&log);
        let mut pool = log.pool.clone();
        let mut seen: Vec<(Vec<u8>, u128)> = Vec::new();
        for state in enumerate(&log, &how) {
            prop_assert_eq!(state.fault(&log), None);
            let bytes = built(&log, &state);
            prop_assert_eq!(&bytes, &applied(&log, &state));
            let fingerprint = builder.build(&log, &mut pool, &state).fingerprint;
            for (other, mark) in &seen {
                prop_assert_eq!(*mark == fingerprint, other == &bytes);
            }
            seen.push((bytes, fingerprint));
        }
    }

    #[test]
    fn what_was_flushed_is_never_lost(
        requests in prop::collection::vec(any::<(u8, u8, u8)>(), 1..40),
        seed: u64,
    ) {
        let log = log(&requests);
        let flushes = FlushFault::None;
        let how = Enumeration { seed, most: 400, unit_sectors: 8, flushes, by_card: false };
        for state in enumerate(&log, &how) {
            let is_durable = |entry: &u32| {
                let entry = &log.entries[*entry as usize];
                matches!(entry, LogEntry::Write(write) if write.is_durable)
            };
            // One that bypasses the cache is torn only while it is under way.
            let torn = state.torn.iter().map(|torn| torn.entry).filter(is_durable);
            prop_assert!(torn.clone().all(|entry| entry == state.position));
            prop_assert!(!state.dropped.iter().any(is_durable));
            let flush = (0..state.position).rev().find(|e| log.entries[*e as usize].is_flush());
            let torn = state.torn.iter().map(|torn| torn.entry);
            let first = state.dropped.iter().copied().chain(torn).min();
            prop_assert!(first.is_none_or(|first| flush.is_none_or(|flush| first > flush)));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_states(
        requests in prop::collection::vec(any::<(u8, u8, u8)>(), 1..20),
        seed: u64,
    ) {
        let log = log(&requests);
        let flushes = FlushFault::One;
        let how = Enumeration { seed, most: 50, unit_sectors: 8, flushes, by_card: false };
        prop_assert_eq!(enumerate(&log, &how), enumerate(&log, &how));
    }
}

/// All states of this log would list 400 million lost requests each way.
#[test]
fn of_a_long_log_without_a_flush_some_positions_are_taken() {
    let log = log(&vec![(0, 0, 2); 20_000]);
    let how = Enumeration {
        seed: 1,
        most: 200,
        unit_sectors: 8,
        flushes: FlushFault::None,
        by_card: false,
    };
    let states = enumerate(&log, &how);
    assert_eq!(states.len(), 200);
    // The first ones, which may be all there is time for, are not the early positions.
    for some in states.chunks(IN_ORDER) {
        assert!(some.is_sorted_by_key(|state| state.position));
    }
    let half: Vec<u32> = states[..100].iter().map(|state| state.position).collect();
    assert!(half.iter().any(|at| *at < 5_000) && half.iter().any(|at| *at > 15_000), "{half:?}");
    assert!(states.iter().all(|state| state.fault(&log).is_none()));
}

/// Those of a card, too.
#[test]
fn the_first_states_are_a_sample_of_all() {
    let log = log(&(0..200).map(|n| (n, n, if n % 7 == 0 { 4 } else { n })).collect::<Vec<_>>());
    for by_card in [false, true] {
        let flushes = FlushFault::None;
        let how = Enumeration { seed: 1, most: 400, unit_sectors: 8, flushes, by_card };
        let states = enumerate(&log, &how);
        let late = |states: &[CrashState]| {
            states.iter().filter(|state| state.position > log.end() / 2).count()
        };
        let (first, all) = (late(&states[..100]), late(&states));
        assert!((20..=80).contains(&first), "{first} of 100, {all} of {}", states.len());
    }
}

/// A write of four units that begins within the first: its first part, its last part, or parts
/// between can be what arrived.
#[test]
fn a_torn_write_keeps_its_start_or_its_end_or_others() {
    let mut log = log(&[(5, 11, 1)]);
    let kept = |log: &CrashLog, position: u32| -> Vec<Vec<u32>> {
        let of_seed = |seed| {
            let flushes = FlushFault::None;
            let how = Enumeration { seed, most: 100, unit_sectors: 4, flushes, by_card: false };
            enumerate(log, &how)
        };
        let torn = |state: CrashState| {
            let torn = state.torn.filter(|_| state.position == position)?;
            assert_eq!(torn.skipped_sectors, 1);
            Some(torn.kept_units)
        };
        (0..60).flat_map(of_seed).filter_map(torn).collect()
    };
    log.entries.insert(0, LogEntry::Flush);
    let LogEntry::Write(write) = &mut log.entries[1] else { panic!("a write") };
    write.is_durable = true;
    let under_way = kept(&log, 1);
    let LogEntry::Write(write) = &mut log.entries[1] else { panic!("a write") };
    write.is_durable = false;
    for found in [under_way, kept(&log, 2)] {
        for wanted in [&[0, 1][..], &[0], &[3], &[2, 3], &[0, 3]] {
            assert!(found.iter().any(|units| units == wanted), "{wanted:?} in {found:?}");
        }
        assert!(found.iter().flatten().all(|unit| *unit < 4));
    }
}
