//! The command line: subcommands and their arguments.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use flashfit_device::Bytes;
use flashfit_filesystem::{Durability, LayoutStart};
use flashfit_user_error::ExitClass;

use crate::apply::args::{ApplyArgs, RestoreArgs};
use crate::command_error::CommandError;
use crate::commands::agent::AgentArgs;
use crate::commands::card_args::{CardArgs, CardServerArgs};
use crate::commands::check::CheckArgs;
use crate::commands::doctor::{DoctorArgs, LegacyStandArgs};
use crate::commands::plan::args::PlanArgs;
use crate::crash::args::CrashArgs;
use crate::probe::args::ProbeArgs;
use crate::tune::args::TuneArgs;
use crate::wear::args::WearArgs;

const AFTER_HELP: &str = "\
Exit codes:
  0 done                            1 it ran, and the verdict is bad
  2 wrong usage or input            3 refused: something could be lost
  4 the machine lacks something     5 the device failed or vanished
  6 interrupted, can be resumed     70 a bug in flashfit

Examples:
  flashfit list
  flashfit check /dev/mmcblk0
  flashfit tune sim:sd-c4-block --profile quick
  flashfit tune /dev/mmcblk0 --dir my-card --confirm mmcblk0";

/// Find the file system, options and I/O scheduler that suit a flash device, by measuring them.
#[derive(Debug, Parser)]
#[command(name = "flashfit", version, max_term_width = 80, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Directory with your own cards/, filesystems/, knobs/ and workloads/. A file there replaces
    /// the built-in file of the same name.
    #[arg(long, global = true, value_name = "DIR", env = "FLASHFIT_CATALOG")]
    pub catalog: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start here: what a device is, how it is built, what can be improved. Reads only.
    Check(CheckArgs),
    /// Show where trials can run and what is missing. Reads only.
    Doctor(DoctorArgs),
    /// List the storage devices of this machine. Reads only.
    List(ListArgs),
    /// Show what a device reports about itself. Reads only.
    Inspect(InspectArgs),
    /// Measure setups on a device and recommend one. ERASES the device.
    Tune(Box<TuneArgs>),
    /// Write the report of a run as one HTML file.
    Report(ReportArgs),
    /// Partition and format a device as planned or recommended. ERASES the device.
    Apply(Box<ApplyArgs>),
    /// Undo `apply`: write back the partition table and the ends of the device.
    Restore(RestoreArgs),
    /// Compute layouts and commands for a device, with the reason for every number. Reads only.
    Plan(Box<PlanArgs>),
    /// Measure how a device is built: erase block, write unit and more. Reads only unless --write.
    Probe(Box<ProbeArgs>),
    /// Rank the setups of a run with the scores of the CELF methodology.
    Analyze(AnalyzeArgs),
    /// Show which options this kernel and the installed tools accept, reject or ignore.
    Options(OptionsArgs),
    /// List the file systems, options, workloads and cards that flashfit knows.
    Catalog(CatalogArgs),
    /// Simulated cards: list, show, serve, read counters, cut the power.
    Card(CardArgs),
    /// What a device reports about its wear.
    Wear(WearArgs),
    /// Power cuts: check which setups survive them.
    Crash(CrashArgs),
    /// The former name of `doctor`.
    #[command(hide = true)]
    Stand(LegacyStandArgs),
    /// Serve a simulated card to the parent process.
    #[command(hide = true)]
    CardServer(CardServerArgs),
    /// Run trials for a flashfit on another machine.
    #[command(hide = true)]
    Agent(AgentArgs),
}

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
    pub target: String,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flashfit analyze my-card\n  flashfit analyze my-card --by latency --top 3"
)]
pub struct AnalyzeArgs {
    /// Run directory.
    pub dir: PathBuf,
    /// Score to rank by.
    #[arg(long, value_enum, default_value_t = CriterionArg::Throughput)]
    pub by: CriterionArg,
    /// Setups to show for each file system.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub top: usize,
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
    /// Replace the file even if flashfit did not write it.
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct CatalogArgs {
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
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

/// What a setup is scored by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CriterionArg {
    /// Mean throughput (geometric mean).
    Throughput,
    /// Worst completion latency.
    Latency,
    /// Bytes programmed into the flash, or else written to the device, per byte that the workload
    /// writes.
    Wear,
}

impl From<CriterionArg> for flashfit_tune::Criterion {
    fn from(by: CriterionArg) -> Self {
        match by {
            CriterionArg::Throughput => Self::Throughput,
            CriterionArg::Latency => Self::Latency,
            CriterionArg::Wear => Self::Wear,
        }
    }
}

/// Refuses a catalog directory that does not exist or has a misspelled subdirectory, whose entries
/// would be silently missing.
pub fn is_folder(catalog: Option<&Path>) -> Result<(), CommandError> {
    let Some(catalog) = catalog else { return Ok(()) };
    let Ok(entries) = std::fs::read_dir(catalog) else {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!("there is no catalog directory {}", catalog.display()),
            Some("name the directory that contains cards/, filesystems/, knobs/ or workloads/"),
        ));
    };
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let nearest = flashfit_catalog::nearest(&name, flashfit_catalog::FOLDERS);
        // A name close to that of a catalog directory is a typo; it would be ignored.
        if let Some(nearest) = nearest.filter(|nearest| *nearest != name) {
            return Err(CommandError::new(
                ExitClass::Usage,
                format!("{} is not a directory of a catalog", entry.path().display()),
                Some(&format!("did you mean `{nearest}`?")),
            ));
        }
    }
    Ok(())
}

/// Parses a path for clap that is passed on as text, in commands or in documents.
pub fn text_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("an empty path".to_owned()) } else { Ok(PathBuf::from(text)) }
}

/// Parses a size for clap.
pub fn size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: flashfit_device::units::BadSize| error.to_string())
}

/// Parses a durability for clap.
pub fn durability(text: &str) -> Result<Durability, String> {
    let scale = [
        Durability::Safe,
        Durability::LosesRecent,
        Durability::BreaksPromise,
        Durability::MayCorrupt,
    ];
    let named = scale.into_iter().find(|step| step.name() == text);
    named.ok_or_else(|| format!("one of {}", scale.map(Durability::name).join(", ")))
}

/// Where the file system starts.
pub fn layout_start(text: &str) -> Result<LayoutStart, CommandError> {
    text.parse().map_err(|error| {
        CommandError::new(
            ExitClass::Usage,
            format!("{error}"),
            Some("--start takes auto, whole or a position such as 4MiB or 63s"),
        )
    })
}
