//! `flashfit card stats`: the counters of a card that is being served.

use std::fmt::Write;
use std::path::Path;

use flashfit_card::{Counters, SpareBlocks};
use flashfit_card_client::{reset_stats, spare_blocks, stats};
use flashfit_device::Bytes;
use flashfit_report::FigureUnit;
use schemars::JsonSchema;
use serde::Serialize;

use crate::command_error::CommandError;
use crate::output;

pub fn run(device: &Path, reset: bool, json: bool) -> Result<(), CommandError> {
    let counters = if reset { reset_stats(device)? } else { stats(device)? };
    let spare_blocks = spare_blocks(device)?;
    if json {
        return output::json(StatsDocument { counters, spare_blocks });
    }
    let spares = spare_blocks.map(|spares| spares_text(&spares)).unwrap_or_default();
    output::print(&(counters_text(&counters) + &spares))
}

#[derive(JsonSchema, Serialize)]
pub struct StatsDocument {
    #[serde(flatten)]
    counters: Counters,
    /// Absent if blocks of the card's model never fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    spare_blocks: Option<SpareBlocks>,
}

fn spares_text(spares: &SpareBlocks) -> String {
    let end = if spares.worn_out { "; worn out: the card is read-only" } else { "" };
    format!(
        "{:<22} {} failed and replaced, {} spare left{end}\n",
        "erase blocks", spares.retired, spares.left
    )
}

/// A card's counters, a fact a line.
pub fn counters_text(counters: &Counters) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        writeln!(text, "{name:<22} {value}").expect("a string takes any text");
    };
    let requests = |bytes, count| format!("{} in {count} requests", Bytes(bytes));
    line("host reads", requests(counters.host_read_bytes, counters.host_read_requests));
    line("host writes", requests(counters.host_written_bytes, counters.host_write_requests));
    line("host flushes", counters.host_flushes.to_string());
    line("host discards", Bytes(counters.host_discarded_bytes).to_string());
    line("NAND reads", Bytes(counters.nand_read_bytes).to_string());
    line("NAND programs", Bytes(counters.nand_programmed_bytes).to_string());
    line("write amplification", amplification(counters));
    let erases = &counters.erases_per_unit;
    line(
        "erases",
        format!(
            "{}; by erase block: least {}, mean {}.{:03}, most {}",
            counters.erases,
            erases.least,
            erases.mean_thousandths / 1000,
            erases.mean_thousandths % 1000,
            erases.most
        ),
    );
    let merges = &counters.merges;
    line(
        "merges",
        format!(
            "{} full, {} partial, {} switch, {} of the log",
            merges.full, merges.partial, merges.switch, merges.log
        ),
    );
    line("garbage collections", counters.garbage_collections.to_string());
    let time = |ns: u64| FigureUnit::Nanoseconds.show(ns as f64);
    line(
        "busy",
        format!(
            "{}, {} of it collecting or merging",
            time(counters.busy_ns),
            time(counters.merge_ns)
        ),
    );
    rare(counters).iter().filter(|(_, count)| *count > 0).for_each(|(name, count)| {
        line(name, count.to_string());
    });
    if counters.background_ns > 0 {
        line("work in idle time", time(counters.background_ns));
    }
    text
}

/// What most cards never do is printed only if it happened.
fn rare(counters: &Counters) -> [(&'static str, u64); 7] {
    [
        ("blocks beyond rating", counters.units_beyond_rating),
        ("pSLC blocks folded", counters.folds),
        ("moved for even wear", counters.wear_levelling_moves),
        ("map reads", counters.map_reads),
        ("map writes", counters.map_writes),
        ("stalls", counters.stalls),
        ("power cuts", counters.power_cuts),
    ]
}

fn amplification(counters: &Counters) -> String {
    counters.write_amplification_thousandths.map_or_else(
        || "nothing was written".to_owned(),
        |thousandths| format!("{}.{:02}", thousandths / 1000, thousandths % 1000 / 10),
    )
}
