//! Tests of replays.

use std::collections::BTreeSet;
use std::convert::Infallible;

use flashfit_device::Bytes;

use super::*;
use crate::trace_file::TraceHeader;

const TILE: u64 = 4 << 20;

fn trace(initial: Vec<(u64, u64)>, requests: Vec<TracedRequest>) -> RecordedTrace {
    let header = TraceHeader {
        filesystem: "ext4".to_owned(),
        options: Vec::new(),
        workload: "database".to_owned(),
        card: "small".to_owned(),
        capacity: Bytes(TILE),
        fill_percent: 50,
        age_rounds: 0,
        data_size: Bytes::mib(1),
        written_by_programs: Bytes::kib(8),
        kernel: String::new(),
        mkfs: String::new(),
        seed: 1,
    };
    RecordedTrace { header, command: String::new(), initial, requests }
}

fn write(block: u64) -> TracedRequest {
    TracedRequest::Write { offset: block * BLOCK_BYTES, length: BLOCK_BYTES }
}

fn replayed(share: Share<'_>, options: ReplayOptions, windows: u32) -> Vec<TracedRequest> {
    let mut replay = Replay::new(&[share], options);
    let mut all = Vec::new();
    for _ in 0..windows {
        let served: Result<_, Infallible> = replay.window(|request| {
            all.push(request);
            Ok(())
        });
        assert!(served.is_ok());
    }
    all
}

fn blocks(requests: &[TracedRequest]) -> BTreeSet<u64> {
    let block = |request: &TracedRequest| match request {
        TracedRequest::Write { offset, .. } => Some(offset / BLOCK_BYTES),
        _ => None,
    };
    requests.iter().filter_map(block).collect()
}

const OPTIONS: ReplayOptions = ReplayOptions { tiles: 1, fill_percent: 50, trim: true, seed: 1 };

#[test]
fn places_written_once_vary_within_their_extent_and_others_stay() {
    // A file of 512 blocks; one record is written once, another one three times.
    let file = vec![(0, 512 * BLOCK_BYTES)];
    let requests = vec![write(100), write(300), write(10), write(300), write(20), write(300)];
    let trace = trace(file, requests);
    let all = replayed(Share { trace: &trace, weight: 1, tiles: 1 }, OPTIONS, 60 * 6);
    let found = blocks(&all);
    assert!(found.len() > 50, "{} places", found.len());
    assert!(found.iter().all(|&block| block < 512));
    let hot = all.iter().filter(|&&request| request == write(300)).count();
    assert!((180..190).contains(&hot), "{hot}");
}

#[test]
fn new_files_are_written_where_they_were() {
    let requests = vec![write(700), write(701), write(800)];
    let trace = trace(vec![(0, 512 * BLOCK_BYTES)], requests.clone());
    let all = replayed(Share { trace: &trace, weight: 1, tiles: 1 }, OPTIONS, 30);
    assert_eq!(blocks(&all), BTreeSet::from([700, 701, 800]));
    assert_eq!(all[..3], requests);
}

#[test]
fn a_workload_uses_all_of_its_tiles() {
    let trace = trace(Vec::new(), vec![write(5)]);
    let share = Share { trace: &trace, weight: 1, tiles: 3 };
    let all = replayed(share, ReplayOptions { tiles: 8, ..OPTIONS }, 100);
    let tile_blocks = TILE / BLOCK_BYTES;
    assert_eq!(blocks(&all), BTreeSet::from([5, 5 + tile_blocks, 5 + 2 * tile_blocks]));
}

#[test]
fn the_fill_is_reached_and_without_trim_everything_is_written() {
    let trace = trace(vec![(0, 100 * BLOCK_BYTES)], vec![write(5)]);
    let filled = |trim| {
        let share = Share { trace: &trace, weight: 1, tiles: 1 };
        let options = ReplayOptions { tiles: 2, fill_percent: 50, trim, seed: 1 };
        let mut written = 0;
        let mut replay = Replay::new(&[share], options);
        let done: Result<(), Infallible> = replay.fill(FillOrder::Random, |request| {
            let TracedRequest::Write { length, .. } = request else { panic!("{request:?}") };
            written += length;
            Ok(())
        });
        assert!(done.is_ok());
        written
    };
    assert_eq!(filled(false), 2 * TILE);
    let half = filled(true);
    assert!((TILE * 49 / 50..=TILE + 2 * BLOCK_BYTES).contains(&half), "{half}");
}
