//! The figures of cards as a document, for readers who never saw flashbench.

use flashfit_geometry::flashbench::Access;

use super::Measured;
use super::render::{amplification, axes, count, facts, line, published_row, rate, state, way};

const HEAD: &str = "\
# The simulated cards beside real ones

Written by `make cards`, that is `flashfit card bench --all --markdown`. Every figure of a model is
simulated, under a virtual clock; the models are in `catalog/cards/`, with the source of each of
their own figures. Their capacities are reduced, so that they can be measured in a moment.

**Random requests** are of 4 KiB, 4096 of them. Before them, the first quarter of the card was
written and the rest never (*quarter*: as in most published measurements), or all of the card
(*full*); then it was left alone for a minute. *Amplification* is what was written to the flash for
each byte that was written to the card.

**Open units.** A cheap card can write to a few erase units at the same time. When more are written
in turn, it must put one in order (merge it) for each write, however small. The tables show it:
across, the number of erase units that are written in turn; down, the size of a write; in the cells,
MB/s (10^6 bytes a second). *Linear* writes go through each unit from its start to its end; *random*
ones to each place of it once, in a mixed order. It is what `flashbench --open-au` measures. Where
the model is made after a real card, each cell has the model's rate first and the real card's
behind a stroke; those tables are from `catalog/published/`. The *open units seen* are the most
that can be written in turn before the rate falls below half; *over 7* where it does not. The
*agreement* is the factor, one way or the other, between model and card: half of the cells are
within the median, nine in ten within the second figure.
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
    line(text, &format!("Made after: {}.\n", measured.source));
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
        line(text, "\n| published of cards like it | | here | source |");
        line(text, "|---|--:|--:|---|");
        for beside in &measured.published {
            line(text, &format!("| {} |", published_row(beside).join(" | ")));
        }
    }
    for access in [Access::Linear, Access::Random] {
        let real = measured.counterpart.as_ref();
        let whose = real.map_or_else(String::new, |real| format!("; model / {}", real.name));
        line(text, &format!("\nMB/s, {access} within each unit{whose}:\n"));
        grid(text, measured, access);
    }
}

fn grid(text: &mut String, measured: &Measured, access: Access) {
    let ours = &measured.figures.open_units;
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
