//! Arguments of `flashfit tune` about a simulated twin of the device.

use std::path::PathBuf;

use clap::Args;
use flashfit_tune::TimeSpan;

/// The twin first: what a simulated card says before the first trial on the device.
#[derive(Debug, Args)]
#[command(next_help_heading = "The twin first")]
pub struct TwinArgs {
    /// Tune this simulated card first, which `probe --write --twin FILE` fitted to the device: in a
    /// virtual machine with counted instructions. Its results only guide the search; gains are from
    /// trials on the device.
    #[arg(long, value_name = "FILE", group = "twin_source", conflicts_with = "SurveyPriorArgs")]
    pub twin: Option<PathBuf>,
    /// Probe the device by writing first (at most 10 minutes), fit such a twin to it, and tune
    /// both. Half of --max-write is for the probe.
    #[arg(long, group = "twin_source", conflicts_with = "SurveyPriorArgs")]
    pub twin_first: bool,
    /// Trials on the twin; a short trial counts as a fraction [default: 200].
    #[arg(
        long,
        value_name = "N",
        requires = "twin_source",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub twin_trials: Option<u32>,
    /// Longest time for the trials on the twin [default: 30min, or --budget if that is less].
    #[arg(long, value_name = "TIME", requires = "twin_source")]
    pub twin_time: Option<TimeSpan>,
    /// Speed of the processor of the device's machine in millions of instructions per second, for
    /// the trials on the twin [default: 1000].
    #[arg(
        long,
        value_name = "MIPS",
        requires = "twin_source",
        value_parser = clap::value_parser!(u32).range(10..=100_000)
    )]
    pub twin_speed_mips: Option<u32>,
}
