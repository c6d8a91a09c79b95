//! Compares the write amplification of page-mapped cards with published models, and tests the
//! effect of wear leveling, folding and the cached map on a workload.
//!
//! The models assume uniform random writes of single pages to all logical pages in steady state,
//! with `alpha` = physical by logical pages:
//!
//! - Greedy: a block of `b` pages with `j` valid ones loses one with probability `j / U` per write,
//!   and is collected when `x` are left. So there are `U / (j (b - x))` blocks with `j` valid pages
//!   for each `j` from `b` down to `x`, which sums to
//!   `alpha = b / (b - x) * (1/b + 1/(b-1) + ... + 1/(x+1))`, and the amplification is
//!   `b / (b - x)`. Desnoyers, "Analytic modeling of SSD write performance" (SYSTOR 2012), who
//!   approximates the sum with a logarithm and Lambert's W; the same fixed point as the mean field
//!   of Van Houdt, "A mean field model for a class of garbage collection algorithms in flash-based
//!   solid state drives" (SIGMETRICS 2013), for the greedy limit, where `x` lies between two numbers
//!   if blocks are collected at both.
//! - FIFO (called LRU there): `alpha / (alpha + W(-alpha e^-alpha))`, with the principal branch of
//!   Lambert's W. Desnoyers, as above.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flashfit_card::{Card, CardModel, CardRequest, Counters};
use flashfit_catalog::Origin;
use flashfit_device::random::Random;

const PAGE: u64 = 4096;
const PAGES_PER_UNIT: u32 = 128;
const UNITS: u32 = 400;
/// Total and addressable blocks: 70 to 93 %.
const CAPACITIES: [u32; 5] = [280, 310, 340, 360, 372];

struct Build<'a> {
    capacity_blocks: u32,
    units: u32,
    nand: &'a str,
    layer: &'a str,
    more: &'a str,
}

impl Build<'_> {
    fn card(&self) -> Card {
        let unit = u64::from(PAGES_PER_UNIT) * PAGE;
        let text = format!(
            "name = \"test\"\ntitle = \"\"\nsource = \"\"\ncapacity = {}\nsector_bytes = 512
             [nand]\npage = {PAGE}\nerase_unit = {unit}\nread_ns = 50_000\nprogram_ns = 700_000
             erase_ns = 3_000_000\nendurance_cycles = 3000\nspare_units = {}\n{}
             [bus]\ncommand_ns = 1000\nbytes_per_second = 1_000_000_000
             [layer]\nkind = \"page-mapped\"\n{}\n{}",
            u64::from(self.capacity_blocks) * unit,
            self.units - self.capacity_blocks,
            self.nand,
            self.layer,
            self.more,
        );
        let model = CardModel::parse(&text, &Origin::File("test.toml".into())).unwrap();
        let mut card = Card::counting(&model);
        sequential(&mut card, 1);
        card
    }
}

fn plain(capacity_blocks: u32, collection: &str) -> Card {
    let layer = format!("collection = \"{collection}\"");
    Build { capacity_blocks, units: UNITS, nand: "", layer: &layer, more: "" }.card()
}

fn pages(card: &Card) -> u64 {
    card.model().capacity.0 / PAGE
}

fn write(card: &mut Card, page: u64) -> u64 {
    card.serve(CardRequest::Write { offset: page * PAGE, data: &[0; PAGE as usize] }).unwrap()
}

fn sequential(card: &mut Card, rounds: u32) {
    for _ in 0..rounds {
        for page in 0..pages(card) {
            write(card, page);
        }
    }
}

/// The counters of `writes` writes in steady state, after as many warm-up writes as needed.
fn measured(card: &mut Card, writes: u64, mut page: impl FnMut() -> u64) -> Counters {
    for _ in 0..3 * writes {
        write(card, page());
    }
    card.reset_counters();
    for _ in 0..writes {
        write(card, page());
    }
    card.counters()
}

fn amplification(counters: &Counters) -> f64 {
    f64::from(u32::try_from(counters.write_amplification_thousandths.unwrap()).unwrap()) / 1000.0
}

fn uniform(card: &mut Card) -> f64 {
    let pages = pages(card);
    let mut random = Random::new(7);
    amplification(&measured(card, pages, || random.below(pages)))
}

/// Nine out of ten writes go to the first tenth of the card.
fn hot_and_cold(pages: u64) -> impl FnMut() -> u64 {
    let mut random = Random::new(11);
    move || {
        let hot = random.below(10) != 0;
        if hot { random.below(pages / 10) } else { pages / 10 + random.below(pages * 9 / 10) }
    }
}

/// The root of a decreasing function between `low` and `high`.
fn root(mut low: f64, mut high: f64, falling: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if falling(middle) > 0.0 { low = middle } else { high = middle }
    }
    low
}

/// The sum of `1/j` for `j` from `x + 1` to `b`, linearly interpolated between integers `x`.
fn harmonic(x: f64, b: u32) -> f64 {
    (1..=b).map(f64::from).map(|j| (j - x).clamp(0.0, 1.0) / j).sum()
}

fn greedy_model(alpha: f64) -> f64 {
    let b = f64::from(PAGES_PER_UNIT);
    let x = root(0.0, b - 1e-9, |x| b / (b - x) * harmonic(x, PAGES_PER_UNIT) - alpha);
    b / (b - x)
}

fn fifo_model(alpha: f64) -> f64 {
    // For these z, W(z) on the principal branch lies between -1 and 0, where w e^w increases.
    let z = -alpha * (-alpha).exp();
    let w = root(-1.0, 0.0, |w| z - w * w.exp());
    alpha / (alpha + w)
}

/// Physical by logical pages. One block is always free for collection.
fn alpha(capacity_blocks: u32) -> f64 {
    f64::from(UNITS - 1) / f64::from(capacity_blocks)
}

/// Checks that the relative difference to the model is within 5 %.
fn assert_matches_model(collection: &str, model: impl Fn(f64) -> f64) {
    for capacity_blocks in CAPACITIES {
        let expected = model(alpha(capacity_blocks));
        let found = uniform(&mut plain(capacity_blocks, collection));
        let error = (found - expected).abs() / expected;
        assert!(error < 0.05, "{capacity_blocks}: {found:.3}, and the model says {expected:.3}");
    }
}

#[test]
fn greedy_collection_matches_its_model() {
    assert_matches_model("greedy", greedy_model);
}

#[test]
fn fifo_collection_matches_its_model() {
    assert_matches_model("fifo", fifo_model);
}

#[test]
fn the_model_solutions_are_correct() {
    for alpha in [1.05, 1.2, 1.5, 2.0] {
        // The pages that FIFO finds valid in a block are those that survived one cycle of writes.
        let valid = 1.0 - 1.0 / fifo_model(alpha);
        assert!((valid - (-alpha * (1.0 - valid)).exp()).abs() < 1e-6, "{alpha}");
        assert!(greedy_model(alpha) < fifo_model(alpha), "{alpha}");
    }
    // With half of the pages spare and large blocks, alpha (1 - v) = -ln v has v = 0.2032.
    assert!((fifo_model(2.0) - 1.0 / (1.0 - 0.2032)).abs() < 1e-3);
}

#[test]
fn sequential_writes_are_not_amplified() {
    for collection in ["greedy", "cost-benefit", "fifo"] {
        let mut card = plain(372, collection);
        sequential(&mut card, 2);
        card.reset_counters();
        sequential(&mut card, 2);
        assert_eq!(card.counters().write_amplification_thousandths, Some(1000), "{collection}");
    }
}

#[test]
fn cost_benefit_separates_hot_from_cold_data() {
    let [fifo, cost_benefit] = ["fifo", "cost-benefit"].map(|collection| {
        let mut card = plain(340, collection);
        let pages = pages(&card);
        amplification(&measured(&mut card, pages, hot_and_cold(pages)))
    });
    assert!(cost_benefit < fifo, "{cost_benefit} and {fifo}");
}

/// The counters after many writes to a twentieth of the card.
fn hot_spot(layer: &str) -> Counters {
    let mut card = Build { capacity_blocks: 60, units: 70, nand: "", layer, more: "" }.card();
    let (hot, mut random) = (pages(&card) / 20, Random::new(5));
    for _ in 0..600_000 {
        write(&mut card, random.below(hot));
    }
    card.counters()
}

#[test]
fn static_wear_leveling_bounds_the_spread_of_wear() {
    let (without, with) = (hot_spot(""), hot_spot("wear_spread = 20"));
    let spread =
        |counters: &Counters| counters.erases_per_unit.most - counters.erases_per_unit.least;
    assert!(spread(&without) > 200, "{without:?}");
    assert!(spread(&with) <= 22, "{with:?}");
    assert!(with.wear_levelling_moves > 0 && without.wear_levelling_moves == 0);
    assert!(with.nand_programmed_bytes < without.nand_programmed_bytes * 12 / 10, "{with:?}");
}

const PSLC: &str = "cell = \"tlc\"\n[nand.pslc]\nunits = 12\nread_ns = 20_000
program_ns = 200_000\nerase_ns = 2_000_000\nendurance_cycles = 30_000";
/// One block less than there are, at 128 / 3 pages each, because the last one may not be full.
const PSLC_PAGES: u64 = 11 * 42;
const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn folding_in_idle_time_makes_the_next_writes_fast() {
    let background = "[background]\nafter_ns = 1_000_000";
    let build = Build { capacity_blocks: 60, units: 70, nand: PSLC, layer: "", more: background };
    let (mut card, mut random) = (build.card(), Random::new(3));
    let pages = pages(&card);
    let mut mean_ns = |idle: bool| {
        if idle {
            card.idle_until(card.done_ns() + 60 * SECOND_NS);
        }
        let taken = |_| write(&mut card, random.below(pages));
        (0..PSLC_PAGES).map(taken).sum::<u64>() / PSLC_PAGES
    };
    let (busy_ns, rested_ns, again_ns) = (mean_ns(false), mean_ns(true), mean_ns(true));
    assert!(rested_ns < 210_000 && again_ns < 210_000, "{rested_ns}, {again_ns}");
    assert!(busy_ns > 4 * rested_ns, "{busy_ns}, {rested_ns}");
    let counters = card.counters();
    assert!(counters.background_ns > 0 && counters.folds > 0);
    // Once with one bit per cell, and once with three.
    assert!(amplification(&counters) > 1.9, "{counters:?}");
}

/// The time of a random write within the first `span` pages of a card that caches the map of 16384
/// pages, and the counters.
fn within(span: u64) -> (u64, Counters) {
    let layer = "map_cache = \"64KiB\"";
    let mut card = Build { capacity_blocks: 512, units: 640, nand: "", layer, more: "" }.card();
    let mut random = Random::new(9);
    let counters = measured(&mut card, 8000, || random.below(span));
    (counters.busy_ns / 8000, counters)
}

#[test]
fn random_writes_beyond_the_cached_map_are_slower() {
    let ((inside_ns, inside), (outside_ns, outside)) = (within(16384), within(65536));
    assert!(inside.map_reads < 8000 / 50 && inside.map_writes < 8000 / 50, "{inside:?}");
    assert!(outside.map_reads > 8000 / 2 && outside.map_writes > 8000 / 2, "{outside:?}");
    assert!(outside_ns > inside_ns * 3 / 2, "{inside_ns}, {outside_ns}");
    assert!(amplification(&outside) > amplification(&inside) + 0.5);
}
