//! What published tables say: the inference of erase blocks, and twins that predict hidden cells.
//! `cargo bench -p flashfit-twin --bench tables` prints both sections of `docs/accuracy.md`; with
//! `-- inference` or `-- twins` one of them.

#![expect(clippy::print_stdout, reason = "it prints the sections")]

#[path = "../../geometry/benches/accuracy/tables.rs"]
mod tables;
#[path = "accuracy/twins.rs"]
mod twins;

fn main() {
    let asked: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |section: &str| asked.is_empty() || asked.iter().any(|word| word == section);
    if wanted("inference") {
        println!("{}", tables::section());
    }
    if wanted("twins") {
        println!("{}", twins::section());
    }
}
