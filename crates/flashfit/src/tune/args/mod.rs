//! Arguments of `flashfit tune`. Every key of a configuration file is a flag too.

mod excludes;
mod goals;
mod space;
mod twin;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::{confirmed_name, target_name};
use crate::survey::SurveyPriorArgs;
use crate::test_beds::args::TestBedArgs;
use crate::wear::usage_args::UsageArgs;

use excludes::{REPLAY_EXCLUDES, RESUME_EXCLUDES};
pub use goals::{BudgetArgs, GoalArgs};
pub use space::SearchSpaceArgs;
pub use twin::TwinArgs;

const EXAMPLES: &str = "\
Examples:
  flashfit tune sim:sd-c4-block --profile quick
  flashfit tune /dev/mmcblk0 --dry-run
  flashfit tune /dev/mmcblk0 --fs ext4,btrfs --workload sync-files
  flashfit tune /dev/mmcblk0 --budget 2h --max-write 40GiB --p99-write-max 50ms
  flashfit tune sim:usd-a1-pagemap --fs f2fs,ext4 --on vm
  flashfit tune /dev/mmcblk0 --usage raspberry-pi --min-years 5
  flashfit tune /dev/mmcblk0 --label rootfs --second swap:512MiB
  flashfit tune /dev/mmcblk0 --on lab:board=imx8 --confirm b1:mmcblk0,b2:mmcblk0
  flashfit tune --resume run-mmcblk0
  flashfit tune --resume run-mmcblk0 --workload database --fs f2fs
  flashfit tune --replay run-mmcblk0 --weight database=3 --seed 2

Times are written as 30s, 10min or 2h; sizes as 512KiB, 4MiB or 40GB.

A configuration file can have these keys, explained in docs/tuning.md: on, \
vm_kernel, vm_speed_mips, vm_disk, device, mount_dir, result_dir, catalog_dir, \
media_page_size, media_erase_block_size, filesystems, workloads, schedulers, \
strategy, profile, by, repeats, confirm_rounds, seed, start, table, align_end, \
label, second, allow, require, p99_write_max, usage, min_years, endurance, \
capacity, class, budget, max_write, trials, within, fill, age, fresh, data_size, \
memory, runtime_ms; \
[weights] with a number for each workload, and [options.NAME] for each file system \
with always, exclude and include. The config file of the CELF methodology is read, \
too.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TuneArgs {
    /// Device node, image file or sim:NAME (a simulated card). All data on it will be lost.
    #[arg(conflicts_with_all = ["resume", "replay"], value_parser = target_name())]
    pub target: Option<String>,
    /// Continue the run in this directory. --workload, --fs, --with (options to try), --repeats,
    /// --trials, --budget, --max-write and --memory extend it; recorded trials are kept.
    #[arg(long, value_name = "DIR", conflicts_with_all = RESUME_EXCLUDES)]
    pub resume: Option<PathBuf>,
    /// Search these recorded runs instead of a device. Measures nothing and writes nothing.
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = REPLAY_EXCLUDES)]
    pub replay: Option<Vec<PathBuf>>,
    /// With --replay: what this recorded run says as a twin of the replayed device.
    #[arg(
        long,
        value_name = "DIR",
        requires = "replay",
        conflicts_with_all = ["resume", "SurveyPriorArgs"]
    )]
    pub twin_run: Option<PathBuf>,
    /// Configuration file. Flags take precedence over it.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Run directory [default: run-NAME].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Show what would be done and change nothing.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Agree to lose all data on the device with this name or serial number. For boards of a lab:
    /// BOARD:NAME, separated by commas.
    #[arg(long, value_name = "NAME", value_parser = confirmed_name())]
    pub confirm: Vec<String>,
    /// Check this many crash states of the recommended setup at the end, as `crash states` does on
    /// this machine. Needs root.
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "replay",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub crash_states: Option<u64>,
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
    pub survey: SurveyPriorArgs,
    #[command(flatten)]
    pub twin: TwinArgs,
    #[command(flatten)]
    pub stand: TestBedArgs,
    #[command(flatten)]
    pub what: SearchSpaceArgs,
    #[command(flatten)]
    pub asked: GoalArgs,
    #[command(flatten)]
    pub life: UsageArgs,
    #[command(flatten)]
    pub spend: BudgetArgs,
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
