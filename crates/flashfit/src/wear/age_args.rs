//! Arguments of `flashfit wear age`.

use std::path::PathBuf;

use clap::Args;
use flashfit_device::Bytes;

use crate::cli::size;
use crate::wear::life_args::positive;

const AGE_HELP: &str = "\
All figures are simulated. The recorded requests of the file system are replayed \
on the whole card. Erase blocks fail with the spread of `nand.wear_out` of the \
card file, or 10 %, and spare blocks replace them; without spare blocks, the card \
accepts no more writes. A saved card can be served and then used like a device.

Examples:
  flashfit wear age usd-a1-pagemap --fs ext4 --usage kiosk --years 5
  flashfit wear age sd-c10-log --fs f2fs --usage camera --years 3 \\
      --save old.card
  flashfit card serve sd-c10-log --state old.card";

#[derive(Debug, Args)]
#[command(after_help = AGE_HELP)]
pub struct WearAgeArgs {
    /// Card model: a name (`flashfit card list`), sim:NAME or a file.
    pub card: String,
    /// File system, with options after colons: ext4:noatime:discard.
    #[arg(long = "fs", value_name = "NAME[:OPTION...]")]
    pub filesystem: String,
    /// Usage model: camera, data-logger, kiosk, phone, raspberry-pi, router, or a file like those
    /// in catalog/usage.
    #[arg(long, value_name = "NAME|FILE")]
    pub usage: String,
    /// Age to reach.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub years: f64,
    /// Capacity of the card, if not that of the usage model.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub capacity: Option<Bytes>,
    /// Rated erase cycles, if not those of the model; the rating of a pSLC area changes with them.
    #[arg(long, value_name = "CYCLES", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub endurance: Option<u64>,
    /// Save the aged card, for `card serve`.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Draw wear, speed and write amplification over the years.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Replace the files, whatever they are.
    #[arg(long)]
    pub force: bool,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}
