//! Garbage collection under uniform random writes, compared with published figures and models.

use flashfit_card::{Card, CardModel, CardRequest};
use flashfit_catalog::Origin;
use flashfit_device::random::Random;

const PAGE: u64 = 4096;
const PAGES: u64 = 512;
const UNITS: u64 = 1000;
/// Collection, utilization in hundredths, and expected amplification. Greedy: a page map with 512
/// pages a block (research prototype); FIFO: `a / (a + W(-a e^-a))`, Desnoyers, SYSTOR 2012. The
/// same for cost-benefit: under uniform writes all of them approach it as erase blocks grow.
const CASES: [(&str, u64, f64); 6] = [
    ("greedy", 80, 2.69),
    ("greedy", 93, 7.41),
    ("fifo", 80, 0.0),
    ("fifo", 93, 0.0),
    ("cost-benefit", 80, 0.0),
    ("cost-benefit", 93, 0.0),
];

fn amplification(collection: &str, hundredths: u64) -> f64 {
    let unit = PAGE * PAGES;
    let used = UNITS * hundredths / 100;
    let text = format!(
        "name = \"bench\"\ntitle = \"\"\nsource = \"\"\ncapacity = {}\nsector_bytes = 512\n[nand]\n\
         page = {PAGE}\nerase_unit = {unit}\nread_ns = 1\nprogram_ns = 1\nerase_ns = 1\n\
         endurance_cycles = 3000\nspare_units = {}\n[bus]\ncommand_ns = 1\n\
         bytes_per_second = 1_000_000_000\n[layer]\nkind = \"page-mapped\"\n\
         collection = \"{collection}\"\n",
        used * unit,
        UNITS - used
    );
    let model = CardModel::parse(&text, &Origin::File("bench.toml".into())).unwrap();
    let mut card = Card::counting(&model);
    let pages = used * PAGES;
    let mut random = Random::new(1);
    let write = |card: &mut Card, page: u64| {
        card.serve(CardRequest::Write { offset: page * PAGE, data: &[0; PAGE as usize] }).unwrap();
    };
    for page in 0..pages {
        write(&mut card, page);
    }
    for _ in 0..6 * pages {
        write(&mut card, random.below(pages));
    }
    card.reset_counters();
    for _ in 0..2 * pages {
        write(&mut card, random.below(pages));
    }
    card.counters().write_amplification_thousandths.unwrap() as f64 / 1000.0
}

/// The closed form for first in, first out, with `alpha` physical pages per logical page.
fn fifo_model(alpha: f64) -> f64 {
    // The lower solution of w e^w = -alpha e^-alpha lies at -alpha; the principal one above -1.
    let wanted = -alpha * (-alpha).exp();
    let (mut low, mut high) = (-1.0_f64, 0.0_f64);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle * middle.exp() < wanted { low = middle } else { high = middle }
    }
    alpha / (alpha + low)
}

pub fn run() {
    println!("## Formulas\n");
    println!(
        "Uniform random writes of 4 KiB, 512 pages in an erase block, steady state. Cost-benefit is \
         compared with the\nformula of FIFO, which all of them approach as erase blocks grow.\n"
    );
    println!("| collection | utilization | expected | simulated | deviation |");
    println!("|---|---|---|---|---|");
    for (collection, hundredths, published) in CASES {
        let expected = match collection {
            "fifo" | "cost-benefit" => fifo_model(100.0 / hundredths as f64),
            _ => published,
        };
        let found = amplification(collection, hundredths);
        println!(
            "| {collection} | 0.{hundredths} | {expected:.2} | {found:.2} | {:+.1} % |",
            (found / expected - 1.0) * 100.0
        );
    }
    println!();
}
