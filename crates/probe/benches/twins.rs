//! How twins rank file systems: `cargo bench -p flashfit-probe --bench twins` prints section 13 of
//! `docs/accuracy.md`; `-- 0 14` takes 14 cards with seeds from 0.

#![expect(clippy::print_stdout, reason = "it prints the section")]

#[path = "../../geometry/benches/accuracy/cards.rs"]
#[expect(dead_code, reason = "others use more of it")]
mod cards;
#[path = "accuracy/ranks.rs"]
mod ranks;
#[path = "../../flashfit/benches/accuracy/share.rs"]
#[expect(dead_code, reason = "others use more of it")]
mod share;

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let first = numbers.first().copied().unwrap_or(cards::EVALUATION);
    let count = numbers.get(1).map_or(12, |&count| usize::try_from(count).unwrap_or(12));
    println!("{}", ranks::section(first, count));
}
