//! Writes docs/wear.md: how good estimates of wear are, by parts.
//!
//! Run with `make wear-benchmark`; arguments select parts: `formulas`, `published`, `replay`,
//! `speed`, `calibration`. Arguments with a `/` are files with further traces for `replay`.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

mod calibration;
mod formulas;
mod published;
mod replays;
mod speed;

fn main() {
    let parts: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let (files, parts): (Vec<String>, Vec<String>) =
        parts.into_iter().partition(|part| part.contains('/'));
    let wanted = |name: &str| parts.is_empty() || parts.iter().any(|part| part == name);
    println!("# How good estimates of wear are\n");
    println!(
        "Written by `make wear-benchmark`. All figures are simulated: cards in the process, with \
         requests that were\nrecorded under a real kernel (`catalog/traces`). Deviations are shown \
         as they are.\n"
    );
    if wanted("formulas") {
        formulas::run();
    }
    if wanted("published") {
        published::run();
    }
    if wanted("replay") {
        replays::run(&files);
    }
    if wanted("speed") {
        speed::run();
    }
    if wanted("calibration") {
        calibration::run();
    }
    println!(
        "## Not done\n\nNo estimate was compared with a real device at the end of its life. Where a \
         trace deviates by more than 15 %,\nan estimate with it is worse than its interval says: FAT \
         writes its table at fixed places and its files in\nturn, and a quarter of a recording does \
         not show how far they wander. For setups without a trace, `tune`\ndivides the years of a \
         related setup by the ratio of their costs in trials; that was not compared with\ntraces of \
         such setups."
    );
}
