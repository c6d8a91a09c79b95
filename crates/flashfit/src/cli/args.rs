//! The arguments of the subcommands that have only a few.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{CriterionArg, new_name, target_name};
use crate::survey::SurveyMentionArgs;
use crate::wear::usage_args::UsageArgs;

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flashfit inspect /dev/mmcblk0\n  flashfit inspect sim:sd-c4-block --json"
)]
pub struct InspectArgs {
    /// Device node, image file or sim:NAME (a simulated card).
    #[arg(value_parser = target_name())]
    pub target: String,
    #[command(flatten)]
    pub survey: SurveyMentionArgs,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flashfit analyze my-card\n  flashfit analyze my-card --by latency --top 3\n  \
                  flashfit analyze my-card --versus recommended 'ext4 base none'"
)]
pub struct AnalyzeArgs {
    /// Run directory.
    pub dir: PathBuf,
    /// Score to rank by [default: what the run was ranked by].
    #[arg(long, value_enum)]
    pub by: Option<CriterionArg>,
    /// Setups to show for each file system.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: u32,
    /// Compare two setups, named as in the tables or: baseline, winner, recommended.
    #[arg(long, num_args = 2, value_names = ["SETUP", "SETUP"], conflicts_with_all = ["by", "top"])]
    pub versus: Option<Vec<String>>,
    #[command(flatten)]
    pub life: UsageArgs,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flashfit report my-card\n  flashfit report my-card -o /tmp/report.html"
)]
pub struct ReportArgs {
    /// Run directory.
    pub dir: PathBuf,
    /// File to write [default: report.html in the run directory].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub life: UsageArgs,
    /// Replace the file even if flashfit did not write it.
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  flashfit catalog --json\n  \
                  flashfit catalog new-workload mine --output my/workloads/mine.fio\n  \
                  flashfit catalog --catalog my"
)]
pub struct CatalogArgs {
    #[command(subcommand)]
    pub command: Option<CatalogCommand>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// Print a workload file that is valid and explains each key, to start your own from.
    NewWorkload {
        /// Name of the workload: letters, digits, `-` and `_`.
        #[arg(value_parser = new_name)]
        name: String,
        /// Write it to this file, which must not exist.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flashfit options --fs ext4,btrfs\n  flashfit options --refresh --json"
)]
pub struct OptionsArgs {
    /// File systems, separated by commas [default: all of the catalog].
    #[arg(long = "fs", value_delimiter = ',', value_name = "NAMES")]
    pub filesystems: Option<Vec<String>>,
    /// Ignore cached results and test every option again.
    #[arg(long)]
    pub refresh: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}
