//! Arguments of `flashfit wear`.

use clap::{Args, Subcommand};
use flashfit_device::{Bytes, SystemRoots};
use flashfit_host::Runner;
use flashfit_wear_counters::{AtaAttributes, WearSources};

use crate::cli::{size, target_name};
use crate::wear::age_args::WearAgeArgs;
use crate::wear::device::usual_sources;
use crate::wear::life_args::{WearEstimateArgs, WearRecordArgs};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit wear show /dev/mmcblk0\n  \
                  flashfit wear measure /dev/nvme0n1 -- cp -r /data /mnt/card")]
pub struct WearArgs {
    #[command(subcommand)]
    pub command: WearCommand,
}

#[derive(Debug, Subcommand)]
pub enum WearCommand {
    /// Show what a device reports about its wear. Reads only.
    Show(WearShowArgs),
    /// Measure what a command that writes to a device costs it, by the device's own counters.
    Measure(WearMeasureArgs),
    /// Estimate how many years setups last under a usage model. Simulated; reads only.
    Estimate(WearEstimateArgs),
    /// Age a simulated card by years, or until it accepts no more writes.
    Age(WearAgeArgs),
    /// Record what a workload makes a file system write, for `wear estimate`.
    Record(WearRecordArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit wear show /dev/mmcblk0\n  \
                  flashfit wear show /dev/sda --smartctl-type sntjmicron")]
pub struct WearShowArgs {
    /// Device node, or loop device of a served card.
    #[arg(value_parser = target_name())]
    pub device: String,
    #[command(flatten)]
    pub how: WearSourceArgs,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

const MEASURE_HELP: &str = "\
The command runs until the counter has counted enough steps, at least three times. \
Its output goes to standard error. flashfit itself writes nothing to the device.

Examples:
  flashfit wear measure /dev/nvme0n1 -- cp -r /data /mnt/card
  flashfit wear measure /dev/sda --max-write 500GB --error 20 -- ./my-workload
  flashfit wear measure /dev/mmcblk0 --counter kernel.written -- ./my-workload";

#[derive(Debug, Args)]
#[command(after_help = MEASURE_HELP)]
pub struct WearMeasureArgs {
    /// Device node, or loop device of a served card.
    #[arg(value_parser = target_name())]
    pub device: String,
    /// Command that writes to the device, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Run the command at most this often.
    #[arg(long, value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repeat: u32,
    /// Begin no other run that would write more than this in all. A run is not cut short.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64GiB")]
    pub max_write: Bytes,
    /// Largest error of the counter, in percent: 10 % takes ten steps of the counter.
    #[arg(long, value_name = "PERCENT", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub error: u32,
    /// Counter to resolve, a name of `wear show --json` [default: the counter of wear that needs
    /// the least volume].
    #[arg(long, value_name = "NAME")]
    pub counter: Option<String>,
    /// Wait this many seconds after each run, so that what the device does in idle time counts.
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub settle: u64,
    #[command(flatten)]
    pub how: WearSourceArgs,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// How a device is asked.
#[derive(Debug, Args)]
pub struct WearSourceArgs {
    /// Type for `smartctl -d`, if smartctl does not recognize a USB bridge: sat, sntasmedia,
    /// sntjmicron or sntrealtek. A wrong type can confuse the bridge.
    #[arg(long, value_name = "TYPE", value_parser = smartctl_type)]
    pub smartctl_type: Option<String>,
    /// Ask an NVMe drive for the OCP log page even if it does not list it. The drive may count
    /// that as an error.
    #[arg(long)]
    pub unlisted_logs: bool,
}

impl WearSourceArgs {
    pub fn sources<'a>(
        &'a self,
        system: &'a SystemRoots,
        runner: &'a dyn Runner,
        attributes: &'a AtaAttributes,
    ) -> WearSources<'a> {
        WearSources {
            smartctl_type: self.smartctl_type.as_deref(),
            unlisted_logs: self.unlisted_logs,
            ..usual_sources(system, runner, attributes)
        }
    }
}

/// Parses a type that smartctl(8) knows for bridges and drives.
fn smartctl_type(text: &str) -> Result<String, String> {
    let is_type = |c: char| c.is_ascii_alphanumeric() || ",/_.:+".contains(c);
    if !text.is_empty()
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_type)
    {
        Ok(text.to_owned())
    } else {
        Err("not a device type of smartctl, see smartctl -h".to_owned())
    }
}
