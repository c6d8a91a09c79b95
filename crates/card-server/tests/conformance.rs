//! One card behind three sockets: the same history through each, and every byte read and every
//! counter compared. Needs root, FUSE and loop devices for the one through the kernel.
//!
//! What is compared with the card in the process is all but times where those depend on when
//! requests arrive: `busy_ns` and `merge_ns` of a card with a command queue, and `background_ns`.
//! A write with FUA is in the process, and on a loop device, which has none, a write and a flush.
//! Requests are so small that the kernel sends each in one piece, and all end before a cut, so that
//! none is under way. A flush reaches a card only where it has a cache.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/device.rs"]
mod device;
#[path = "support/nbd_client.rs"]
mod nbd_client;
#[path = "support/serving.rs"]
mod serving;
#[path = "support/ways.rs"]
mod ways;

use std::path::Path;
use std::process::ExitCode;

use flashfit_card::{CardModel, Counters};
use flashfit_catalog::Origin;
use flashfit_device::random::Random;
use flashfit_test_support::{simulated_cards, skip_part};
use serving::{run_all, served_here};
use ways::{InProcess, Kernel, Nbd, Way};

const CARD: &str = r#"
name = "conforming"
title = "a card for tests"
source = "none"
capacity = "8MiB"
sector_bytes = 512
[nand]
page = "16KiB"
erase_unit = "256KiB"
read_ns = 1000
program_ns = 2000
erase_ns = 10000
endurance_cycles = 100000
spare_units = 8
[bus]
command_ns = 1000
bytes_per_second = 1_000_000_000
"#;
const PAGE_MAPPED: &str = "[layer]\nkind = \"page-mapped\"\n";
const BLOCK_MAPPED: &str = "[layer]\nkind = \"block-mapped\"\nopen_units = 4\n\
                            open_units_random = 2\n";
const DISCARD: &str = "[discard]\ngranularity = \"16KiB\"\n";
const CACHE: &str = "[cache]\nbytes = \"64KiB\"\n";
const QUEUE: &str = "[queue]\ndepth = 32\n";
const STEPS: usize = 400;

fn main() -> ExitCode {
    if let Some(ended) = served_here() {
        return ended;
    }
    run_all(&[
        ("block_mapped", || conforms(&format!("{CARD}{BLOCK_MAPPED}"), 1)),
        ("page_mapped_with_discard", || conforms(&format!("{CARD}{PAGE_MAPPED}{DISCARD}"), 2)),
        ("cached_with_discard", || conforms(&format!("{CARD}{PAGE_MAPPED}{DISCARD}{CACHE}"), 3)),
        ("cached_block_mapped", || conforms(&format!("{CARD}{BLOCK_MAPPED}{CACHE}"), 4)),
        ("queued", || {
            let dies = CARD.replace("[bus]", "dies = 2\n[bus]");
            conforms(&format!("{dies}{PAGE_MAPPED}{DISCARD}{CACHE}{QUEUE}"), 5);
        }),
        ("large_sectors_with_work_in_idle_time", || {
            let large = CARD.replace("sector_bytes = 512", "sector_bytes = 4096");
            let background = "[background]\nafter_ns = 60000000000\n";
            conforms(&format!("{large}{PAGE_MAPPED}{DISCARD}{background}"), 6);
        }),
    ])
}

/// A step of a history.
#[derive(Debug, Clone)]
enum Step {
    Read { offset: u64, length: usize },
    Write { offset: u64, length: usize, byte: u8, forced: bool },
    Flush,
    Discard { offset: u64, length: u64 },
    Zeros { offset: u64, length: u64 },
    Reset,
    Idle { duration_ns: u64 },
    Cut { seed: u64 },
    SaveAndLoad,
}

fn history(model: &CardModel, seed: u64) -> Vec<Step> {
    let mut random = Random::new(seed);
    let discards = model.discard.is_some();
    let cached = model.cache.is_some();
    (0..STEPS)
        .map(|number| {
            let (offset, length) = range(&mut random, u64::from(model.sector_bytes), model);
            match random.below(100) {
                _ if number == STEPS / 3 => Step::SaveAndLoad,
                _ if number % 97 == 96 => Step::Cut { seed: random.next_u64() },
                0..35 => Step::Read { offset, length: length as usize },
                35..75 => Step::Write {
                    offset,
                    length: length as usize,
                    byte: random.below(255) as u8 + 1,
                    forced: cached && random.below(8) == 0,
                },
                75..80 if cached => Step::Flush,
                80..87 if discards => Step::Discard { offset, length },
                87..93 => Step::Zeros { offset, length },
                93..96 => Step::Reset,
                96..98 => Step::Idle { duration_ns: 7_200_000_000_000 },
                _ => Step::Read { offset: 0, length: 65536 },
            }
        })
        .collect()
}

/// A few sectors, or up to 128 KiB; more often near the beginning.
fn range(random: &mut Random, sector: u64, model: &CardModel) -> (u64, u64) {
    let most = if random.below(2) == 0 { 8 } else { (128 << 10) / sector };
    let length = (random.below(most) + 1) * sector;
    let space = if random.below(2) == 0 { 1 << 20 } else { model.capacity.0 };
    (random.below((space - length) / sector + 1) * sector, length)
}

fn conforms(text: &str, seed: u64) {
    let model = CardModel::parse(text, &Origin::File("card.toml".into())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let card = folder.path().join("card.toml");
    std::fs::write(&card, text).unwrap();
    let steps = history(&model, seed);
    let wanted = run(InProcess::new(&model), &model, &steps, folder.path());
    let over_nbd = run(Nbd::new(&card), &model, &steps, folder.path());
    compare("NBD", &steps, &wanted, &over_nbd);
    if !skip_part(simulated_cards()) {
        let on_loop = run(Kernel::new(&card), &model, &steps, folder.path());
        compare("the loop device", &steps, &wanted, &on_loop);
    }
}

/// What a step showed: the bytes it read, or whether it failed; and the counters after it.
type Shown = (Result<Vec<u8>, ()>, Counters);

fn run(mut way: impl Way, model: &CardModel, steps: &[Step], folder: &Path) -> Vec<Shown> {
    let timed = model.queue.depth == 1;
    let shown = steps
        .iter()
        .map(|step| {
            let result = make(&mut way, step, folder);
            let mut counters = way.counters();
            counters.background_ns = 0;
            if !timed {
                (counters.busy_ns, counters.merge_ns) = (0, 0);
            }
            (result, counters)
        })
        .collect();
    way.end();
    shown
}

fn make(way: &mut impl Way, step: &Step, folder: &Path) -> Result<Vec<u8>, ()> {
    let nothing = |()| Vec::new();
    match *step {
        Step::Read { offset, length } => way.read(offset, length),
        Step::Write { offset, length, byte, forced } => {
            let data: Vec<u8> = (0..length).map(|at| byte ^ (at >> 9) as u8).collect();
            way.write(offset, &data, forced).map(nothing)
        }
        Step::Flush => way.flush().map(nothing),
        Step::Discard { offset, length } => way.discard(offset, length).map(nothing),
        Step::Zeros { offset, length } => way.write_zeros(offset, length).map(nothing),
        Step::Reset => {
            way.reset_counters();
            Ok(Vec::new())
        }
        Step::Idle { duration_ns } => {
            way.idle(duration_ns);
            Ok(Vec::new())
        }
        Step::Cut { seed } => {
            way.cut(seed);
            // Without power nothing is served, and nothing counted.
            assert!(way.read(0, 4096).is_err() && way.write(0, &[1; 4096], false).is_err());
            way.power_on();
            Ok(Vec::new())
        }
        Step::SaveAndLoad => {
            let file = folder.join("state");
            way.save_and_load(&file);
            std::fs::remove_file(file).unwrap();
            Ok(Vec::new())
        }
    }
}

#[track_caller]
fn compare(name: &str, steps: &[Step], wanted: &[Shown], shown: &[Shown]) {
    for (number, step) in steps.iter().enumerate() {
        let ((bytes, counters), (other_bytes, other)) = (&wanted[number], &shown[number]);
        assert!(bytes == other_bytes, "{name}, step {number}, {step:?}: other bytes");
        assert_eq!(other, counters, "{name}, step {number}, {step:?}");
    }
}
