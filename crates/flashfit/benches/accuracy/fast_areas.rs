//! Section 6: fast areas that are written first (pSLC).
//!
//! Cards are drawn until enough have one; those of section 1 without one are the others.

use crate::share::Share;
use crate::trials::{self, Answers, HEAD, State, Trial, bytes, fast_area_of, is_close};
use crate::{cards, running};

/// Cards with an area.
const CARDS: usize = 100;
/// The first seed, behind those of section 1, and how many are looked at at most.
const FIRST: u64 = cards::EVALUATION + 100_000;
const SEEDS: u64 = 10_000;

/// The section, as Markdown.
pub fn section(others: &[Trial], state: State) -> String {
    let has_one = |seed: &u64| fast_area_of(&cards::draw(*seed).model).is_some();
    let seeds: Vec<u64> = (FIRST..FIRST + SEEDS).filter(has_one).take(CARDS).collect();
    let found = running::of_each(0..seeds.len() as u64, |at| {
        let seed = seeds[usize::try_from(at).expect("few cards")];
        let model = cards::draw(seed).model;
        let area = fast_area_of(&model).expect("it has one");
        let found = bytes(&trials::write(&model, seed, state).findings.pslc_cache);
        (area, found, found.is_some_and(|found| is_close(found, area)))
    });
    let with = found.iter().map(|(_, found, is_right)| (*found, *is_right));
    let right = Share::of(found.iter().map(|(_, _, is_right)| *is_right));
    let without = others.iter().filter(|t| t.fast_area().is_none());
    let without = Answers::of(without.map(|t| (bytes(&t.written.findings.pslc_cache), false)));
    let mut text = format!(
        "\n## 6. Fast areas (pSLC)\n\nCards are drawn with seeds from {FIRST} until {CARDS} have \
         a fast area. The others are the cards of section 1 without one. An answer is correct if \
         the size is within a tenth.\n\n{HEAD}"
    );
    text += &Answers::of(with).row("cards with a fast area", "90 %");
    text += &without.row("cards without one", "none");
    text += &format!("\nFound and correct: {right} (goal: 90 %).\n\n");
    text += "| size of the area | found and correct | wrong size |\n|---|---|---|\n";
    for (from, to) in [(0, 4), (4, 32), (32, 256), (256, 1 << 20)] {
        let of = found.iter().filter(|(area, ..)| (from << 20..to << 20).contains(area));
        let right = Share::of(of.clone().map(|(_, _, is_right)| *is_right));
        let wrong = of.filter(|(_, found, is_right)| found.is_some() && !is_right).count();
        let upper = if to == 1 << 20 { "more".to_owned() } else { format!("{to} MiB") };
        text += &format!("| {from} MiB to {upper} | {right} | {wrong} |\n");
    }
    text
}
