//! Prints the model file of the simulated card that is drawn with a seed: `drawn_card SEED`.

#![expect(clippy::print_stdout, reason = "it prints the file")]

#[path = "../benches/accuracy/cards.rs"]
#[expect(dead_code, reason = "the benchmark uses more of it")]
mod cards;

fn main() {
    let seed = std::env::args().nth(1).and_then(|word| word.parse().ok());
    print!("{}", cards::draw(seed.expect("a seed")).toml);
}
