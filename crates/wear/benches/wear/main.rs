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

/// What limits are and how they are extrapolated.
const MEANING: &str = "\
## What the years mean

| limit | meaning |
|---|---|
| mean | the mean of all erase blocks is past its rating |
| worst block | the most worn block is past its rating |
| no spares | failed blocks have used up the spare ones: the device accepts no more writes |

The years of `wear estimate` and `tune` last until the first limit. A maker promises nothing past
the rating, data retention included, but the device still accepts writes; `writable_years` is how
long. `wear age` ends when the device accepts no more writes. A limit that is not reached has no
years (`null` in JSON).

The years of a used device count from now. The share that it has used (`--used`, or its registers)
is taken as that of the mean of its blocks, and the same use is taken to have worn them: if the
worst block wears three times as fast as the mean, a device at 30 % is near its end. A device that
could not work after that is taken as worn more evenly. A register at its largest value is the end.

An estimate writes a small replica of the device over six times, its spare blocks included, and
continues the erases of each block as a straight line. Where a card model has `wear_spread`,
static wear leveling bounds how far a block runs ahead of the mean of its area. Blocks that fail
leave their erases to the others. The erases that leveling costs, and the amplification that grows
when few spare blocks are left, are not extrapolated. A simulated card becomes read-only with the
first failed block of a pSLC area; an estimate lets spare blocks replace it.

Each recording changes 64 MiB of 512 MiB and is at least half full, and a replica has up to 16 such
parts. So no more than 12.5 % of a device is modeled as changed, and no less than 0.8 % for each
workload; and parts in use cannot be emptier than the recording. `wear estimate` and `wear age` say
so where the usage model wants something else (`modeled` in JSON). `weekly` and `always` trim are
modeled alike: the device knows which space is free.
";

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
    println!("{MEANING}");
    println!(
        "## Not done\n\nNo estimate was compared with a real device at the end of its life. Where a \
         trace deviates by more than 15 %,\nan estimate with it is worse than its interval says: FAT \
         writes its table at fixed places and its files in\nturn, and a quarter of a recording does \
         not show how far they wander. For setups without a trace, `tune`\ndivides the years of a \
         related setup by the ratio of their costs in trials; that was not compared with\ntraces of \
         such setups."
    );
}
