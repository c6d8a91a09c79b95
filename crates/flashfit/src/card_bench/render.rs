//! The figures of cards as text and as Markdown.

use std::fmt::Write;

use flashfit_geometry::flashbench::{Access, Comparison, OpenUnitTable, units_before_the_cliff};
use flashfit_medium::Bytes;
use flashfit_report::{Column, Table};

use super::{Counterpart, Measured};

/// The size of a write at which the open units are read off, as people read flashbench's tables.
const CLIFF_WRITE: Bytes = Bytes(64 << 10);

/// For a terminal of that width.
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
    line(text, &format!("{} (simulated): {}", measured.card, measured.title));
    facts(measured).iter().for_each(|(name, value)| line(text, &format!("{name:<22} {value}")));
    let figures = &measured.figures;
    for access in [Access::Linear, Access::Random] {
        line(text, &format!("\nMB/s by erase units written in turn, {access} within each"));
        text.push_str(&grid(&figures.open_units, access, width));
    }
    let Some(counterpart) = &measured.counterpart else { return };
    for access in [Access::Linear, Access::Random] {
        line(text, &format!("\nthe real card, {}, {access}", counterpart.name));
        text.push_str(&grid(&counterpart.table, access, width));
    }
}

fn facts(measured: &Measured) -> Vec<(&'static str, String)> {
    let figures = &measured.figures;
    let amplification = figures
        .random_write_amplification_thousandths
        .map_or_else(|| "–".to_owned(), |a| format!("{}.{:02}", a / 1000, a % 1000 / 10));
    let (writes, reads) =
        (figures.sequential_write_bytes_per_second, figures.sequential_read_bytes_per_second);
    let mut facts = vec![
        ("erase unit", measured.erase_unit.to_string()),
        ("sequential, 1 MiB", format!("writes {}, reads {} MB/s", rate(writes), rate(reads))),
        (
            "random, 4 KiB",
            format!(
                "{} writes, {} reads a second",
                figures.random_writes_per_second, figures.random_reads_per_second
            ),
        ),
        ("write amplification", format!("{amplification} of those random writes")),
        ("open units seen", cliffs(&figures.open_units)),
    ];
    if let Some(counterpart) = &measured.counterpart {
        facts.push(("of the real card", cliffs(&counterpart.table)));
        facts.push(("agreement", agreement(counterpart)));
    }
    facts
}

fn cliffs(table: &OpenUnitTable) -> String {
    let most = table.cells.iter().map(|cell| cell.units).max().unwrap_or(0);
    let of = |access| match units_before_the_cliff(table, access, CLIFF_WRITE) {
        Some(units) => format!("{access} {units}"),
        None => format!("{access} no fall up to {most}"),
    };
    format!("{}; {} (writes of {CLIFF_WRITE})", of(Access::Linear), of(Access::Random))
}

fn agreement(counterpart: &Counterpart) -> String {
    let Some(comparison) = &counterpart.comparison else {
        return "the two tables have no row in common".to_owned();
    };
    let Comparison { cells, median_error_thousandths, ninth_decile_error_thousandths, within_2 } =
        comparison;
    format!(
        "off by a factor of {} (median), at most {} in nine of ten; within 2 in {within_2} of {cells}",
        hundredths(*median_error_thousandths),
        hundredths(*ninth_decile_error_thousandths),
    )
}

fn hundredths(thousandths: u64) -> String {
    format!("{}.{:02}", thousandths / 1000, thousandths % 1000 / 10)
}

/// Sizes down, numbers of units across.
fn grid(table: &OpenUnitTable, access: Access, width: usize) -> String {
    let (sizes, counts) = axes(table, access);
    let numbers = counts.iter().map(|count| Column::number(&count.to_string()));
    let mut grid = Table::new(std::iter::once(Column::number("WRITE")).chain(numbers));
    for size in sizes {
        grid.row(row(table, access, size, &counts));
    }
    grid.render(width)
}

fn axes(table: &OpenUnitTable, access: Access) -> (Vec<Bytes>, Vec<u32>) {
    let cells = || table.cells.iter().filter(|cell| cell.access == access);
    let mut sizes: Vec<Bytes> = cells().map(|cell| cell.write).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    let mut counts: Vec<u32> = cells().map(|cell| cell.units).collect();
    counts.sort_unstable();
    counts.dedup();
    (sizes, counts)
}

fn row(table: &OpenUnitTable, access: Access, size: Bytes, counts: &[u32]) -> Vec<String> {
    let cell = |&count: &u32| table.rate(count, access, size).map_or_else(String::new, rate);
    std::iter::once(size.to_string()).chain(counts.iter().map(cell)).collect()
}

/// In MB/s, with three digits or four decimals.
fn rate(bytes_per_second: u64) -> String {
    let mb = bytes_per_second as f64 / 1e6;
    match mb {
        100.0.. => format!("{mb:.0}"),
        10.0.. => format!("{mb:.1}"),
        1.0.. => format!("{mb:.2}"),
        0.1.. => format!("{mb:.3}"),
        _ => format!("{mb:.4}"),
    }
}

/// As a chapter of a document.
pub fn markdown(all: &[Measured]) -> String {
    let mut text = String::from(
        "# The simulated cards beside real ones\n\nWritten by `flashfit card bench --all \
         --markdown`; every figure of a model is simulated. The tables are those of `flashbench \
         --open-au`: MB/s by the number of erase units written in turn (across) and the size of a \
         write (down). Each cell has the model's rate and, behind a stroke, the real card's.\n",
    );
    for measured in all {
        line(&mut text, &format!("\n## {}\n\n{}\n", measured.card, measured.title));
        line(&mut text, &format!("Figures from: {}\n", measured.source));
        facts(measured)
            .iter()
            .for_each(|(name, value)| line(&mut text, &format!("- {name}: {value}")));
        for access in [Access::Linear, Access::Random] {
            line(&mut text, &format!("\n{access} within each unit:\n"));
            beside(&mut text, measured, access);
        }
    }
    text
}

fn beside(text: &mut String, measured: &Measured, access: Access) {
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
                real.map_or_else(
                    || format!(" {own} |"),
                    |real| format!(" {own} / {} |", rate(real)),
                )
            })
            .collect();
        line(text, &format!("| {size} |{cells}"));
    }
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes any text");
}
