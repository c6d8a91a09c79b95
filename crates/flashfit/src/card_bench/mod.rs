//! `flashfit card bench`: measures a card model with simple patterns, with a simulated clock, and
//! compares it with the real card that it is modeled on.

pub mod counterpart;
pub mod figures;
pub mod measure;
pub mod published;

use std::path::{Path, PathBuf};

use clap::Args;
use flashfit_card::CardModel;
use flashfit_device::Bytes;
use flashfit_geometry::flashbench::Comparison;

use crate::cli::target_name;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::card_bench::{markdown, terminal};
use figures::{Counterpart, Measured, OpenBlocksSeen};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit card bench sd-c4-block\n  \
                        flashfit card bench my-card.toml --against flashbench.txt\n  \
                        flashfit card bench --all --markdown > cards.md")]
pub struct CardBenchArgs {
    /// Name of a card, or path of a card file.
    #[arg(required_unless_present = "all", conflicts_with = "all", value_parser = target_name())]
    pub name: Option<String>,
    /// Measure every simulated card.
    #[arg(long)]
    pub all: bool,
    /// Most erase blocks to write in turn; the table starts at 1.
    #[arg(long = "blocks", alias = "units", value_name = "N", default_value_t = 7,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub units: u32,
    /// Smallest write in the table of open erase blocks.
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    pub least: Bytes,
    /// Seed of the random orders.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Compare with the table of a real card, as printed by `flashbench --open-au`.
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub against: Option<PathBuf>,
    /// Print Markdown instead of text.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &CardBenchArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let models = match &args.name {
        Some(name) => vec![flashfit_card::catalog::load(name, catalog)?],
        None => flashfit_card::catalog::all(catalog)?,
    };
    let mut all = Vec::new();
    for model in &models {
        all.push(measured(model, args, catalog)?);
    }
    if args.json {
        output::json(all)
    } else if args.markdown {
        output::print_utf8(&markdown::document(&all))
    } else {
        output::print(&terminal(&all, output::width()))
    }
}

fn measured(
    model: &CardModel,
    args: &CardBenchArgs,
    catalog: Option<&Path>,
) -> Result<Measured, CommandError> {
    let real = match (&args.against, &model.counterpart) {
        (Some(path), _) => Some(counterpart::given(path)?),
        (None, Some(name)) => Some(counterpart::table_named(name, catalog)?),
        (None, None) => None,
    };
    let figures = measure::figures(model, args.units, args.least, args.seed)?;
    let published = published::compared(&model.name, &figures, catalog)?;
    let counterpart = real.map(|(name, table)| Counterpart {
        comparison: Comparison::of(&figures.open_erase_blocks, &table),
        open_erase_blocks_seen: OpenBlocksSeen::of(&table),
        name,
        table,
    });
    Ok(Measured {
        card: model.name.clone(),
        title: model.title.clone(),
        source: model.source.clone(),
        erase_block: Bytes(model.erase_block_bytes()),
        open_erase_blocks_seen: OpenBlocksSeen::of(&figures.open_erase_blocks),
        figures,
        published,
        counterpart,
    })
}
