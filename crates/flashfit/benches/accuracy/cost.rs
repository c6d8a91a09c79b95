//! Figure 5: what probes cost.

use std::fmt::Write;
use std::ops::Range;

use flashfit_geometry::reading::usual_reads;
use flashfit_host::capability;

use crate::cards;
use crate::flashbench;
use crate::reading::probe_drawn;
use crate::running::{self, ServedCard};

/// Cards of the catalog that are served to a real kernel.
const SERVED: [&str; 3] = ["sd-c4-block", "sd-c10-log", "usd-a1-pagemap"];

/// A third, and what rounding to whole reads adds.
const A_THIRD: f64 = 1.001 / 3.0;

/// The section, as Markdown.
pub fn section(seeds: Range<u64>) -> String {
    let mut text = String::from("\n## 5. Cost\n\n");
    reads(&mut text, seeds);
    match capability::missing_for_simulated_cards() {
        Some(reason) => {
            writeln!(text, "\nMemory and time were not measured: {reason}.").expect("a string");
        }
        None => served(&mut text),
    }
    text
}

/// What one card cost.
struct Reads {
    /// Of those that a run of flashbench -a makes.
    share: f64,
    /// Runs of flashbench -a until the same verdict.
    runs: Option<usize>,
}

/// Reads until a right answer, against flashbench -a on the same card with its defaults.
fn reads(text: &mut String, seeds: Range<u64>) {
    let all = running::of_each(seeds, |seed| {
        let drawn = cards::draw(seed);
        if !drawn.shows_units_to_readers {
            return None;
        }
        let outcome = probe_drawn(&drawn, seed);
        let right = outcome.erase_block == Some(drawn.model.erase_block_bytes());
        let flashbench = 3 * usual_reads(drawn.model.capacity.0);
        right.then(|| Reads {
            share: outcome.probed.reads as f64 / flashbench as f64,
            runs: flashbench::runs_needed(&drawn, seed),
        })
    });
    let all: Vec<Reads> = all.into_iter().flatten().collect();
    let mut shares: Vec<f64> = all.iter().map(|card| card.share).collect();
    shares.sort_by(f64::total_cmp);
    let (Some(most), count) = (shares.last(), shares.len()) else { return };
    let beyond: Vec<&Reads> = all.iter().filter(|card| card.share > A_THIRD).collect();
    let never = |of: &[&Reads]| of.iter().filter(|card| card.runs.is_none()).count();
    let is_within =
        |card: &&Reads| card.runs.is_none_or(|runs| card.share <= A_THIRD * runs as f64);
    let within = all.iter().filter(is_within).count();
    let everyone: Vec<&Reads> = all.iter().collect();
    writeln!(
        text,
        "Number of reads of a reading-only probe that found the erase block, relative to one run of `flashbench -a` with its defaults on the same card: median {:.2}, maximum {most:.2}, of \
         {count} cards. The goal is at most a third for the same verdict. The tables of flashbench went through the same inference as imported tables, up to {} runs together. They yield the verdict on {} of these cards, and on {} of the {} on which the probe needed more than a third of a run. {within} of {count} cards needed at most a third of the reads of flashbench, or flashbench did not reach the verdict.",
        shares[count / 2],
        flashbench::MAX_RUNS,
        count - never(&everyone),
        beyond.len() - never(&beyond),
        beyond.len(),
    )
    .expect("a string takes any text");
}

/// Memory and time of the command on cards served to this kernel.
fn served(text: &mut String) {
    text.push_str(
        "\n`flashfit probe`, reading only, on simulated cards behind a loop device, in real time (goal: below 20 s and 16 MiB; flashbench needs 198 MiB):\n\n| card | reads | time | peak \
         memory (VmHWM) |\n|---|--:|--:|--:|\n",
    );
    for name in SERVED {
        let card = ServedCard::new(name, &[]);
        let (document, most) = running::probe(&card.at, &[]);
        let cost = &document["cost"];
        writeln!(
            text,
            "| {name} | {} | {:.1} s | {:.1} MiB |",
            cost["reads"],
            cost["elapsed_ns"].as_f64().unwrap_or(f64::NAN) / 1e9,
            mib(most)
        )
        .expect("a string takes any text");
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
