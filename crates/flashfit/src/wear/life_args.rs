//! Arguments of `flashfit wear record` and `wear estimate`.

use std::path::PathBuf;

use clap::Args;
use flashfit_bench::ExerciseKind;
use flashfit_device::Bytes;
use flashfit_testbed::TestBedSpec;

use crate::cli::size;

const RECORD_HELP: &str = "\
Examples:
  flashfit wear record sim:usd-a1-pagemap --fs ext4 --workload database \\
      --output ext4-database.toml
  flashfit wear record sim:usd-a1-pagemap --fs f2fs --workload logs --on vm \\
      --output f2fs-logs.toml";

#[derive(Debug, Args)]
#[command(after_help = RECORD_HELP)]
pub struct WearRecordArgs {
    /// A simulated card, sim:NAME; its times are not used.
    pub target: String,
    /// File system, with options after colons: ext4:noatime:discard.
    #[arg(long = "fs", value_name = "NAME[:OPTION...]")]
    pub filesystem: String,
    /// What is recorded, not a workload of `tune`: database, logs, small-files or recording.
    #[arg(long, value_name = "NAME")]
    pub workload: ExerciseKind,
    /// New file for the trace.
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace the file, whatever it is.
    #[arg(long)]
    pub force: bool,
    /// Record until the programs have written this much.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "256MiB")]
    pub volume: Bytes,
    /// Approximate size of the files in use.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64MiB")]
    pub data_size: Bytes,
    /// Fill this share of the file system first.
    #[arg(long, value_name = "PERCENT", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(0..=90))]
    pub fill_percent: u32,
    /// Rounds of aging after filling; see tune --help.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub age: u32,
    /// Where to record: here or vm.
    #[arg(long, value_name = "TEST-BED", default_value = "here")]
    pub on: TestBedSpec,
    /// Seed of contents and of all choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

const ESTIMATE_HELP: &str = "\
All figures are simulated: recorded requests of each file system are replayed on \
a model of the device. The interval covers 90 % of what is unknown: endurance, \
volume, blocks that fail early, and the error of the simulation.

TARGET is sim:NAME, a card file (also one fitted by probe), the name of a card \
class (`flashfit card list`), or a device, which is only read.

Examples:
  flashfit wear estimate sim:usd-a1-pagemap --fs ext4,f2fs --usage raspberry-pi
  flashfit wear estimate /dev/mmcblk0 --fs ext4 --usage my-usage.toml --years 5
  flashfit wear estimate my-card.toml --fs ext4,btrfs --usage phone --compare";

#[derive(Debug, Args)]
#[command(after_help = ESTIMATE_HELP)]
pub struct WearEstimateArgs {
    /// What to estimate for, see below.
    pub target: String,
    /// File systems, with options after colons; separated by commas.
    #[arg(long = "fs", value_name = "NAME[:OPTION...]", value_delimiter = ',', required = true)]
    pub filesystems: Vec<String>,
    /// Usage model: camera, data-logger, kiosk, phone, raspberry-pi, router, or a file like those
    /// in catalog/usage.
    #[arg(long, value_name = "NAME|FILE")]
    pub usage: String,
    /// Capacity of the device [default: that of the usage model for a simulated card, else that of
    /// the device].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub capacity: Option<Bytes>,
    /// Rated erase cycles, if not those of the model; the rating of a pSLC area changes with them.
    #[arg(long, value_name = "CYCLES", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub endurance: Option<u64>,
    /// Model a device as this card; by default by its kind.
    #[arg(long, value_name = "CARD")]
    pub class: Option<String>,
    /// Life that is used already: the mean of all erase blocks, in percent of the rating [default:
    /// what the device reports, else 0].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=300))]
    pub used: Option<u32>,
    /// Show how likely the device is to last this many years.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub years: Option<f64>,
    /// Compare each setup with the first one.
    #[arg(long)]
    pub compare: bool,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= 1000.0 => Ok(number),
        _ => Err("expected a number of years, above 0 and at most 1000".to_owned()),
    }
}
