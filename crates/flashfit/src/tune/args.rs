//! What can be typed behind `flashfit tune`. Every choice of a configuration file is a flag too.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use flashfit_filesystem::Durability;
use flashfit_medium::Bytes;
use flashfit_tune::quantity::BadQuantity;
use flashfit_tune::{Percent, Span, Weight};

use crate::cli::{ByArg, durability, size};
use crate::stands::args::StandArgs;

const EXAMPLES: &str = "\
Examples:
  flashfit tune sim:sd-c4-block --profile quick
  flashfit tune /dev/mmcblk0 --dry-run
  flashfit tune /dev/mmcblk0 --fs ext4,btrfs --workload sync-files --confirm mmcblk0
  flashfit tune /dev/mmcblk0 --budget 2h --max-write 40GiB --p99-write-max 50ms
  flashfit tune sim:usd-a1-pagemap --fs f2fs,ext4 --on vm
  flashfit tune /dev/mmcblk0 --on lab:board=imx8,media=sd --confirm b1:mmcblk0,b2:mmcblk0
  flashfit tune --resume run-mmcblk0
  flashfit tune --replay run-mmcblk0 --weight database=3 --seed 2

The configuration file has these keys: on, vm_kernel, vm_speed_mips, vm_disk, device,
mount_dir, result_dir, catalog_dir, media_page_size, media_erase_block_size, filesystems,
workloads, schedulers, strategy, profile, by, repeats, confirm_rounds, seed, start, allow,
require, p99_write_max, budget, max_write, trials, within, fill, age, data_size, memory,
runtime_ms, [weights] with a number for a workload, and for each file system [options.NAME]
with always, exclude and include.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TuneArgs {
    /// A device node, an image file or sim:NAME. All data on it will be lost.
    #[arg(conflicts_with_all = ["resume", "replay"])]
    pub target: Option<String>,
    /// Go on with the run in this directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = RESUME_EXCLUDES)]
    pub resume: Option<PathBuf>,
    /// Search these recorded runs instead of a medium: nothing is measured, nothing is written.
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = REPLAY_EXCLUDES)]
    pub replay: Option<Vec<PathBuf>>,
    /// Read a configuration file; flags go before it.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The run directory; run-NAME unless given.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Show what would be done, and change nothing.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Agree that all data on the medium of this name (or serial number) is lost. On boards of a
    /// lab: BOARD:NAME, separated by commas.
    #[arg(long, value_name = "NAME")]
    pub confirm: Vec<String>,
    /// Print the recommendation as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Print what is believed after each batch as a line of JSON, the recommendation as the last.
    #[arg(long, conflicts_with = "json")]
    pub json_stream: bool,
    /// When to show progress.
    #[arg(long, value_enum, default_value_t = ProgressArg::Auto)]
    pub progress: ProgressArg,
    #[command(flatten)]
    pub stand: StandArgs,
    #[command(flatten)]
    pub what: What,
    #[command(flatten)]
    pub asked: Asked,
    #[command(flatten)]
    pub spend: Spend,
}

/// What was chosen when the run was begun.
const RESUME_EXCLUDES: [&str; 6] = ["config", "dir", "StandArgs", "What", "Asked", "Spend"];

/// A replay measures nothing, so nothing can be said of how to.
const REPLAY_EXCLUDES: [&str; 9] =
    ["resume", "dir", "dry_run", "confirm", "fill", "age", "start", "profile", "StandArgs"];

/// What a good setup is.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is asked for")]
pub struct Asked {
    /// How much a workload counts; 1 unless given.
    #[arg(long = "weight", value_delimiter = ',', value_name = "WORKLOAD=N", value_parser = weight)]
    pub weights: Vec<(String, Weight)>,
    /// What a recommended setup must be at least at a power cut; the same as --allow.
    #[arg(long, value_name = "DURABILITY", value_parser = durability)]
    pub require: Option<Durability>,
    /// The longest that 99 of 100 writes, syncs included, may take.
    #[arg(long, value_name = "TIME")]
    pub p99_write_max: Option<Span>,
    /// Options that every setup of a file system has.
    #[arg(long = "with", value_delimiter = ',', value_name = "FS:OPTION", value_parser = fs_option)]
    pub with: Vec<(String, String)>,
    /// Options that no setup of a file system has.
    #[arg(
        long = "without",
        value_delimiter = ',',
        value_name = "FS:OPTION",
        value_parser = fs_option
    )]
    pub without: Vec<(String, String)>,
    /// How full the file system is when a workload begins.
    #[arg(long, value_name = "PERCENT")]
    pub fill: Option<Percent>,
    /// Rounds of ageing before a workload begins: half of all files removed and written anew, an
    /// eighth overwritten.
    #[arg(long, value_name = "ROUNDS")]
    pub age: Option<u32>,
}

/// What a run may spend.
#[derive(Debug, Args)]
#[command(next_help_heading = "When it ends")]
pub struct Spend {
    /// How long the trials may take together.
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// How much may be written to the medium.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_write: Option<Bytes>,
    /// How many trials may be made; short ones count by their time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub trials: Option<u32>,
    /// How far below the best the answer may be, with nine chances of ten; 2% unless given.
    #[arg(long, value_name = "PERCENT")]
    pub within: Option<Percent>,
}

/// What is tried.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is tried")]
pub struct What {
    /// File systems, separated by commas.
    #[arg(long = "fs", value_delimiter = ',', value_name = "NAMES")]
    pub filesystems: Option<Vec<String>>,
    /// Workloads, separated by commas.
    #[arg(long = "workload", value_delimiter = ',', value_name = "NAMES")]
    pub workloads: Option<Vec<String>>,
    /// I/O schedulers, separated by commas; all that the kernel offers unless given.
    #[arg(long = "scheduler", value_delimiter = ',', value_name = "NAMES")]
    pub schedulers: Option<Vec<String>>,
    /// How the next setup is chosen.
    #[arg(long, value_enum)]
    pub strategy: Option<StrategyArg>,
    /// How long each trial measures.
    #[arg(long, value_enum)]
    pub profile: Option<ProfileArg>,
    /// What to rank by.
    #[arg(long, value_enum)]
    pub by: Option<ByArg>,
    /// Trials of each setup under each workload; adaptive sees to that itself.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,
    /// Rounds of fresh trials of the winner against the untuned file system at the end; 0 for
    /// none. Adaptive sees to that itself.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub confirm_rounds: Option<u32>,
    /// The seed of everything random.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Where the file system starts: auto (one erase unit), whole (no partition table) or a
    /// position such as 4MiB or 63s.
    #[arg(long, value_name = "WHERE")]
    pub start: Option<String>,
    /// The least safety at a power cut of a recommended setup: safe, loses-recent, breaks-promise
    /// or may-corrupt.
    #[arg(long, value_name = "DURABILITY", value_parser = durability)]
    pub allow: Option<Durability>,
    /// The erase unit, where you know it better than the medium says.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub erase_unit: Option<Bytes>,
    /// The page, or the pages written together.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub write_unit: Option<Bytes>,
    /// What flashfit probe --output wrote; where it and the medium disagree, what is safe for both
    /// is used.
    #[arg(long, value_name = "FILE")]
    pub geometry: Option<PathBuf>,
    /// How much data a workload uses.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub data_size: Option<Bytes>,
    /// How much memory a workload's programs and their page cache may use.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<Bytes>,
    /// When a stage of a workload ends although not all its data was moved.
    #[arg(long, value_name = "MILLISECONDS")]
    pub runtime_ms: Option<u64>,
}

/// A strategy by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StrategyArg {
    /// What may be best by all that is known so far, until that is sure enough.
    Adaptive,
    /// One option at a time; the best is adopted.
    Greedy,
    /// Every setup.
    Exhaustive,
    /// Setups drawn at random.
    Random,
}

/// Parses `WORKLOAD=N` for clap.
fn weight(text: &str) -> Result<(String, Weight), String> {
    let bad = || format!("`{text}` is not a workload and a weight: write database=3");
    let (name, weight) = text.split_once('=').ok_or_else(bad)?;
    if name.is_empty() {
        return Err(bad());
    }
    let weight = weight.parse().map_err(|error: BadQuantity| error.to_string())?;
    Ok((name.to_owned(), weight))
}

/// Parses `FS:OPTION` for clap.
fn fs_option(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((filesystem, option)) if !filesystem.is_empty() && !option.is_empty() => {
            Ok((filesystem.to_owned(), option.to_owned()))
        }
        _ => Err(format!("`{text}` is not a file system and an option: write ext4:noatime")),
    }
}

/// A profile by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProfileArg {
    /// A few points, a second or two each.
    Quick,
    /// The workload's full range.
    Standard,
}

/// When to show progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProgressArg {
    /// A bar on a terminal, a line every half minute elsewhere.
    Auto,
    /// A line every half minute.
    Always,
    /// Not at all.
    Never,
}

impl From<StrategyArg> for flashfit_tune::StrategyKind {
    fn from(strategy: StrategyArg) -> Self {
        match strategy {
            StrategyArg::Adaptive => Self::Adaptive,
            StrategyArg::Greedy => Self::Greedy,
            StrategyArg::Exhaustive => Self::Exhaustive,
            StrategyArg::Random => Self::Random,
        }
    }
}

impl From<ProfileArg> for flashfit_bench::Profile {
    fn from(profile: ProfileArg) -> Self {
        match profile {
            ProfileArg::Quick => Self::Quick,
            ProfileArg::Standard => Self::Standard,
        }
    }
}
