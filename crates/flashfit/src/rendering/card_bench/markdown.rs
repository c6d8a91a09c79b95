//! The figures of cards as a document, for readers who do not know flashbench.

use flashfit_geometry::flashbench::AccessOrder;

use super::{amplification, axes, count, facts, line, published_row, rate, state, way};
use crate::card_bench::figures::Measured;

const HEAD: &str = "\
# Simulated cards compared with real ones

Written by `make cards` (`flashfit card bench --all --markdown`). All figures of the models are
simulated, with a simulated clock. The models are in `catalog/cards/`, with the source of each of
their parameters. Their capacities are reduced to keep the measurements short.

**Random requests** have 4 KiB; there are 4096 of them. Before the measurement, either the first
quarter of the card was written and the rest never (*quarter*, as in most published measurements),
or the whole card (*full*). Then the card was idle for a minute. *Amplification* is the number of
bytes written to the flash per byte written to the card.

**Open erase blocks.** A cheap card can write to only a few erase blocks at the same time. If more
are written in turn, it must merge one for each write, however small. The tables show this as
`flashbench --open-au` measures it. Columns are the number of erase blocks that are written in
turn, rows are the write size, and cells are MB/s (10^6 bytes per second). *Linear* writes go
through each erase block from start to end; *random* writes visit each position once, in random
order. If the model is based on a real card, each cell shows the model and then the real card,
separated by a slash. The tables of the real cards are in `catalog/published/`. *Open erase blocks
seen* is the number of erase blocks at which one more makes the rate fall below half of what it was,
or *over 7*. A rate that falls slowly, or is low with one block already, has no such step.
*Agreement* is the ratio of model and card, in either direction: half of the cells are within the
median, nine in ten within the second figure.
";

/// All cards, a chapter each.
pub fn document(all: &[Measured]) -> String {
    let mut text = HEAD.to_owned();
    for measured in all {
        chapter(&mut text, measured);
    }
    text
}

fn chapter(text: &mut String, measured: &Measured) {
    line(text, &format!("\n## {}\n\n{}.\n", measured.card, measured.title));
    line(text, &format!("Based on: {}.\n", measured.source));
    facts(measured).iter().for_each(|(name, value)| line(text, &format!("- {name}: {value}")));
    line(text, "\n| before | requests of 4 KiB | writes/s | amplification | reads/s |");
    line(text, "|---|---|--:|--:|--:|");
    for random in &measured.figures.random {
        let (state, way) = (state(random.state), way(random.way));
        let (writes, reads) =
            (count(random.write_rate_thousandths), count(random.read_rate_thousandths));
        let amplification = amplification(random);
        line(text, &format!("| {state} | {way} | {writes} | {amplification} | {reads} |"));
    }
    if !measured.published.is_empty() {
        line(text, "\n| published for similar cards | | here | source |");
        line(text, "|---|--:|--:|---|");
        for beside in &measured.published {
            line(text, &format!("| {} |", published_row(beside).join(" | ")));
        }
    }
    for access in [AccessOrder::Linear, AccessOrder::Random] {
        let real = measured.counterpart.as_ref();
        let whose = real.map_or_else(String::new, |real| format!("; model / {}", real.name));
        line(text, &format!("\nMB/s, {access} within each erase block{whose}:\n"));
        grid(text, measured, access);
    }
}

fn grid(text: &mut String, measured: &Measured, access: AccessOrder) {
    let ours = &measured.figures.open_erase_blocks;
    let (sizes, counts) = axes(ours, access);
    let heads: String = counts.iter().map(|count| format!(" {count} |")).collect();
    line(text, &format!("| write |{heads}"));
    line(text, &format!("|--:|{}", "--:|".repeat(counts.len())));
    for size in sizes {
        let cells: String = counts
            .iter()
            .map(|&count| {
                let own = ours.rate(count, access, size).map_or_else(String::new, rate);
                let real = measured.counterpart.as_ref();
                let real = real.and_then(|real| real.table.rate(count, access, size));
                match real {
                    None => format!(" {own} |"),
                    Some(real) => format!(" {own} / {} |", rate(real)),
                }
            })
            .collect();
        line(text, &format!("| {size} |{cells}"));
    }
}
