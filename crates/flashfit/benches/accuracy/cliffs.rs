//! Section 8: how many erase blocks can be open, where rates fall at once and where they do not.
//!
//! Drawn cards: an update log with chunks merges a part of an erase block with each write beyond
//! its number, so its cliff is soft. Drawn tables, as flashbench prints them: rates that fall at
//! one number of erase blocks, and rates that decline gradually, by several shapes; each cell
//! varies by up to a tenth. Limit: the shapes are those of published tables, not all there may be.

use flashfit_card::model::LayerKind;
use flashfit_device::Bytes;
use flashfit_device::random::Random;
use flashfit_geometry::flashbench::{AccessOrder, Imported, OpenBlockTable, TableCell, inference};

use crate::cards;
use crate::share::Share;
use crate::trials::{Answers, HEAD, Trial, count};

/// Drawn tables of each kind.
const TABLES: u64 = 400;
const ERASE_BLOCK: u64 = 4 << 20;
/// In a gradual decline no step has more than this share of all of it, as logarithms.
const LARGEST_STEP: f64 = 0.4;

/// The section, as Markdown.
pub fn section(trials: &[Trial]) -> String {
    let mut text = format!(
        "\n## 8. Open erase blocks: sharp, soft and gradual\n\nThe cards of section 1, linear \
         writes, correct to within one; then {TABLES} drawn tables of each kind, correct if exact.\n\n{HEAD}"
    );
    let of = |wanted: &dyn Fn(&Trial) -> bool| {
        let cards = trials.iter().filter(|t| wanted(t));
        Answers::of(cards.filter_map(|t| {
            let found = count(&t.written.findings.open_erase_blocks_linear);
            let truth = t.open_linear()?;
            Some((found, found.is_some_and(|found| found.abs_diff(truth) <= 1)))
        }))
    };
    let is_update_log = |t: &Trial| t.kind() == LayerKind::UpdateLog;
    let is_soft = |t: &Trial| is_update_log(t) && chunk(t) < t.erase_block();
    text += &of(&|t| t.kind() == LayerKind::BlockMapped).row("block-mapped", "95 % correct");
    text += &of(&|t| t.kind() == LayerKind::LogBlock).row("log-block", "95 % correct");
    text += &of(&|t| is_update_log(t) && !is_soft(t)).row("update log, whole", "95 % correct");
    text += &of(&is_soft).row("update log with chunks (soft)", "95 % correct");
    let seeds = || cards::EVALUATION..cards::EVALUATION + TABLES;
    let sharp: Vec<_> = seeds().map(|seed| judged(seed, draw_cliff)).collect();
    let sharp = sharp.into_iter();
    text += &Answers::of(sharp).row("tables with a cliff", "95 % correct");
    let gradual: Vec<_> = seeds().map(|seed| judged(seed, draw_decline)).collect();
    let silent = Share::of(gradual.iter().map(|(found, _)| found.is_none()));
    text += &Answers::of(gradual.into_iter()).row("tables of a gradual decline", "none");
    text += &format!("\nOf the tables of a gradual decline, without an answer: {silent}.\n");
    text
}

fn chunk(trial: &Trial) -> u64 {
    trial.card.model.layer.chunk.map_or(trial.erase_block(), |chunk| chunk.0)
}

/// The answer for a drawn table, and whether it is right.
fn judged(seed: u64, draw: fn(&mut Random) -> DrawnRates) -> (Option<u32>, bool) {
    let mut random = Random::new(seed);
    let drawn = draw(&mut random);
    let most = u32::try_from(drawn.rates.len()).expect("few units");
    let mut cells = Vec::new();
    for units in 1..=most {
        let mut write = ERASE_BLOCK;
        while write >= 4096 {
            let rate = drawn.rates[units as usize - 1] * (1.0 - drawn.by_size * small(write));
            let rate = rate * (1.0 + drawn.noise * (unit(&mut random) - 0.5) * 2.0);
            let bytes_per_second = rate as u64;
            let access = AccessOrder::Linear;
            cells.push(TableCell { units, access, write: Bytes(write), bytes_per_second });
            write /= 2;
        }
    }
    let open_erase_blocks = vec![OpenBlockTable { cells }];
    let imported = Imported { open_erase_blocks, ..Imported::default() };
    let found = count(&inference::infer(&imported).findings.open_erase_blocks_linear);
    (found, found.is_some() && found == drawn.open)
}

/// How small a write is: 0 for an erase block, 1 for 4 KiB.
fn small(write: u64) -> f64 {
    (ERASE_BLOCK as f64 / write as f64).ln() / (ERASE_BLOCK as f64 / 4096.0).ln()
}

struct DrawnRates {
    /// By the number of erase blocks from 1 on, in bytes per second.
    rates: Vec<f64>,
    /// Their number before a cliff.
    open: Option<u32>,
    /// How much less the rate of the smallest writes is.
    by_size: f64,
    noise: f64,
}

/// Evenly from 0 to 1.
fn unit(random: &mut Random) -> f64 {
    random.below(1_000_000) as f64 / 1e6
}

fn draw_cliff(random: &mut Random) -> DrawnRates {
    let most = 6 + random.below(9);
    let open = 1 + random.below(most - 3);
    let fast = 2e6 + unit(random) * 30e6;
    let fall = 2.0 * 15f64.powf(unit(random));
    // Beyond, rates may decrease by up to a quarter more.
    let more = unit(random) * 0.25;
    let rate = |units: u64| {
        let beyond = units.saturating_sub(open) as f64 / (most - open) as f64;
        if units <= open { fast } else { fast / fall * (1.0 - more * beyond) }
    };
    DrawnRates {
        rates: (1..=most).map(rate).collect(),
        open: Some(u32::try_from(open).expect("few units")),
        by_size: unit(random) * 0.6,
        noise: 0.02 + unit(random) * 0.08,
    }
}

fn draw_decline(random: &mut Random) -> DrawnRates {
    loop {
        let most = 6 + random.below(9);
        let from = 1 + random.below(3);
        let fast = 2e6 + unit(random) * 30e6;
        let fall = 2.5 * 6f64.powf(unit(random));
        let shape = random.below(3);
        let rate = |units: u64| {
            let beyond = units.saturating_sub(from) as f64 / (most - from) as f64;
            fast / match shape {
                // Like the reciprocal of a power of the number, of its exponent, or of itself.
                0 => fall.powf(
                    (units.max(from) as f64 / from as f64).ln() / (most as f64 / from as f64).ln(),
                ),
                1 => fall.powf(beyond),
                _ => 1.0 + (fall - 1.0) * beyond,
            }
        };
        let rates: Vec<f64> = (1..=most).map(rate).collect();
        let steps = rates.windows(2).map(|of| (of[0] / of[1]).ln());
        let largest = steps.fold(0.0, f64::max);
        if largest <= LARGEST_STEP * (rates[0] / rates[rates.len() - 1]).ln() {
            let (by_size, noise) = (unit(random) * 0.6, 0.02 + unit(random) * 0.08);
            return DrawnRates { rates, open: None, by_size, noise };
        }
    }
}
