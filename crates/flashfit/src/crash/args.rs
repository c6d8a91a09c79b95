//! Arguments of `flashfit crash`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use flashfit_card::EnabledFault;
use flashfit_tune::TimeSpan;

use super::cuts_args::CutsArgs;
use super::recorded_args::{ReplayArgs, ShrinkArgs};

const EXAMPLES: &str = "\
Examples:
  flashfit crash states --fs ext4,btrfs
  flashfit crash states --fs ext4 --with ext4:nobarrier --states 2000
  flashfit crash states sim:usd-a1-pagemap --fs ext4 --workload metadata \\
      --for 10min
  flashfit crash states --on vm --fs f2fs --states 5000
  flashfit crash states --log requests.log --log-start mkfs --fs ext4

Nothing is written to a device: file systems are made on a device in memory. \
Needs root, because the kernel mounts every state. Another kernel, with --on vm, \
needs QEMU and busybox.

Exit codes: 0 all promises were kept; 1 a promise was broken; 2 wrong usage, \
work or a check that fails by itself, or no state was checked; 3 the directory \
is in use, or has a campaign of other arguments, another kernel or another \
catalog; 4 without root, or the kernel lacks the file system (try --on vm); 5 a \
device fails; 6 interrupted. The same command with the same --dir continues.";

#[derive(Debug, Args)]
pub struct CrashArgs {
    #[command(subcommand)]
    pub command: CrashCommand,
}

#[derive(Debug, Subcommand)]
pub enum CrashCommand {
    /// Record a workload and check what power cuts could have left of it, on this kernel.
    States(StatesArgs),
    /// Cut the power of a virtual machine or a board at random moments, again and again.
    Cuts(Box<CutsArgs>),
    /// Look at one state again, and show what happened around its power cut.
    Replay(ReplayArgs),
    /// Find the shortest work (files, metadata) with the same violation and the fewest lost writes.
    Shrink(ShrinkArgs),
    /// Work and look at what is left, in a virtual machine.
    #[command(hide = true)]
    Guest,
    /// The same on a board.
    #[command(hide = true)]
    Board,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatesArgs {
    /// Simulated card whose write unit decides how writes tear [default: write units of 4 KiB].
    /// With --card-fault, this card is the one that loses power [default: usd-a2-cq].
    pub card: Option<String>,
    #[command(flatten)]
    pub what: TestedArgs,
    /// Whose kernel works and mounts the states: here, or vm, which can have file systems that
    /// this kernel lacks. The programs of the file system are those of this system.
    #[arg(long, value_name = "TEST-BED", value_enum, default_value_t = StatesPlace::Here)]
    pub on: StatesPlace,
    /// Kernel for the virtual machine [default: this system's, or the one of the distribution].
    #[arg(long, value_name = "FILE")]
    pub vm_kernel: Option<PathBuf>,
    /// States to check for each setup [default: 1000 without --for].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub states: Option<u64>,
    /// Time for the whole campaign, such as 10min; if it continues, earlier commands count, and
    /// pauses do not.
    #[arg(long = "for", value_name = "TIME")]
    pub time: Option<TimeSpan>,
    #[command(flatten)]
    pub log: RequestsArgs,
    /// Let the device ignore one flush before each power cut, or all: a fault of the device.
    #[arg(long, value_name = "WHICH", value_enum)]
    pub ignore_flush: Option<IgnoreFlushArg>,
    /// Simulate a faulty card: at each power cut, it shows this fault if its state allows it. A
    /// name of `card cut --help`, such as torn-sector or rollback=200. Repeat for several.
    #[arg(long, value_name = "CLASS", conflicts_with = "ignore_flush")]
    pub card_fault: Vec<EnabledFault>,
    /// Directory for records and logs [default: crash-run, or the next that does not exist].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Keep all logs, not only those with a violation.
    #[arg(long)]
    pub keep_logs: bool,
    /// Mount every state, even one that is equivalent to one before.
    #[arg(long)]
    pub no_equivalence: bool,
    /// States to check at once [default: the number of processors].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: Option<u16>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Requests that were recorded elsewhere.
#[derive(Debug, Args)]
pub struct RequestsArgs {
    /// Check states of requests that were recorded elsewhere, in the format of dm-log-writes (also
    /// QEMU's blklogwrites): a file, or the device that the kernel recorded to. Nothing is recorded
    /// here, and --workload FILE gives only its check, which gets the marks of the log.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// The mark in that log that the work begins after [default: `mkfs`, or that of an export].
    #[arg(long, value_name = "MARK", requires = "log")]
    pub log_start: Option<String>,
    /// A copy of the device from before the first request of that log [default: zeros].
    #[arg(long, value_name = "IMAGE", requires = "log")]
    pub log_base: Option<PathBuf>,
}

/// What is tested, and by which work.
#[derive(Debug, Args)]
pub struct TestedArgs {
    /// File systems with default options, separated by commas.
    #[arg(long = "fs", value_delimiter = ',', value_name = "NAMES", default_value = "ext4")]
    pub filesystems: Vec<String>,
    /// Another setup, such as ext4:nobarrier or ext4:writeback+noatime. Repeat for several.
    #[arg(long, value_name = "FS:OPTIONS")]
    pub with: Vec<String>,
    /// What is done before the power cut: files, metadata, sqlite, sqlite:JOURNAL-SYNC such as
    /// sqlite:delete-extra, or a file with your own commands (docs/power-loss.md)
    /// [default: files].
    #[arg(long, value_name = "NAME|FILE")]
    pub workload: Option<String>,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Whose kernel mounts states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatesPlace {
    Here,
    Vm,
}

/// Flushes that the device ignores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IgnoreFlushArg {
    One,
    All,
}
