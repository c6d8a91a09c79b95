//! Arguments of `flashfit tune`. Every key of a configuration file is a flag too.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use flashfit_device::Bytes;
use flashfit_filesystem::Durability;
use flashfit_tune::quantity::BadQuantity;
use flashfit_tune::{Percent, TimeSpan, Weight};

use crate::cli::{CriterionArg, durability, size, text_path};
use crate::test_beds::args::TestBedArgs;

const EXAMPLES: &str = "\
Examples:
  flashfit tune sim:sd-c4-block --profile quick
  flashfit tune /dev/mmcblk0 --dry-run
  flashfit tune /dev/mmcblk0 --fs ext4,btrfs --workload sync-files
  flashfit tune /dev/mmcblk0 --budget 2h --max-write 40GiB --p99-write-max 50ms
  flashfit tune sim:usd-a1-pagemap --fs f2fs,ext4 --on vm
  flashfit tune /dev/mmcblk0 --on lab:board=imx8 --confirm b1:mmcblk0,b2:mmcblk0
  flashfit tune --resume run-mmcblk0
  flashfit tune --replay run-mmcblk0 --weight database=3 --seed 2

Times are written as 30s, 10min or 2h; sizes as 512KiB, 4MiB or 40GB.

A configuration file can have these keys, explained in docs/tuning.md: on,
vm_kernel, vm_speed_mips, vm_disk, device, mount_dir, result_dir, catalog_dir,
media_page_size, media_erase_block_size, filesystems, workloads, schedulers,
strategy, profile, by, repeats, confirm_rounds, seed, start, allow, require,
p99_write_max, budget, max_write, trials, within, fill, age, fresh, data_size,
memory, runtime_ms, [weights] with a number for each workload, and [options.NAME] for
each file system with always, exclude and include.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TuneArgs {
    /// Device node, image file or sim:NAME (a simulated card). All data on it will be lost.
    #[arg(conflicts_with_all = ["resume", "replay"])]
    pub target: Option<String>,
    /// Continue the run in this directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = RESUME_EXCLUDES, value_parser = text_path)]
    pub resume: Option<PathBuf>,
    /// Search these recorded runs instead of a device. Measures nothing and writes nothing.
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = REPLAY_EXCLUDES)]
    pub replay: Option<Vec<PathBuf>>,
    /// Configuration file. Flags take precedence over it.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Run directory [default: run-NAME].
    #[arg(long, value_name = "DIR", value_parser = text_path)]
    pub dir: Option<PathBuf>,
    /// Show what would be done and change nothing.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Agree to lose all data on the device with this name or serial number. For boards of a lab:
    /// BOARD:NAME, separated by commas.
    #[arg(long, value_name = "NAME")]
    pub confirm: Vec<String>,
    /// Print the recommendation as one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    /// Print a line of JSON after each batch of trials, and the recommendation as the last line.
    #[arg(long, conflicts_with = "json")]
    pub json_stream: bool,
    /// When to show progress.
    #[arg(long, value_enum, default_value_t = ProgressArg::Auto)]
    pub progress: ProgressArg,
    #[command(flatten)]
    pub stand: TestBedArgs,
    #[command(flatten)]
    pub what: SearchSpaceArgs,
    #[command(flatten)]
    pub asked: GoalArgs,
    #[command(flatten)]
    pub spend: BudgetArgs,
}

/// Choices that are fixed when a run begins.
const RESUME_EXCLUDES: [&str; 5] = ["config", "dir", "SearchSpaceArgs", "GoalArgs", "BudgetArgs"];

/// A replay measures nothing, so arguments about measuring make no sense with it.
const REPLAY_EXCLUDES: [&str; 10] = [
    "resume",
    "dir",
    "dry_run",
    "confirm",
    "fill",
    "age",
    "fresh",
    "start",
    "profile",
    "TestBedArgs",
];

/// Goals and constraints.
#[derive(Debug, Args)]
#[command(next_help_heading = "Goals and constraints")]
pub struct GoalArgs {
    /// Weight of a workload in the score; may be repeated [default: 1 each].
    #[arg(long = "weight", value_delimiter = ',', value_name = "WORKLOAD=N", value_parser = weight)]
    pub weights: Vec<(String, Weight)>,
    /// Same as --allow.
    #[arg(long, value_name = "DURABILITY", value_parser = durability)]
    pub require: Option<Durability>,
    /// Reject setups whose 99th percentile of write latency, syncs included, exceeds this.
    #[arg(long, value_name = "TIME")]
    pub p99_write_max: Option<TimeSpan>,
    /// Options that every setup of a file system must have.
    #[arg(long = "with", value_delimiter = ',', value_name = "FS:OPTION", value_parser = fs_option)]
    pub with: Vec<(String, String)>,
    /// Options that no setup of a file system may have.
    #[arg(
        long = "without",
        value_delimiter = ',',
        value_name = "FS:OPTION",
        value_parser = fs_option
    )]
    pub without: Vec<(String, String)>,
    /// Fill the file system to this share before each workload [default: empty].
    #[arg(long, value_name = "PERCENT")]
    pub fill: Option<Percent>,
    /// Rounds of aging before each workload. A round replaces half of all files and overwrites an
    /// eighth of the data [default: 0].
    #[arg(long, value_name = "ROUNDS")]
    pub age: Option<u32>,
    /// Measure on the file system as mkfs left it. Without this each trial writes, syncs, remounts
    /// and idles a little before, at random, as results differ by these.
    #[arg(long)]
    pub fresh: bool,
}

/// Budget of a run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Budget")]
pub struct BudgetArgs {
    /// Total time of all trials [default: unlimited].
    #[arg(long, value_name = "TIME")]
    pub budget: Option<TimeSpan>,
    /// Total bytes written to the device [default: unlimited].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_write: Option<Bytes>,
    /// Number of trials. A short trial counts as a fraction [default: unlimited].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub trials: Option<u32>,
    /// Stop when the winner is within this share of the best with 90 % probability [default: 2%].
    #[arg(long, value_name = "PERCENT")]
    pub within: Option<Percent>,
}

/// Search space and measuring.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is tried")]
pub struct SearchSpaceArgs {
    /// File systems, separated by commas. The first one, without options, is the baseline
    /// [default: all that `flashfit catalog` does not limit to --fs, ext4 first].
    #[arg(long = "fs", value_delimiter = ',', value_name = "NAMES")]
    pub filesystems: Option<Vec<String>>,
    /// Workloads, separated by commas [default: sync-files and random-write with the quick profile,
    /// else all].
    #[arg(long = "workload", value_delimiter = ',', value_name = "NAMES")]
    pub workloads: Option<Vec<String>>,
    /// I/O schedulers, separated by commas [default: all that the kernel offers].
    #[arg(long = "scheduler", value_delimiter = ',', value_name = "NAMES")]
    pub schedulers: Option<Vec<String>>,
    /// Search strategy [default: adaptive].
    #[arg(long, value_enum)]
    pub strategy: Option<StrategyArg>,
    /// Length of each trial [default: quick].
    #[arg(long, value_enum)]
    pub profile: Option<ProfileArg>,
    /// Score to optimize [default: throughput].
    #[arg(long, value_enum)]
    pub by: Option<CriterionArg>,
    /// Trials of each setup under each workload. Ignored by the adaptive strategy
    /// [default: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,
    /// Rounds of fresh trials that compare the winner with the baseline at the end. Ignored by the
    /// adaptive strategy [default: 5].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub confirm_rounds: Option<u32>,
    /// Seed of all random choices [default: 1].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Start of the file system: auto (at the first erase block boundary), whole (no partition
    /// table) or a position such as 4MiB or 63s (sectors) [default: auto].
    #[arg(long, value_name = "WHERE")]
    pub start: Option<String>,
    /// What a power cut may do under a recommended setup: lose nothing that was synced (safe),
    /// lose or garble recent unsynced data (loses-recent), lose synced data (breaks-promise), or
    /// damage the file system (may-corrupt) [default: safe].
    #[arg(long, value_name = "DURABILITY", value_parser = durability)]
    pub allow: Option<Durability>,
    /// Erase block size, if you know it better than the device reports it.
    #[arg(
        long = "erase-block",
        alias = "erase-unit",
        value_name = "SIZE",
        value_parser = size
    )]
    pub erase_unit: Option<Bytes>,
    /// Write unit size: the pages that are programmed together.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub write_unit: Option<Bytes>,
    /// Geometry file written by `flashfit probe --output`. Where it and the device disagree, values
    /// that suit both are used.
    #[arg(long, value_name = "FILE")]
    pub geometry: Option<PathBuf>,
    /// Amount of data that a workload uses [default: 16MiB; 128MiB with the standard profile].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub data_size: Option<Bytes>,
    /// Memory limit for a workload, page cache included [default: 64MiB; 256MiB with the standard
    /// profile].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<Bytes>,
    /// Longest time for a stage of a workload, in milliseconds [default: 2000; 10000 with the
    /// standard profile].
    #[arg(long, value_name = "MILLISECONDS")]
    pub runtime_ms: Option<u64>,
}

/// The argument of `--strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StrategyArg {
    /// Bayesian optimization; stops when it is confident.
    Adaptive,
    /// One option at a time; keeps whatever scored higher (the CELF methodology).
    Greedy,
    /// Every setup.
    Exhaustive,
    /// Randomly drawn setups.
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

/// The argument of `--profile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProfileArg {
    /// A few points, one or two seconds each.
    Quick,
    /// The full range of the workload, up to ten seconds each.
    Standard,
}

/// The argument of `--progress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProgressArg {
    /// A bar on a terminal, otherwise a line every 30 seconds.
    Auto,
    /// A line every 30 seconds.
    Always,
    /// Never.
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

impl From<ProfileArg> for flashfit_bench::PointProfile {
    fn from(profile: ProfileArg) -> Self {
        match profile {
            ProfileArg::Quick => Self::Quick,
            ProfileArg::Standard => Self::Standard,
        }
    }
}
