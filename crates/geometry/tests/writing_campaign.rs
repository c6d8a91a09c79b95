//! The probe by writing on cards of chance whose geometry is known.
//!
//! `FLASHFIT_CARDS=0..300 cargo test --release -p flashfit-geometry --test writing_campaign` shows a
//! line a card; without it a few cards are tried.

#[path = "../benches/accuracy/cards.rs"]
mod cards;

use std::ops::Range;

use flashfit_card::model::LayerKind;
use flashfit_card::{Card, InProcessCard};
use flashfit_geometry::findings::{Finding, Value, Verdict};
use flashfit_geometry::probed::Unwatched;
use flashfit_geometry::writing::{self, WritingOptions};
use flashfit_medium::VirtualClock;

#[derive(Default)]
struct Tally {
    cards: u32,
    answered: u32,
    right: u32,
}

impl Tally {
    fn add(&mut self, found: &Finding, right: impl Fn(Value) -> bool) -> &'static str {
        self.cards += 1;
        match found.value.filter(|_| found.verdict == Verdict::Found) {
            None => "-",
            Some(value) if right(value) => {
                self.answered += 1;
                self.right += 1;
                "right"
            }
            Some(_) => {
                self.answered += 1;
                "WRONG"
            }
        }
    }
}

fn seeds() -> (Range<u64>, bool) {
    let Ok(text) = std::env::var("FLASHFIT_CARDS") else { return (0..4, false) };
    let (from, to) = text.split_once("..").expect("a range of seeds");
    (from.parse().expect("a seed")..to.parse().expect("a seed"), true)
}

fn shown(found: &Finding) -> String {
    match found.value {
        Some(Value::Bytes(bytes)) => format!("{}K", bytes >> 10),
        Some(Value::Count(count)) => count.to_string(),
        Some(Value::Is(is)) => is.to_string(),
        None => "?".to_owned(),
    }
}

#[test]
fn known_geometries_are_found() {
    let (seeds, verbose) = seeds();
    let (mut erase, mut linear, mut random) = (Tally::default(), Tally::default(), Tally::default());
    let mut write = Tally::default();
    let mut times = Vec::new();
    for seed in seeds {
        let drawn = cards::draw(seed);
        let model = &drawn.model;
        if std::env::var("DBG").is_ok() { eprintln!("{}", drawn.toml); }
        let clock = VirtualClock::default();
        let mut device = InProcessCard::new(Card::counting(model), clock.clone());
        let options = WritingOptions {
            check_capacity: false,
            compressible: true,
            ..WritingOptions::whole(model.capacity.0, seed)
        };
        let started = std::time::Instant::now();
        let probed = writing::probe(&mut device, &clock, &options, None, &mut Unwatched).unwrap();
        let findings = &probed.findings;
        let unit = model.erase_unit_bytes();
        let is_unit = erase.add(&findings.erase_unit, |value| value == Value::Bytes(unit));
        let is_write = write
            .add(&findings.write_unit, |value| value == Value::Bytes(model.write_unit_bytes()));
        let open = model.layer.open_units.unwrap_or(0);
        let near = |truth: u32| {
            move |value| matches!(value, Value::Count(count) if count.abs_diff(truth) <= 1)
        };
        let mut is_linear = "";
        let mut is_random = "";
        let out_of_order = model.layer.open_units_random.unwrap_or(open);
        if model.layer.kind != LayerKind::PageMapped {
            is_linear = linear.add(&findings.open_units_linear, near(open));
            if model.layer.kind != LayerKind::UpdateLog {
                is_random = random.add(&findings.open_units_random, near(out_of_order));
            }
        }
        times.push(probed.elapsed_ns / 1_000_000_000);
        if verbose {
            println!(
                "{seed:4} {:11} {:6} {:5}M unit {:5}K wu {:3}K d{} | unit {:>6} {is_unit:5} | lin {open:2} {:>2} \
                 {is_linear:5} | ran {out_of_order:2} {:>2} {is_random:5} | wu {:>4} {is_write:5} | {:5} s, {:6} MiB, {:4} ms | {:?} {}",
                format!("{:?}", model.layer.kind),
                format!("{:?}", drawn.noise),
                model.capacity.0 >> 20,
                unit >> 10,
                model.write_unit_bytes() >> 10,
                model.nand.dies,
                shown(&findings.erase_unit),
                shown(&findings.open_units_linear),
                shown(&findings.open_units_random),
                shown(&findings.write_unit),
                probed.elapsed_ns / 1_000_000_000,
                probed.written_bytes >> 20,
                started.elapsed().as_millis(),
                findings.erase_unit.confidence,
                findings.erase_unit.reason,
            );
        }
    }
    times.sort_unstable();
    for (name, tally) in [("unit", &erase), ("linear", &linear), ("random", &random), ("write unit", &write)] {
        println!("{name}: {} cards, {} answered, {} right", tally.cards, tally.answered, tally.right);
    }
    println!("time: median {} s, most {} s", times[times.len() / 2], times[times.len() - 1]);
}
