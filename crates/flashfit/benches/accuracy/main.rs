//! How right probes are: `make accuracy` writes `docs/accuracy.md` from scratch.
//!
//! Simulated cards of known geometry, devices without geometry, published tables of real cards,
//! twins that predict hidden cells, and what probes cost. The cards are drawn with seeds that
//! nothing was tuned on. `cargo bench -p flashfit --bench accuracy -- 30` does it with 30 cards;
//! `development` takes those on which probes are tuned, `used` writes to cards that were written
//! all over before, `without-twins` leaves out what takes longest.

#![expect(clippy::print_stdout, reason = "it prints the document")]
#![expect(clippy::print_stderr, reason = "how long it took is not for the document")]
#![expect(clippy::unwrap_used, reason = "a campaign that cannot be made ends there")]

#[path = "../../../geometry/benches/accuracy/cards.rs"]
#[expect(dead_code, reason = "tests use more of it")]
mod cards;
mod cost;
#[path = "../../../geometry/benches/accuracy/flashbench.rs"]
mod flashbench;
mod nothing;
#[path = "../../../geometry/benches/accuracy/reading.rs"]
#[expect(dead_code, reason = "tests use more of it")]
mod reading;
mod running;
mod share;
mod simulated;
#[path = "../../../geometry/benches/accuracy/tables.rs"]
mod tables;
#[path = "../../../twin/benches/accuracy/twins.rs"]
mod twins;

use std::time::Instant;

use simulated::State;

/// Simulated cards for the figures.
const CARDS: u64 = 300;

fn main() {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_said = |wanted: &str| words.iter().any(|word| word == wanted);
    let count = words.iter().find_map(|word| word.parse().ok()).unwrap_or(CARDS);
    let first = if is_said("development") { 0 } else { cards::EVALUATION };
    let state = if is_said("used") { State::Used } else { State::Fresh };
    let begun = Instant::now();
    println!(
        "# Probe accuracy\n\nWritten by `make accuracy`. Intervals are 95 % Wilson intervals. \
         Cards are drawn at random, with seeds from {first}; flashfit was not tuned on seeds from {}, and all figures of these cards are simulated. `crates/geometry/benches/accuracy/cards.rs` defines them.",
        cards::EVALUATION
    );
    println!("{}", simulated::section(first..first + count, state));
    if !is_said("development") {
        println!("{}", nothing::section());
        println!("{}", tables::section());
        if is_said("without-twins") {
            println!("\n## 4. Fitted card models (twins)\n\nLeft out of this run.");
        } else {
            println!("{}", twins::section());
        }
        println!("{}", cost::section(first..first + count));
    }
    eprintln!("took {} s", begun.elapsed().as_secs());
}
