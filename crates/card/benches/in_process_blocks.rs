//! How many requests a second the simulator itself serves, for cards with block-mapped layers.
//!
//! Metadata only, one core, random writes of 4 KiB over a whole card of 4 GiB that is full, so that
//! each goes beyond the open units; and over one of 256 GiB, as the time of a request must not
//! depend on the size of the card.
//!
//! Run with `cargo bench -p flashfit-card --bench in_process_blocks`.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::time::Instant;

use flashfit_card::{Card, CardModel, Request};
use flashfit_catalogue::Origin;

const LAYERS: [(&str, &str); 4] = [
    ("block-mapped", "kind = \"block-mapped\"\nopen_units = 3"),
    ("block-mapped, in order", "kind = \"block-mapped\"\nopen_units = 3\nopen_units_random = 0"),
    ("log-block", "kind = \"log-block\"\nopen_units = 3\nlog_units = 4\nlog_request = \"4KiB\""),
    ("update-log", "kind = \"update-log\"\nopen_units = 4\nlog_units = 4\nlog_request = \"8KiB\""),
];
const REQUESTS: u64 = 2_000_000;
const REPEATS: u32 = 3;
const BLOCK: usize = 4096;

fn main() {
    println!("requests a second, random writes of 4 KiB, best of {REPEATS} (worst)");
    for (name, layer) in LAYERS {
        for gibibytes in [4, 256] {
            let model = model(layer, gibibytes);
            let runs: Vec<(u64, u64)> = (0..REPEATS).map(|_| rate(&model)).collect();
            let best = runs.iter().map(|run| run.0).max().unwrap_or(0);
            let worst = runs.iter().map(|run| run.0).min().unwrap_or(0);
            let programs = runs.first().map_or(0, |run| run.1);
            println!("{name:24} {gibibytes:4} GiB {best:>9} ({worst}), {programs} programs each");
        }
    }
}

fn model(layer: &str, gibibytes: u64) -> CardModel {
    let spare = gibibytes * 256 / 20;
    let text = format!(
        "name = \"bench\"\ntitle = \"t\"\nsource = \"s\"\ncapacity = \"{gibibytes}GiB\"\n\
         sector_bytes = 512\n[nand]\npage = \"16KiB\"\nerase_unit = \"4MiB\"\nread_ns = 60_000\n\
         program_ns = 1_300_000\nerase_ns = 3_000_000\nendurance_cycles = 3000\n\
         spare_units = {spare}\n[bus]\ncommand_ns = 1_000_000\nbytes_per_second = 20_000_000\n\
         [layer]\n{layer}\n"
    );
    let origin = Origin::File("bench.toml".into());
    CardModel::parse(&text, &origin).expect("the model of the bench can be")
}

/// Requests a second, and write units programmed for each.
fn rate(model: &CardModel) -> (u64, u64) {
    let mut card = Card::counting(model);
    let whole = vec![0; 4 << 20];
    for offset in (0..model.capacity.0).step_by(whole.len()) {
        write(&mut card, offset, &whole);
    }
    let blocks = model.capacity.0 / BLOCK as u64;
    let block = [0; BLOCK];
    card.reset_counters();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let start = Instant::now();
    for _ in 0..REQUESTS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        write(&mut card, state % blocks * BLOCK as u64, &block);
    }
    let time_ns = start.elapsed().as_nanos().max(1);
    let counters = card.counters();
    let programs = counters.nand_programmed_bytes / model.write_unit_bytes() / REQUESTS;
    let rate = u128::from(REQUESTS) * 1_000_000_000 / time_ns;
    (u64::try_from(rate).unwrap_or(u64::MAX), programs)
}

fn write(card: &mut Card, offset: u64, data: &[u8]) {
    card.serve(Request::Write { offset, data }).expect("a write within the card");
}
