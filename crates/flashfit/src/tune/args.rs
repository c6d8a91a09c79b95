//! What can be typed behind `flashfit tune`. Every choice of a configuration file is a flag too.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use flashfit_filesystem::Durability;
use flashfit_medium::Bytes;

use crate::cli::{ByArg, durability, size};

const EXAMPLES: &str = "\
Examples:
  flashfit tune sim:sd-c4-block --profile quick
  flashfit tune /dev/mmcblk0 --dry-run
  flashfit tune /dev/mmcblk0 --fs ext4,btrfs --workload sync-files --confirm mmcblk0
  flashfit tune --resume run-mmcblk0

The configuration file has these keys: device, mount_dir, result_dir, catalog_dir,
media_page_size, media_erase_block_size, filesystems, workloads, schedulers, strategy, profile,
by, repeats, confirm_rounds, seed, start, allow, data_size, memory, runtime_ms, and for each
file system [options.NAME] with always, exclude and include.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TuneArgs {
    /// A device node, an image file or sim:NAME. All data on it will be lost.
    #[arg(conflicts_with = "resume")]
    pub target: Option<String>,
    /// Go on with the run in this directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "dir", "What"])]
    pub resume: Option<PathBuf>,
    /// Read a configuration file; flags go before it.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The run directory; run-NAME unless given.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Show what would be done, and change nothing.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Agree that all data on the medium of this name (or serial number) is lost.
    #[arg(long, value_name = "NAME")]
    pub confirm: Option<String>,
    /// Print the recommendation as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// When to show progress.
    #[arg(long, value_enum, default_value_t = ProgressArg::Auto)]
    pub progress: ProgressArg,
    #[command(flatten)]
    pub what: What,
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
    /// Trials of each setup under each workload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,
    /// Rounds of fresh trials of the winner against the untuned file system; 0 for none.
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
    /// One option at a time; the best is adopted.
    Greedy,
    /// Every setup.
    Exhaustive,
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
            StrategyArg::Greedy => Self::Greedy,
            StrategyArg::Exhaustive => Self::Exhaustive,
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
