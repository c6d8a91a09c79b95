//! Accuracy on published tables: inference of erase blocks, and twins that predict hidden cells.
//! `cargo bench -p flashfit-twin --bench tables` prints both sections of `docs/accuracy.md`; with
//! `-- inference` or `-- twins` only one of them.

#![expect(clippy::print_stdout, reason = "it prints the sections")]

#[path = "../../geometry/benches/accuracy/tables.rs"]
mod tables;
#[path = "accuracy/twins.rs"]
mod twins;

fn main() {
    let selected: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_selected =
        |section: &str| selected.is_empty() || selected.iter().any(|word| word == section);
    if is_selected("inference") {
        println!("{}", tables::section());
    }
    if is_selected("twins") {
        println!("{}", twins::section());
    }
}
