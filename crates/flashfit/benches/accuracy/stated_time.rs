//! Section 11: the time that a probe states before it begins, against the time that it takes.

use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use flashfit_host::capability;
use serde_json::Value;

use crate::cards;
use crate::running::{self, FLASHFIT, ServedCard};
use crate::share::Share;

/// The limit that is usual on a real device.
const USUAL_NS: f64 = 900e9;
/// What a limit may be passed by: a request under way.
const ALLOWED: f64 = 1.02;
/// Cards of the catalog that are served to a real kernel, with this limit in seconds.
const SERVED: [&str; 3] = ["sd-c4-block", "sd-c10-log", "usd-a1-pagemap"];
const SERVED_SECONDS: f64 = 20.0;

/// What one card stated and took, in seconds.
struct Times {
    usual: f64,
    most: f64,
    limited: f64,
    unlimited: f64,
}

/// The section, as Markdown.
pub fn section(seeds: Range<u64>) -> String {
    let cards = seeds.end - seeds.start;
    let mut text = format!(
        "\n## 11. Stated and actual time\n\n`flashfit probe --write` states its price before it \
         writes. {cards} cards, seeds from {}, simulated time: with `--max-time 15min`, the limit of \
         a real device, and without a limit.\n\n",
        seeds.start
    );
    let folder = tempfile::tempdir().unwrap();
    let all = running::of_each(seeds, |seed| {
        let file = folder.path().join(format!("{seed}.toml"));
        std::fs::write(&file, cards::draw(seed).toml).unwrap();
        times(&file)
    });
    let limited = Share::of(all.iter().map(|of| of.limited * 1e9 <= USUAL_NS * ALLOWED));
    let within = Share::of(all.iter().map(|of| of.unlimited <= of.most));
    let ended = Share::of(all.iter().map(|of| of.unlimited * 1e9 > USUAL_NS));
    let _ = writeln!(text, "| figure | cards | goal |\n|---|---|---|");
    let _ = writeln!(text, "| within the limit of 15 minutes | {limited} | all |");
    let _ = writeln!(text, "| without a limit, within the most that was stated | {within} | |");
    let _ = writeln!(text, "| without a limit, more than 15 minutes | {ended} | |");
    let mut ratios: Vec<f64> = all.iter().map(|of| of.unlimited / of.usual).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |percent: usize| ratios[(ratios.len() - 1) * percent / 100];
    let _ = writeln!(
        text,
        "\nWithout a limit, a probe took {:.1} times the usual time that was stated (median; 10 % \
         of the cards less than {:.1}, 10 % more than {:.1}).",
        at(50),
        at(10),
        at(90)
    );
    served(&mut text);
    text
}

fn times(file: &Path) -> Times {
    let target = format!("sim:{}", file.display());
    let run = |more: &[&str]| {
        let (document, _) = running::probe(Path::new(&target), &[&["--write"], more].concat());
        document
    };
    let price = run(&["--dry-run"])["data"]["price"]["time_ns"].clone();
    let elapsed = |document: Value| seconds(&document["cost"]["elapsed_ns"]);
    Times {
        usual: seconds(&price[0]),
        most: seconds(&price[1]),
        limited: elapsed(run(&["--max-time", "15min"])),
        unlimited: elapsed(run(&[])),
    }
}

fn seconds(value: &Value) -> f64 {
    value.as_f64().expect("a time") / 1e9
}

/// The command on cards served to this kernel, in real time.
fn served(text: &mut String) {
    if let Some(reason) = capability::missing_for_simulated_cards() {
        let _ = writeln!(text, "\nNot measured in real time: {reason}.");
        return;
    }
    let _ = writeln!(
        text,
        "\nOn simulated cards behind a loop device, in real time, with `--max-time \
         {SERVED_SECONDS:.0}s` and no terminal:\n\n| card | time of the whole command |\n|---|--:|"
    );
    for name in SERVED {
        let card = ServedCard::new(name, &[]);
        let begun = Instant::now();
        let status = Command::new(FLASHFIT)
            .args(["probe", "--json", "--write", "--max-time"])
            .arg(format!("{SERVED_SECONDS:.0}s"))
            .arg("--confirm")
            .arg(card.at.file_name().unwrap())
            .arg(&card.at)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{name}: {status}");
        let _ = writeln!(text, "| {name} | {:.1} s |", begun.elapsed().as_secs_f64());
    }
}
