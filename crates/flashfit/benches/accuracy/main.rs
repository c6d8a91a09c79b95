//! How right probes are: `make accuracy` writes `docs/accuracy.md` from scratch.
//!
//! Simulated cards of known geometry, media without geometry, published tables of real cards, twins
//! that predict hidden cells, and what probes cost. The cards are drawn with seeds that nothing was
//! tuned on. `cargo bench -p flashfit --bench accuracy -- 30` does it with 30 cards, for a look.

#![expect(clippy::print_stdout, reason = "it prints the document")]
#![expect(clippy::unwrap_used, reason = "a campaign that cannot be made ends there")]

#[path = "../../../geometry/benches/accuracy/cards.rs"]
mod cards;
mod cost;
mod nothing;
#[path = "../../../geometry/benches/accuracy/reading.rs"]
mod reading;
mod running;
mod share;
mod simulated;

use std::time::Instant;

/// Simulated cards for the figures.
const CARDS: u64 = 300;

fn main() {
    let count = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(CARDS);
    let begun = Instant::now();
    println!(
        "# How right probes are\n\nWritten by `make accuracy`. Intervals are Wilson's, of 95 %. \
         Cards are drawn with the seeds from {}, on which nothing was tuned; all their figures are \
         simulated. `crates/geometry/benches/accuracy/cards.rs` draws them.",
        cards::JUDGING
    );
    println!("{}", simulated::section(cards::JUDGING..cards::JUDGING + count));
    println!("{}", nothing::section());
    println!("{}", cost::section(cards::JUDGING..cards::JUDGING + count));
    eprintln!("took {} s", begun.elapsed().as_secs());
}
