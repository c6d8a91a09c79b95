//! Section 1: simulated cards whose geometry is known.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::cards::Noise;
use crate::oracle;
use crate::share::Share;
use crate::trials::{Answers, HEAD, Trial, bytes, count};

/// The section, as Markdown.
pub fn section(trials: &[Trial]) -> String {
    let mut text =
        format!("\n## 1. Simulated cards of known geometry\n\n{} cards.\n\n{HEAD}", trials.len());
    summary(&mut text, trials);
    by_layer(&mut text, trials);
    by_noise(&mut text, trials);
    costs(&mut text, trials);
    text
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes any text");
}

fn summary(text: &mut String, trials: &[Trial]) {
    let mut row = |what: &str, goal: &str, answers: Answers| *text += &answers.row(what, goal);
    let all = trials.iter();
    let written = all
        .clone()
        .map(|t| (t.found_erase_block(), t.found_erase_block() == Some(t.erase_block())));
    row("erase block, by writing", "98 %, 99 %", Answers::of(written));
    let read = |shown: bool| {
        let cards = all.clone().filter(move |t| t.card.shows_units_to_readers == shown);
        cards.map(|t| {
            let found = bytes(&t.read.erase_block);
            (found, found == Some(t.erase_block()))
        })
    };
    let name = "erase block, by reading, cards that reveal it to reads";
    row(name, "90 %, 99 %", Answers::of(read(true)));
    row("erase block, by reading, other cards", "none", Answers::of(read(false)));
    let near = |found: Option<u32>, truth: u32| {
        (found, found.is_some_and(|found| found.abs_diff(truth) <= 1))
    };
    let linear = all.clone().filter_map(|t| {
        let found = count(&t.written.findings.open_erase_blocks_linear);
        t.open_linear().map(|truth| near(found, truth))
    });
    row("open erase blocks, linear, to within one", "", Answers::of(linear));
    let shown = all.clone().filter(|t| oracle::shows_open_erase_blocks(&t.card.model));
    let linear = shown.filter_map(|t| {
        let found = count(&t.written.findings.open_erase_blocks_linear);
        t.open_linear().map(|truth| near(found, truth))
    });
    let name = "open erase blocks, linear, cards that show a cliff";
    row(name, "85 %, 95 %", Answers::of(linear));
    let random = all.clone().filter_map(|t| {
        let found = count(&t.written.findings.open_erase_blocks_random);
        t.open_random().map(|truth| near(found, truth))
    });
    row("open erase blocks, random, to within one", "95 % correct", Answers::of(random));
    let unit = |of: fn(&Trial) -> Option<u64>| {
        all.clone().map(move |t| (of(t), of(t) == Some(t.write_unit())))
    };
    let written = |t: &Trial| bytes(&t.written.findings.write_unit);
    row("write unit, by writing", "see below", Answers::of(unit(written)));
    row("write unit, by reading", "", Answers::of(unit(|t| bytes(&t.read.write_unit))));
    let shown = all.clone().filter(|t| oracle::shows_write_unit(&t.card.model));
    let known = Answers::of(shown.map(|t| (written(t), written(t) == Some(t.write_unit()))));
    row("write unit, by writing, cards that show one", "80 %, 99 %", known);
    let less = trials.iter().filter(|t| bytes(&t.read.write_unit).is_some());
    let less = Share::of(less.map(|t| written(t).is_none()));
    line(
        text,
        &format!(
            "\nA card shows its write unit to writes if, on the card without noise, writes of a write \
             unit, or of one on each die, take at least 5 % longer shifted by half a write unit than \
             by a whole one. It shows a cliff if, on the card without noise, beginning each of three \
             erase blocks more than can be open takes 10 % longer than the open ones. Both are \
             measured with the true geometry, without the probe \
             (`crates/geometry/benches/accuracy/oracle.rs`). Where reading alone found a write \
             unit, writing had no answer in {less} (goal: none).",
        ),
    );
}

fn table<K: Ord>(text: &mut String, trials: &[Trial], key: impl Fn(&Trial) -> (K, String)) {
    line(
        text,
        "| | by writing: answered | correct | by reading, if revealed: answered | correct |",
    );
    line(text, "|---|---|---|---|---|");
    let mut groups: BTreeMap<K, (String, Vec<&Trial>)> = BTreeMap::new();
    for trial in trials {
        let (key, name) = key(trial);
        groups.entry(key).or_insert_with(|| (name, Vec::new())).1.push(trial);
    }
    for (name, group) in groups.values() {
        let is_right = |found: Option<u64>, t: &Trial| found == Some(t.erase_block());
        let written = Answers::of(
            group.iter().map(|t| (t.found_erase_block(), is_right(t.found_erase_block(), t))),
        );
        let shown = group.iter().filter(|t| t.card.shows_units_to_readers);
        let read = shown.map(|t| (bytes(&t.read.erase_block), t));
        let read = Answers::of(read.map(|(found, t)| (found, is_right(found, t))));
        line(
            text,
            &format!(
                "| {name} | {} | {} | {} | {} |",
                written.given, written.right, read.given, read.right
            ),
        );
    }
}

fn by_layer(text: &mut String, trials: &[Trial]) {
    line(text, "\nErase block, by translation layer:\n");
    table(text, trials, |trial| {
        let kind = format!("{:?}", trial.kind());
        (kind.clone(), kind)
    });
}

fn by_noise(text: &mut String, trials: &[Trial]) {
    line(text, "\nErase block, by noise:\n");
    table(text, trials, |trial| {
        let noise: Noise = trial.card.noise;
        (noise, format!("{noise:?}"))
    });
}

/// The cards' own time and the bytes written, in the middle and at the worst.
fn costs(text: &mut String, trials: &[Trial]) {
    let sorted = |of: fn(&Trial) -> u64| {
        let mut values: Vec<u64> = trials.iter().map(of).collect();
        values.sort_unstable();
        values
    };
    let seconds = sorted(|t| t.written.elapsed_ns / 1_000_000_000);
    let mib = sorted(|t| t.written.written_bytes >> 20);
    let of = |values: &[u64]| {
        let at = |percent: usize| values.get(values.len() * percent / 100).copied().unwrap_or(0);
        (at(50), at(90), values.last().copied().unwrap_or(0))
    };
    let ((s50, s90, s100), (m50, m90, m100)) = (of(&seconds), of(&mib));
    line(
        text,
        &format!(
            "\nA writing probe takes {s50} s (median), {s90} s (90th percentile) and at most {s100} s \
             of simulated time. It writes {m50}, {m90} and {m100} MiB."
        ),
    );
}
