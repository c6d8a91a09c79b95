//! Figure 5: what probes cost.

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use flashfit_geometry::reading::usual_reads;
use flashfit_host::capability;

use crate::cards;
use crate::reading::probe_drawn;
use crate::running::{self, FLASHFIT, Running};

/// Cards of the catalogue that are served to a real kernel.
const SERVED: [&str; 3] = ["sd-c4-block", "sd-c10-log", "usd-a1-pagemap"];

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

/// Reads until a right answer, against flashbench -a on a medium of that size with its defaults.
fn reads(text: &mut String, seeds: Range<u64>) {
    let shares = running::of_each(seeds, |seed| {
        let drawn = cards::draw(seed);
        if !drawn.shows_units_to_readers {
            return None;
        }
        let outcome = probe_drawn(&drawn, seed);
        let right = outcome.erase_unit == Some(drawn.model.erase_unit_bytes());
        let flashbench = 3 * usual_reads(drawn.model.capacity.0);
        #[expect(clippy::cast_precision_loss, reason = "a few thousand reads")]
        right.then_some(outcome.probed.reads as f64 / flashbench as f64)
    });
    let mut shares: Vec<f64> = shares.into_iter().flatten().collect();
    shares.sort_by(f64::total_cmp);
    let (Some(most), count) = (shares.last(), shares.len()) else { return };
    writeln!(
        text,
        "Reads of a reading-only probe that found the erase unit, of those that `flashbench -a` \
         makes with its defaults on a medium of the same size (wanted: at most a third): median \
         {:.2}, most {most:.2}, of {count} cards.",
        shares[count / 2]
    )
    .expect("a string takes any text");
}

/// Memory and time of the command on cards served to this kernel.
fn served(text: &mut String) {
    text.push_str(
        "\nThe command on simulated cards behind a loop device, in real time, by reading only \
         (wanted: below 20 s and 16 MiB; flashbench takes 198 MiB):\n\n| card | reads | time | peak \
         memory (VmHWM) |\n|---|--:|--:|--:|\n",
    );
    for name in SERVED {
        let mut child = Command::new(FLASHFIT)
            .args(["card", "serve", name])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        let serving = Running(child);
        BufReader::new(output).read_line(&mut line).unwrap();
        let device = PathBuf::from(line.trim());
        let (document, most) = running::probe(&device, &[]);
        let cost = &document["cost"];
        writeln!(
            text,
            "| {name} | {} | {:.1} s | {:.1} MiB |",
            cost["reads"],
            cost["elapsed_ns"].as_f64().unwrap_or(f64::NAN) / 1e9,
            mib(most)
        )
        .expect("a string takes any text");
        drop(serving);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
