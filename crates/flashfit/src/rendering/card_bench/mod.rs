//! The figures of cards as text, and the pieces of text that they share with Markdown.

pub mod markdown;

use std::fmt::Write;

use flashfit_card::patterns::{AccessPattern, PriorState, RandomFigures};
use flashfit_device::Bytes;
use flashfit_geometry::flashbench::{AccessOrder, Comparison, OpenBlockTable};
use flashfit_report::{Column, TextTable};

use crate::card_bench::figures::{Counterpart, Measured, OpenBlocksSeen};
use crate::card_bench::published::{ComparedFigure, FigureSubject};

pub fn terminal(all: &[Measured], width: usize) -> String {
    let mut text = String::new();
    for (index, measured) in all.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        section(&mut text, measured, width);
    }
    text
}

fn section(text: &mut String, measured: &Measured, width: usize) {
    line(text, &format!("{} (simulated)\n{}\n", measured.card, measured.title));
    facts(measured).iter().for_each(|(name, value)| line(text, &format!("{name:<22} {value}")));
    line(text, "\nrandom requests of 4 KiB per second");
    text.push_str(&random_table(&measured.figures.random, width));
    line(
        text,
        "quarter: only the first quarter of the card was written before; full: the whole card",
    );
    if !measured.published.is_empty() {
        line(text, "\npublished for similar cards, and here");
        published_lines(text, &measured.published);
    }
    for access in [AccessOrder::Linear, AccessOrder::Random] {
        line(text, &format!("\nMB/s by erase blocks written in turn, {access} within each"));
        text.push_str(&grid(&measured.figures.open_erase_blocks, access, width));
        if let Some(real) = &measured.counterpart {
            line(text, &format!("\nthe same of the real card, {}", real.name));
            text.push_str(&grid(&real.table, access, width));
        }
    }
}

fn random_table(all: &[RandomFigures], width: usize) -> String {
    let heads = [Column::text("STATE"), Column::text("REQUESTS")];
    let numbers = ["WRITES", "AMPLIFICATION", "READS"].map(Column::number);
    let mut table = TextTable::new(heads.into_iter().chain(numbers));
    for random in all {
        table.row(vec![
            state(random.state).to_owned(),
            way(random.way).to_owned(),
            count(random.write_rate_thousandths),
            amplification(random),
            count(random.read_rate_thousandths),
        ]);
    }
    table.render(width)
}

pub fn state(state: PriorState) -> &'static str {
    match state {
        PriorState::Quarter => "quarter",
        PriorState::Full => "full",
    }
}

pub fn way(way: AccessPattern) -> &'static str {
    match way {
        AccessPattern::Single => "one at a time",
        AccessPattern::Synced => "each write flushed",
        AccessPattern::Queued => "32 at a time",
        AccessPattern::Plain => "cache and queue off",
    }
}

pub fn amplification(random: &RandomFigures) -> String {
    random.write_amplification_thousandths.map_or_else(|| "–".to_owned(), hundredths)
}

/// A number with one decimal where it is small.
pub fn count(thousandths: u64) -> String {
    match thousandths {
        10_000.. => (thousandths / 1000).to_string(),
        _ => format!("{}.{}", thousandths / 1000, thousandths % 1000 / 100),
    }
}

fn published_lines(text: &mut String, all: &[ComparedFigure]) {
    for compared in all {
        let [of, published, here, source] = published_row(compared);
        line(text, &format!("{of}: {published}, here {here}"));
        line(text, &format!("  {source}"));
    }
}

/// What it is of, the published figure, the simulated one, the source.
pub fn published_row(compared: &ComparedFigure) -> [String; 4] {
    let published = &compared.published;
    let (what, unit) = match published.what {
        FigureSubject::SequentialWrite => ("1 MiB writes", true),
        FigureSubject::SequentialRead => ("1 MiB reads", true),
        FigureSubject::RandomWrites => ("4 KiB writes", false),
        FigureSubject::RandomReads => ("4 KiB reads", false),
    };
    let mut name = what.to_owned();
    published.way.iter().for_each(|&is| name = format!("{name}, {}", way(is)));
    published.state.iter().for_each(|&is| name = format!("{name}, {}", state(is)));
    let value = |value: u64| if unit { rate(value) } else { count(value) };
    let per = if unit { "MB/s" } else { "/s" };
    let range = match published.most {
        None => format!("at least {} {per}", value(published.least)),
        Some(most) if most == published.least => format!("{} {per}", value(most)),
        Some(most) => format!("{} to {} {per}", value(published.least), value(most)),
    };
    [name, range, format!("{} {per}", value(compared.simulated)), published.source.clone()]
}

pub fn facts(measured: &Measured) -> Vec<(&'static str, String)> {
    let figures = &measured.figures;
    let writes = rate(figures.sequential.write_bytes_per_second);
    let reads = rate(figures.sequential.read_bytes_per_second);
    let mut facts = vec![
        ("erase block", measured.erase_block.to_string()),
        ("sequential, 1 MiB", format!("writes {writes}, reads {reads} MB/s")),
        ("open erase blocks seen", cliffs(&measured.open_erase_blocks_seen)),
    ];
    if let Some(counterpart) = &measured.counterpart {
        facts.push(("of the real card", cliffs(&counterpart.open_erase_blocks_seen)));
        facts.push(("agreement, factor", agreement(counterpart)));
    }
    facts
}

fn cliffs(seen: &OpenBlocksSeen) -> String {
    let of = |name: &str, blocks: Option<u32>, measured: u32| match (blocks, measured) {
        (_, 0) => format!("{name} not measured"),
        (Some(blocks), _) => format!("{name} {blocks}"),
        (None, _) => format!("{name} over {measured}"),
    };
    let linear = of("linear", seen.linear, seen.linear_measured);
    let random = of("random", seen.random, seen.random_measured);
    format!("{linear}; {random} (writes of {})", seen.write)
}

fn agreement(counterpart: &Counterpart) -> String {
    let Some(comparison) = &counterpart.comparison else {
        return "the two tables have no row in common".to_owned();
    };
    let Comparison { cells, median_error_thousandths, ninth_decile_error_thousandths, within_2 } =
        comparison;
    let (median, decile) =
        (hundredths(*median_error_thousandths), hundredths(*ninth_decile_error_thousandths));
    format!("{median} (median), {decile} (nine in ten); {within_2} of {cells} within 2")
}

fn hundredths(thousandths: u64) -> String {
    format!("{}.{:02}", thousandths / 1000, thousandths % 1000 / 10)
}

/// Sizes down, numbers of units across.
fn grid(table: &OpenBlockTable, access: AccessOrder, width: usize) -> String {
    let (sizes, counts) = axes(table, access);
    let numbers = counts.iter().map(|count| Column::number(&count.to_string()));
    let mut grid = TextTable::new(std::iter::once(Column::number("WRITE")).chain(numbers));
    for size in sizes {
        grid.row(row(table, access, size, &counts));
    }
    grid.render(width)
}

pub fn axes(table: &OpenBlockTable, access: AccessOrder) -> (Vec<Bytes>, Vec<u32>) {
    let cells = || table.cells.iter().filter(|cell| cell.access == access);
    let mut sizes: Vec<Bytes> = cells().map(|cell| cell.write).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    let mut counts: Vec<u32> = cells().map(|cell| cell.units).collect();
    counts.sort_unstable();
    counts.dedup();
    (sizes, counts)
}

fn row(table: &OpenBlockTable, access: AccessOrder, size: Bytes, counts: &[u32]) -> Vec<String> {
    let cell = |&count: &u32| table.rate(count, access, size).map_or_else(String::new, rate);
    std::iter::once(size.to_string()).chain(counts.iter().map(cell)).collect()
}

/// In MB/s, with three digits or four decimals.
pub fn rate(bytes_per_second: u64) -> String {
    let mb = bytes_per_second as f64 / 1e6;
    match mb {
        100.0.. => format!("{mb:.0}"),
        10.0.. => format!("{mb:.1}"),
        1.0.. => format!("{mb:.2}"),
        0.1.. => format!("{mb:.3}"),
        _ => format!("{mb:.4}"),
    }
}

pub fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes any text");
}
