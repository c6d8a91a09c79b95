//! `flashfit card bench`: what a card model makes of simple patterns, in the process under a
//! virtual clock, beside the real card that it is modelled after.

mod markdown;
mod measure;
mod patterns;
mod published;
mod render;

use std::path::{Path, PathBuf};

use clap::Args;
use flashfit_card::CardModel;
use flashfit_catalog::{CatalogEntryError, entries};
use flashfit_device::Bytes;
use flashfit_geometry::flashbench::{
    AccessOrder, Comparison, OpenBlockTable, units_before_the_cliff,
};
use flashfit_user_error::ExitClass;
use serde::Serialize;

use crate::command_error::CommandError;
use crate::output;
use measure::CardFigures;
use published::ComparedFigure;

/// The size of a write at which the open erase blocks are read off.
const CLIFF_WRITE: Bytes = Bytes(64 << 10);

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit card bench sd-c4-block\n  \
                        flashfit card bench my-card.toml --against flashbench.txt\n  \
                        flashfit card bench --all --markdown > cards.md")]
pub struct CardBenchArgs {
    /// Name of a card, or path of a card file.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub name: Option<String>,
    /// Measure every simulated card.
    #[arg(long)]
    pub all: bool,
    /// Most erase blocks to write in turn; the table starts at 1.
    #[arg(long = "blocks", alias = "units", value_name = "N", default_value_t = 7,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub units: u32,
    /// Smallest write.
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

/// A card's figures and those of its counterpart.
#[derive(Debug, Serialize)]
struct Measured {
    card: String,
    title: String,
    source: String,
    erase_unit: Bytes,
    figures: CardFigures,
    open_units_seen: OpenUnits,
    /// What others say of cards like it, with its own figures.
    published: Vec<ComparedFigure>,
    counterpart: Option<Counterpart>,
}

/// How many erase blocks can be written in turn before the rate falls below half, as people read
/// flashbench's tables; nothing where it does not fall.
#[derive(Debug, Serialize)]
struct OpenUnits {
    write: Bytes,
    most_measured: u32,
    linear: Option<u32>,
    random: Option<u32>,
}

impl OpenUnits {
    fn of(table: &OpenBlockTable) -> Self {
        let units = |access| units_before_the_cliff(table, access, CLIFF_WRITE);
        Self {
            write: CLIFF_WRITE,
            most_measured: table.cells.iter().map(|cell| cell.units).max().unwrap_or(0),
            linear: units(AccessOrder::Linear),
            random: units(AccessOrder::Random),
        }
    }
}

/// A real card's table and how well the model agrees.
#[derive(Debug, Serialize)]
struct Counterpart {
    name: String,
    table: OpenBlockTable,
    open_units_seen: OpenUnits,
    comparison: Option<Comparison>,
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
        output::json("card-bench", all)
    } else if args.markdown {
        output::print_utf8(&markdown::document(&all))
    } else {
        output::print(&render::terminal(&all, output::width()))
    }
}

fn measured(
    model: &CardModel,
    args: &CardBenchArgs,
    catalog: Option<&Path>,
) -> Result<Measured, CommandError> {
    let real = match (&args.against, &model.counterpart) {
        (Some(path), _) => Some(given(path)?),
        (None, Some(name)) => Some(table_named(name, catalog)?),
        (None, None) => None,
    };
    let figures = measure::figures(model, args.units, args.least, args.seed)?;
    let published = published::beside(&model.name, &figures, catalog)?;
    let counterpart = real.map(|(name, table)| Counterpart {
        comparison: Comparison::of(&figures.open_units, &table),
        open_units_seen: OpenUnits::of(&table),
        name,
        table,
    });
    Ok(Measured {
        card: model.name.clone(),
        title: model.title.clone(),
        source: model.source.clone(),
        erase_unit: Bytes(model.erase_unit_bytes()),
        open_units_seen: OpenUnits::of(&figures.open_units),
        figures,
        published,
        counterpart,
    })
}

fn given(path: &Path) -> Result<(String, OpenBlockTable), CommandError> {
    let entry = flashfit_catalog::read(path)?;
    Ok((path.display().to_string(), table(&path.display().to_string(), &entry.text)?))
}

fn table_named(
    name: &str,
    catalog: Option<&Path>,
) -> Result<(String, OpenBlockTable), CommandError> {
    let known = entries("published", "txt", catalog)?;
    let Some(entry) = known.iter().find(|entry| entry.name == name) else {
        let names = known.iter().map(|entry| entry.name.as_str());
        return Err(CatalogEntryError::unknown("published table", name, names).into());
    };
    Ok((name.to_owned(), table(&entry.origin.to_string(), &entry.text)?))
}

fn table(place: &str, text: &str) -> Result<OpenBlockTable, CommandError> {
    let hint = "use the output of `flashbench --open-au` with a title for each run";
    OpenBlockTable::parse(text).map_err(|error| {
        CommandError::new(ExitClass::Usage, format!("{place}: {error}"), Some(hint))
    })
}
