//! Arguments of `flashfit tune` about goals, constraints and the budget.

use clap::Args;
use flashfit_device::Bytes;
use flashfit_filesystem::Durability;
use flashfit_tune::quantity::BadQuantity;
use flashfit_tune::{Percent, TimeSpan, Weight, Years};

use crate::cli::{durability, fs_option, size};

/// The heading of arguments about what is tried.
const TRIED: &str = "What is tried";

/// Goals and constraints.
#[derive(Debug, Args)]
#[command(next_help_heading = "Goals and constraints")]
pub struct GoalArgs {
    /// Weight of a workload in the score; may be repeated [default: 1 each].
    #[arg(long = "weight", value_delimiter = ',', value_name = "WORKLOAD=N", value_parser = weight)]
    pub weights: Vec<(String, Weight)>,
    /// Same as --allow.
    #[arg(long, hide = true, value_name = "DURABILITY", value_parser = durability)]
    pub require: Option<Durability>,
    /// Reject setups whose 99th percentile of write latency, syncs included, exceeds this.
    #[arg(long, value_name = "TIME")]
    pub p99_write_max: Option<TimeSpan>,
    /// Reject setups that do not last this many years under the usage model.
    #[arg(long, value_name = "N")]
    pub min_years: Option<Years>,
    /// Options that every setup of a file system must have.
    #[arg(
        help_heading = TRIED,
        long = "with",
        value_delimiter = ',',
        value_name = "FS:OPTION",
        value_parser = fs_option
    )]
    pub with: Vec<(String, String)>,
    /// Options that no setup of a file system may have.
    #[arg(
        help_heading = TRIED,
        long = "without",
        value_delimiter = ',',
        value_name = "FS:OPTION",
        value_parser = fs_option
    )]
    pub without: Vec<(String, String)>,
    /// Fill the file system to this share before each workload [default: empty].
    #[arg(help_heading = TRIED, long, value_name = "PERCENT")]
    pub fill: Option<Percent>,
    /// Rounds of aging before each workload. A round replaces half of all files and overwrites an
    /// eighth of the data [default: 0].
    #[arg(help_heading = TRIED, long, value_name = "ROUNDS")]
    pub age: Option<u32>,
    /// Measure on the file system as mkfs left it. Without this, each trial first uses the file
    /// system a little, drawn at random: writes, syncs, a remount, idle time.
    #[arg(help_heading = TRIED, long)]
    pub fresh: bool,
}

/// Budget of a run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Budget")]
pub struct BudgetArgs {
    /// Total time of all trials, or `unlimited` [default: 30min, unless --max-write or --trials is
    /// given; unlimited for greedy and exhaustive].
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
