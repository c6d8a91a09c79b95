//! Arguments of `flashfit tune` about the search space and measuring.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use flashfit_device::Bytes;
use flashfit_filesystem::Durability;
use flashfit_filesystem::plan::SecondPartition;

use crate::cli::{CriterionArg, TableArg, durability, size};

/// Search space and measuring.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is tried")]
pub struct SearchSpaceArgs {
    /// File systems, separated by commas. The first one, without options, is the baseline
    /// [default: all that `flashfit catalog` does not limit to --fs, ext4 first].
    #[arg(long = "fs", value_delimiter = ',', value_name = "NAMES")]
    pub filesystems: Option<Vec<String>>,
    /// Workloads, separated by commas, or all, which leaves out those with commands [default: with
    /// the quick profile sync-files and create-read-delete, the pair that predicts the ranking
    /// under all eleven best; else the eleven that `flashfit catalog` does not mark].
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
    /// Partition table [default: gpt].
    #[arg(long, value_enum)]
    pub table: Option<TableArg>,
    /// End the partition that is made on a multiple of the erase block instead of the end of the
    /// device. If F2FS is tried, it does anyway.
    #[arg(long)]
    pub align_end: bool,
    /// Label of the recommended file system; in a GPT also the name of its partition.
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// Second partition behind the first: swap:SIZE or FS:SIZE, such as swap:512MiB. Trials are
    /// made with it in place, and `flashfit apply` makes it.
    #[arg(long, value_name = "WHAT:SIZE")]
    pub second: Option<SecondPartition>,
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
    pub erase_block: Option<Bytes>,
    /// Write unit size: the pages that are programmed together.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub write_unit: Option<Bytes>,
    /// Geometry file written by `flashfit probe --output`. Where it and the device disagree, values
    /// that suit both are used.
    #[arg(long, value_name = "FILE")]
    pub geometry: Option<PathBuf>,
    /// Do not read the device for 2.5 s to find its erase block.
    #[arg(long)]
    pub no_probe: bool,
    /// Amount of data that a workload uses [default: 16MiB; 128MiB with the standard profile].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub data_size: Option<Bytes>,
    /// Memory limit for a workload, page cache included; at least 32MiB [default: 64MiB; 256MiB
    /// with the standard profile].
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

/// The argument of `--profile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProfileArg {
    /// A few points, one or two seconds each.
    Quick,
    /// The full range of the workload, up to ten seconds each.
    Standard,
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
