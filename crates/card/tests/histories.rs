//! Cards against a plain model: random histories of requests and cuts over both layers, with and
//! without a cache.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flashfit_card::{Card, CardModel, Counters, Request};
use flashfit_catalogue::Origin;
use flashfit_medium::BlockDevError;
use proptest::prelude::*;

const SECTOR: usize = 512;
const SECTORS: usize = 6 * 24;

/// Six erase units of 12 KiB (not a power of two) with pages of 2 KiB.
fn model(block_mapped: bool, cache: bool) -> CardModel {
    let layer = if block_mapped {
        "kind = \"block-mapped\"\nopen_units = 2"
    } else {
        "kind = \"page-mapped\""
    };
    let cache = if cache { "[cache]\nbytes = \"5KiB\"" } else { "" };
    let text = format!(
        "name = \"tiny\"\ntitle = \"t\"\nsource = \"s\"\ncapacity = \"72KiB\"\nsector_bytes = 512\n\
         [nand]\npage = \"2KiB\"\nerase_unit = \"12KiB\"\nread_ns = 5\nprogram_ns = 70\n\
         erase_ns = 300\nendurance_cycles = 9\nspare_units = 3\n\
         [bus]\ncommand_ns = 3\nbytes_per_second = 1_000_000_000\n\
         [layer]\n{layer}\n[discard]\ngranularity = \"2KiB\"\n{cache}\n"
    );
    CardModel::parse(&text, &Origin::File("tiny.toml".into())).unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    Read { first: usize, count: usize },
    Write { first: usize, count: usize },
    Discard { first: usize, count: usize },
    Flush,
    Cut,
}

fn range() -> impl Strategy<Value = (usize, usize)> {
    (0..SECTORS, 1..40_usize).prop_map(|(first, count)| (first, count.min(SECTORS - first)))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => range().prop_map(|(first, count)| Step::Write { first, count }),
        4 => range().prop_map(|(first, count)| Step::Read { first, count }),
        1 => range().prop_map(|(first, count)| Step::Discard { first, count }),
        1 => Just(Step::Flush),
        1 => Just(Step::Cut),
    ]
}

/// What each sector reads as, and what it may read as after a cut. A sector's value is the number
/// of the write that wrote it; 0 is a sector of zeros.
struct Plain {
    now: Vec<u64>,
    possible: Vec<Vec<u64>>,
}

impl Plain {
    fn new() -> Self {
        Self { now: vec![0; SECTORS], possible: vec![vec![0]; SECTORS] }
    }

    fn put(&mut self, first: usize, count: usize, value: u64) {
        for sector in first..first + count {
            self.now[sector] = value;
            self.possible[sector].push(value);
        }
    }

    fn settle(&mut self) {
        for (possible, &now) in self.possible.iter_mut().zip(&self.now) {
            *possible = vec![now];
        }
    }
}

fn sector_of(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(SECTOR / 8)
}

fn read(card: &mut Card, first: usize, count: usize) -> Vec<u64> {
    let mut buffer = vec![0xee; count * SECTOR];
    let offset = (first * SECTOR) as u64;
    card.serve(Request::Read { offset, buffer: &mut buffer }).unwrap();
    let value = |sector: &[u8]| {
        let value = u64::from_le_bytes(sector[..8].try_into().unwrap());
        assert_eq!(sector, sector_of(value), "a sector of two writes");
        value
    };
    buffer.chunks(SECTOR).map(value).collect()
}

/// Plays a history and checks every read; returns the counters at its end.
fn play(model: &CardModel, steps: &[Step]) -> Counters {
    let mut card = Card::new(model);
    let mut plain = Plain::new();
    let mut value = 0;
    for step in steps {
        match *step {
            Step::Read { first, count } => {
                assert_eq!(read(&mut card, first, count), plain.now[first..first + count]);
            }
            Step::Write { first, count } => {
                value += 1;
                let data = sector_of(value).repeat(count);
                let offset = (first * SECTOR) as u64;
                card.serve(Request::Write { offset, data: &data }).unwrap();
                plain.put(first, count, value);
            }
            Step::Discard { first, count } => {
                let (offset, length) = ((first * SECTOR) as u64, (count * SECTOR) as u64);
                card.serve(Request::Discard { offset, length }).unwrap();
                plain.put(first, count, 0);
            }
            Step::Flush => {
                card.serve(Request::Flush).unwrap();
                plain.settle();
            }
            Step::Cut => {
                card.power_cut();
                let refused = card.serve(Request::Flush);
                assert!(matches!(refused, Err(BlockDevError::Gone(_))));
                card.power_on();
                plain.now = read(&mut card, 0, SECTORS);
                let (now, possible) = (&plain.now, &plain.possible);
                let wrong = (0..SECTORS).find(|&at| !possible[at].contains(&now[at]));
                assert_eq!(wrong, None, "a sector that was never so");
                plain.settle();
            }
        }
        if model.cache.is_none() {
            plain.settle();
        }
    }
    assert_eq!(read(&mut card, 0, SECTORS), plain.now);
    card.counters()
}

proptest! {
    #[test]
    fn a_read_returns_what_was_last_written_and_a_cut_keeps_what_was_flushed(
        block_mapped in any::<bool>(),
        cache in any::<bool>(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let model = model(block_mapped, cache);
        let counters = play(&model, &steps);
        // The same history again gives the same counters and times.
        prop_assert_eq!(counters, play(&model, &steps));
    }
}
