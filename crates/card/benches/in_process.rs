//! Measures how many requests per second the simulator serves for page-mapped cards, without
//! keeping contents.
//!
//! The cards have 4 KiB pages (one has 16 KiB) and 4 MiB erase blocks (beyond 64 GiB: 32 MiB); 80 %
//! of the erase blocks are addressable, the rest are spare. A card is fully written once, then in
//! uniform random requests of one page, as many as half its pages, so that garbage is collected.
//! Then batches of a million requests are timed, and the best of five is reported, in CPU time if
//! the kernel provides it. Rates count host requests; NAND work is printed next to them.
//!
//! The ratio compares the time with that of the 4 GiB card with greedy collection in the same run;
//! memory is that of the whole process with that card.
//!
//! Run it with `cargo bench -p flashfit-card --bench in_process`; `-- 64` only measures the cards
//! of 64 GiB and 4 GiB: the one of 1 TiB needs 3 GiB of memory and some minutes. Large cards are
//! bound by memory latency, so their time depends on huge pages
//! (`/sys/kernel/mm/transparent_hugepage/enabled`).

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod measure;

use flashfit_card::{Card, CardModel, CardRequest};
use flashfit_catalog::Origin;
use measure::{GIB, Places, each_ns, memory_bytes, print_header, print_row};

const PAGE: u64 = 4096;
const LARGE_PAGE: u64 = 16384;
const UNIT: u64 = 4 << 20;
/// For cards beyond 64 GiB, with more dies.
const LARGE_UNIT: u64 = 32 << 20;
/// Requests per timed batch.
const REQUESTS: u64 = 1_000_000;
const REPEATS: u32 = 5;
/// A map that is only partly in the card's memory.
const MAP_CACHE: &str = "map_cache = \"1MiB\"\n";

fn main() {
    let sizes: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![64, 1024] } else { sizes };
    println!("random writes of a page, garbage collection, capacity 80 % of all erase units:");
    print_header("write amplification in thousandths");
    let base_ns = measure_card("greedy", "", 4, PAGE, None);
    for (collection, more) in [("cost-benefit", ""), ("fifo", ""), ("greedy", MAP_CACHE)] {
        measure_card(collection, more, 4, PAGE, Some(base_ns));
    }
    for gibibytes in sizes {
        for page in [PAGE, LARGE_PAGE] {
            measure_card("greedy", "", gibibytes, page, Some(base_ns));
        }
    }
}

/// Measures a card; returns the best time per request in nanoseconds.
fn measure_card(
    collection: &str,
    more: &str,
    gibibytes: u64,
    page: u64,
    base_ns: Option<f64>,
) -> f64 {
    let capacity = gibibytes * GIB;
    let mut card = Card::counting(&model(collection, more, capacity, page));
    let data = vec![0; 1 << 20];
    for offset in (0..capacity).step_by(data.len()) {
        card.serve(CardRequest::Write { offset, data: &data }).expect("it lies on the card");
    }
    let mut places = Places::new();
    let pages = capacity / page;
    write(&mut card, &mut places, page, pages, pages / 2);
    card.reset_counters();
    let runs = (0..REPEATS)
        .map(|_| each_ns(REQUESTS, || write(&mut card, &mut places, page, pages, REQUESTS)));
    let best_ns = runs.fold(f64::INFINITY, f64::min);
    let memory = memory_bytes();
    let amplification = card.counters().write_amplification_thousandths.unwrap_or(0);
    let name = format!("{collection}, {} KiB {}", page / 1024, more.trim());
    let base_ns = base_ns.unwrap_or(best_ns);
    print_row(&name, gibibytes, best_ns, base_ns, memory, &amplification.to_string());
    best_ns
}

/// Writes `pages` random pages of `page` bytes.
fn write(card: &mut Card, places: &mut Places, page: u64, pages: u64, requests: u64) {
    let data = [0; LARGE_PAGE as usize];
    let data = &data[..usize::try_from(page).expect("a page is small")];
    for _ in 0..requests {
        let offset = places.below(pages) * page;
        card.serve(CardRequest::Write { offset, data }).expect("it lies on the card");
    }
}

fn model(collection: &str, more: &str, capacity: u64, page: u64) -> CardModel {
    let unit = if capacity > 64 * GIB { LARGE_UNIT } else { UNIT };
    let spare_units = capacity / unit / 4;
    let text = format!(
        "name = \"bench\"\ntitle = \"\"\nsource = \"\"\ncapacity = {capacity}
         sector_bytes = 512\n[nand]\npage = {page}\nerase_unit = {unit}\nread_ns = 60_000
         program_ns = 800_000\nerase_ns = 3_000_000\nendurance_cycles = 3000
         spare_units = {spare_units}\n[bus]\ncommand_ns = 10_000\nbytes_per_second = 90_000_000
         [layer]\nkind = \"page-mapped\"\ncollection = \"{collection}\"\n{more}"
    );
    CardModel::parse(&text, &Origin::File("bench.toml".into())).expect("a possible card")
}
