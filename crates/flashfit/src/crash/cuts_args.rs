//! Arguments of `flashfit crash cuts`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use flashfit_card::EnabledFault;
use flashfit_tune::TimeSpan;

use super::args::TestedArgs;

const EXAMPLES: &str = "\
Examples:
  flashfit crash cuts --fs ext4,f2fs --cuts 1000
  flashfit crash cuts sim:emmc-5.1 --with ext4:nobarrier --for 1h
  flashfit crash cuts --card-fault rollback=200 --cuts 100
  flashfit crash cuts --resume crash-run

Needs QEMU and busybox, and no root. Nothing is written to a device: the card
is simulated, with its volatile cache.

Exit codes: 0 all promises were kept; 1 a promise was broken; 2 wrong usage;
4 the virtual machine cannot start; 6 interrupted.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CutsArgs {
    /// Simulated card whose power is cut [default: usd-a2-cq, which has a volatile cache].
    pub card: Option<String>,
    #[command(flatten)]
    pub what: TestedArgs,
    /// Where the power is cut.
    #[arg(long, value_name = "TEST-BED", value_enum, default_value = "vm")]
    pub on: CutsOn,
    /// Power cuts for each setup [default: 100 without --for].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub cuts: Option<u64>,
    /// Time to spend, such as 1h.
    #[arg(long = "for", value_name = "TIME")]
    pub time: Option<TimeSpan>,
    /// Stop after this many power cuts that broke a promise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_broken: Option<u64>,
    /// Let the card do this at every power cut, where it can: a name of `card cut --help`, such as
    /// torn-sector or rollback=200. Repeat for several.
    #[arg(long, value_name = "CLASS")]
    pub card_fault: Vec<EnabledFault>,
    /// Kernel for the virtual machine [default: this system's, or the one of the distribution].
    #[arg(long, value_name = "FILE")]
    pub vm_kernel: Option<PathBuf>,
    /// Directory for records and images [default: crash-run, or the next that does not exist].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Continue the campaign in this directory.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["dir", "card", "card_fault", "cuts", "TestedArgs"]
    )]
    pub resume: Option<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Where the power is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CutsOn {
    /// A virtual machine with a simulated card.
    Vm,
}
