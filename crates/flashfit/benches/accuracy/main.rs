//! Accuracy of probes: `make accuracy` writes `docs/accuracy.md` from scratch.
//!
//! Simulated cards of known geometry, devices without geometry, published tables of real cards,
//! twins that predict hidden cells, costs, and stated against actual values. The cards are drawn
//! with seeds that nothing was tuned on. `cargo bench -p flashfit --bench accuracy -- 30` does it
//! with 30 cards; names of parts ([`PARTS`]) leave out the others; `development` takes the cards on
//! which probes are tuned, `used` writes to cards that were written all over before. Each section
//! is printed as soon as it is done.

#![expect(clippy::print_stdout, reason = "it prints the document")]
#![expect(clippy::print_stderr, reason = "how long it took is not for the document")]
#![expect(clippy::unwrap_used, reason = "a campaign that cannot be made ends there")]

mod calibration;
#[path = "../../../geometry/benches/accuracy/cards.rs"]
#[expect(dead_code, reason = "tests use more of it")]
mod cards;
mod cliffs;
mod cost;
mod fakes;
mod fast_areas;
#[path = "../../../geometry/benches/accuracy/flashbench.rs"]
mod flashbench;
mod fragments;
#[path = "../../../card-server/tests/support/nbd_client.rs"]
mod nbd_client;
mod nothing;
#[path = "../../../geometry/benches/accuracy/oracle.rs"]
mod oracle;
#[path = "../../../probe/benches/accuracy/ranks.rs"]
mod ranks;
#[path = "../../../geometry/benches/accuracy/reading.rs"]
#[expect(dead_code, reason = "tests use more of it")]
mod reading;
mod running;
mod share;
mod simulated;
mod small_writes;
mod stated_time;
#[path = "../../../geometry/benches/accuracy/tables.rs"]
mod tables;
mod trials;
#[path = "../../../twin/benches/accuracy/twins.rs"]
mod twins;

use std::cell::OnceCell;
use std::io::Write;
use std::process::Command;
use std::time::Instant;

use trials::{State, Trial};

/// Simulated cards for the figures, and for stated times.
const CARDS: u64 = 300;
const TIMED_CARDS: u64 = 60;
/// Cards on which twins rank file systems.
const RANKED_CARDS: usize = 12;
/// The first seed of the cards for stated times.
const TIMED: u64 = cards::EVALUATION + 200_000;

/// The sections, in their order.
const PARTS: [&str; 13] = [
    "cards",
    "nothing",
    "tables",
    "twins",
    "cost",
    "fast-areas",
    "small-writes",
    "cliffs",
    "fragments",
    "confidence",
    "time",
    "fakes",
    "ranks",
];

fn main() {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_said = |wanted: &str| words.iter().any(|word| word == wanted);
    let count = words.iter().find_map(|word| word.parse().ok()).unwrap_or(CARDS);
    let first = if is_said("development") { 0 } else { cards::EVALUATION };
    let state = if is_said("used") { State::Used } else { State::Fresh };
    let all = !PARTS.iter().any(|part| is_said(part));
    println!(
        "# Probe accuracy\n\nWritten by `make accuracy`. Intervals are 95 % Wilson intervals. \
         Cards are drawn at random, with seeds from {first}; flashfit was not tuned on seeds from {}, and all figures of these cards are simulated. `crates/geometry/benches/accuracy/cards.rs` defines them. Measured at commit {}.",
        cards::EVALUATION,
        commit()
    );
    let known = OnceCell::new();
    let trials = || -> &[Trial] { known.get_or_init(|| trials::of(first..first + count, state)) };
    for part in PARTS.into_iter().filter(|part| all || is_said(part)) {
        let begun = Instant::now();
        let section = match part {
            "cards" => simulated::section(trials()),
            "nothing" => nothing::section(),
            "tables" => tables::section(),
            "twins" => twins::section(),
            "cost" => cost::section(first..first + count),
            "fast-areas" => fast_areas::section(trials(), state),
            "small-writes" => small_writes::section(trials()),
            "cliffs" => cliffs::section(trials()),
            "fragments" => fragments::section(),
            "confidence" => calibration::section(trials()),
            "time" => stated_time::section(TIMED..TIMED + count.min(TIMED_CARDS)),
            "fakes" => fakes::section(),
            _ => ranks::section(first, RANKED_CARDS),
        };
        println!("{section}");
        std::io::stdout().flush().unwrap();
        eprintln!("{part} took {} s", begun.elapsed().as_secs());
    }
}

/// The commit of the source, marked if files differ from it.
fn commit() -> String {
    let args = ["describe", "--always", "--dirty", "--abbrev=10"];
    let output = Command::new("git").args(args).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}
