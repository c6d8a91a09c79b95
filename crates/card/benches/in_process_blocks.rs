//! How many requests a second the simulator itself serves, for cards with block-mapped layers.
//!
//! Metadata only, one core, random writes of 4 KiB over a whole card that is full, so that each
//! goes beyond the open erase blocks; over cards of 4 GiB, 256 GiB and 1 TiB, all with erase blocks
//! of 4 MiB, as the time of a request must not depend on the size of the card. The ratio is that of
//! the time to the card of 4 GiB in the same run, the memory that of the whole process with that
//! card. The best of some repeats, of the time on a processor.
//!
//! Run with `cargo bench -p flashfit-card --bench in_process_blocks`; `-- 64` measures a card of
//! 64 GiB beside that of 4 GiB.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

mod measure;

use flashfit_card::{Card, CardModel, CardRequest};
use flashfit_catalog::Origin;
use measure::{GIB, Places, each_ns, memory_bytes, tell, tell_head};

const LAYERS: [(&str, &str); 4] = [
    ("block-mapped", "kind = \"block-mapped\"\nopen_units = 3"),
    ("block-mapped, in order", "kind = \"block-mapped\"\nopen_units = 3\nopen_units_random = 0"),
    ("log-block", "kind = \"log-block\"\nopen_units = 3\nlog_units = 4\nlog_request = \"4KiB\""),
    ("update-log", "kind = \"update-log\"\nopen_units = 4\nlog_units = 4\nlog_request = \"8KiB\""),
];
/// Requests that are timed together.
const REQUESTS: u64 = 500_000;
const REPEATS: u32 = 5;
const BLOCK: u64 = 4096;

fn main() {
    let sizes: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![256, 1024] } else { sizes };
    println!("random writes of 4 KiB, best of {REPEATS}:");
    tell_head("programs each");
    for (name, layer) in LAYERS {
        let base_ns = measure_card(name, layer, 4, None);
        for &gibibytes in &sizes {
            measure_card(name, layer, gibibytes, Some(base_ns));
        }
    }
}

/// Measures a card; returns the nanoseconds a request takes at best.
fn measure_card(name: &str, layer: &str, gibibytes: u64, base_ns: Option<f64>) -> f64 {
    let model = model(layer, gibibytes);
    let mut card = Card::counting(&model);
    let whole = vec![0; 4 << 20];
    for offset in (0..gibibytes * GIB).step_by(whole.len()) {
        write(&mut card, offset, &whole);
    }
    let mut places = Places::new();
    let mut some = |card: &mut Card| {
        for _ in 0..REQUESTS {
            let block = places.below(gibibytes * GIB / BLOCK);
            write(card, block * BLOCK, &[0; BLOCK as usize]);
        }
    };
    some(&mut card);
    card.reset_counters();
    let runs = (0..REPEATS).map(|_| each_ns(REQUESTS, || some(&mut card)));
    let best_ns = runs.fold(f64::INFINITY, f64::min);
    let programs = card.counters().nand_programmed_bytes / model.write_unit_bytes();
    let programs = programs / (REQUESTS * u64::from(REPEATS));
    let memory = memory_bytes();
    let base_ns = base_ns.unwrap_or(best_ns);
    tell(name, gibibytes, best_ns, base_ns, memory, &programs.to_string());
    best_ns
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

fn write(card: &mut Card, offset: u64, data: &[u8]) {
    card.serve(CardRequest::Write { offset, data }).expect("a write within the card");
}
