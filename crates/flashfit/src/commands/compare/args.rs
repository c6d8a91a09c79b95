//! Arguments of `flashfit compare`.

use std::path::PathBuf;

use clap::Args;
use flashfit_tune::Percent;
use flashfit_tune::compare::SessionSpread;

use crate::cli::CriterionArg;

#[derive(Debug, Args)]
#[command(
    after_help = "Setups are typed as other commands print them, \"ext4 noatime+nojournal none\", or \
                  without the scheduler: ext4 (no options), ext4:noatime+nojournal.\n\n\
                  Examples:\n  flashfit compare before after\n  \
                  flashfit compare card-a card-b card-c --fs ext4,f2fs -o cards.html\n  \
                  flashfit compare kernel-6.1 kernel-6.12 --fail-if-slower 5%"
)]
pub struct CompareArgs {
    /// Run directories; each is compared with the first.
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Score to compare by [default: what all runs were ranked by, or else throughput].
    #[arg(long, value_enum)]
    pub by: Option<CriterionArg>,
    /// Setup to compare; may be repeated [default: all that both runs measured].
    #[arg(long = "setup", value_name = "SETUP")]
    pub setups: Vec<String>,
    /// Workloads, separated by commas [default: all].
    #[arg(long = "workload", value_delimiter = ',', value_name = "NAMES")]
    pub workloads: Vec<String>,
    /// File systems, separated by commas [default: all].
    #[arg(long = "fs", value_delimiter = ',', value_name = "NAMES")]
    pub filesystems: Vec<String>,
    /// Exit with 1 if a run is surely slower than the first by more than this, beyond what two
    /// sessions without any change differ by, and with 2 if one cannot be tested.
    #[arg(long, value_name = "PERCENT", value_parser = threshold)]
    pub fail_if_slower: Option<Percent>,
    /// By how much two sessions without any change differ on your devices (standard deviation),
    /// for --fail-if-slower; see docs/tuning.md for how to measure it.
    #[arg(long, value_name = "PERCENT", value_parser = threshold,
        default_value_t = Percent(SessionSpread::DEFAULT_PERCENT * 100))]
    pub session_spread: Percent,
    /// HTML file to write, with plots.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file even if flashfit did not write it.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// A share of less than the whole.
fn threshold(text: &str) -> Result<Percent, String> {
    let percent: Percent = text.parse().map_err(|error| format!("{error}"))?;
    if percent.share() < 1.0 { Ok(percent) } else { Err("it must be less than 100%".to_owned()) }
}
