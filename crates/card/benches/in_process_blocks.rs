//! Measures how many requests per second the simulator serves for block-mapped cards.
//!
//! Without contents, on one core, with random writes of 4 KiB over a full card, so that each goes
//! beyond the open blocks; for cards of 4 GiB, 256 GiB and 1 TiB with erase blocks of 4 MiB,
//! because the time per request must not depend on the size of the card. The ratio compares the
//! time with that of the 4 GiB card in the same run; memory is that of the whole process with that
//! card. Reports the best of several repeats, in CPU time.
//!
//! Run with `cargo bench -p flashfit-card --bench in_process_blocks`; `-- 64` measures the cards of
//! 64 GiB and 4 GiB.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

mod measure;

use flashfit_card::{Card, CardModel, CardRequest};
use flashfit_catalog::Origin;
use measure::{GIB, Places, each_ns, memory_bytes, print_header, print_row};

const LAYERS: [(&str, &str); 4] = [
    ("block-mapped", "kind = \"block-mapped\"\nopen_units = 3"),
    ("block-mapped, in order", "kind = \"block-mapped\"\nopen_units = 3\nopen_units_random = 0"),
    ("log-block", "kind = \"log-block\"\nopen_units = 3\nlog_units = 4\nlog_request = \"4KiB\""),
    ("update-log", "kind = \"update-log\"\nopen_units = 4\nlog_units = 4\nlog_request = \"8KiB\""),
];
/// Requests per timed batch.
const REQUESTS: u64 = 500_000;
const REPEATS: u32 = 5;
const BLOCK: u64 = 4096;

fn main() {
    let sizes: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![256, 1024] } else { sizes };
    println!("random writes of 4 KiB, best of {REPEATS}:");
    print_header("programs each");
    for (name, layer) in LAYERS {
        let base_ns = measure_card(name, layer, 4, None);
        for &gibibytes in &sizes {
            measure_card(name, layer, gibibytes, Some(base_ns));
        }
    }
}

/// Measures a card; returns the best time per request in nanoseconds.
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
    print_row(name, gibibytes, best_ns, base_ns, memory, &programs.to_string());
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
