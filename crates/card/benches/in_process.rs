//! How many requests a second the simulator serves in the process, without keeping bytes.
//!
//! Every card is page-mapped with 4 KiB pages (once with 16 KiB) and 4 MiB erase units (beyond
//! 64 GiB: 32 MiB); its host can address 80 % of its erase units, the rest are spare. It is written
//! over once, then in requests of a page at random places (all of the card, uniform), as many as
//! half its pages, so that garbage is collected; then a million at a time, the best of five, of the
//! time on a processor where the kernel tells it. Rates count host requests; what the NAND has to
//! do for them is printed beside.
//!
//! Run it with `cargo bench -p flashfit-card --bench in_process`; `-- 64` measures only the card of
//! 64 GiB beside that of 4 GiB: the one of 1 TiB needs 3 GiB of memory and some minutes. A large
//! card's time is that of memory: with `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` in the environment,
//! which gives the map huge pages, it is less.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::{Duration, Instant};

use flashfit_card::{Card, CardModel, Request};
use flashfit_catalogue::Origin;

const PAGE: u64 = 4096;
const LARGE_PAGE: u64 = 16384;
const UNIT: u64 = 4 << 20;
/// Of cards beyond 64 GiB, over more dies.
const LARGE_UNIT: u64 = 32 << 20;
const GIB: u64 = 1 << 30;
/// Requests that are timed together.
const REQUESTS: u32 = 1_000_000;
const REPEATS: u32 = 5;

fn main() {
    let sizes: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![64, 1024] } else { sizes };
    println!("random writes of a page, garbage collection, capacity 80 % of all erase units:");
    let base_ns = rate("greedy", "", 4 * GIB, PAGE);
    rate("cost-benefit", "", 4 * GIB, PAGE);
    rate("fifo", "", 4 * GIB, PAGE);
    rate("greedy", "map_cache = \"1MiB\"\n", 4 * GIB, PAGE);
    for size in sizes {
        for page in [PAGE, LARGE_PAGE] {
            let ns = rate("greedy", "", size * GIB, page);
            println!("  {:.2} times the time of 4 GiB", ns / base_ns);
        }
    }
}

/// Measures a card; returns the nanoseconds a request takes at best.
fn rate(collection: &str, more: &str, capacity: u64, page: u64) -> f64 {
    let mut card = Card::counting(&model(collection, more, capacity, page));
    let data = vec![0; 1 << 20];
    for offset in (0..capacity).step_by(data.len()) {
        card.serve(Request::Write { offset, data: &data }).expect("it lies on the card");
    }
    let mut places = Places { state: 1, page, pages: capacity / page };
    write(&mut card, &mut places, capacity / page / 2);
    card.reset_counters();
    let mut best = f64::INFINITY;
    for _ in 0..REPEATS {
        let (begin, begin_cpu) = (Instant::now(), on_cpu());
        write(&mut card, &mut places, u64::from(REQUESTS));
        let taken = begin_cpu.and_then(|begin| Some(on_cpu()? - begin));
        let taken = taken.unwrap_or_else(|| begin.elapsed());
        best = best.min(taken.as_secs_f64() / f64::from(REQUESTS));
    }
    let counters = card.counters();
    println!(
        "{:5} GiB {:2} KiB {collection:12} {}: {:6.2} million requests/s ({:.0} ns each), \
         write amplification {} thousandths",
        capacity / GIB,
        page / 1024,
        more.trim(),
        1e-6 / best,
        best * 1e9,
        counters.write_amplification_thousandths.unwrap_or(0),
    );
    best * 1e9
}

/// How long this thread was on a processor so far, so that other load counts less.
fn on_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

fn write(card: &mut Card, places: &mut Places, requests: u64) {
    let data = [0; LARGE_PAGE as usize];
    let data = &data[..usize::try_from(places.page).expect("a page is small")];
    for _ in 0..requests {
        let offset = places.next() * places.page;
        card.serve(Request::Write { offset, data }).expect("it lies on the card");
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

/// Pages at random (xorshift64*, Vigna 2016, and Lemire's reduction).
struct Places {
    state: u64,
    page: u64,
    pages: u64,
}

impl Places {
    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let random = self.state.wrapping_mul(0x2545_F491_4F6C_DD1D);
        let place = (u128::from(random) * u128::from(self.pages)) >> 64;
        u64::try_from(place).expect("it is below the number of pages")
    }
}
