//! What can be typed.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use flashfit_filesystem::Durability;
use flashfit_host::ExitClass;
use flashfit_medium::Bytes;

use crate::apply::args::{ApplyArgs, RestoreArgs};
use crate::commands::agent::AgentArgs;
use crate::commands::card_args::{CardArgs, CardServerArgs};
use crate::commands::check::CheckArgs;
use crate::commands::plan::PlanArgs;
use crate::commands::stand::StandArgs;
use crate::failure::Failure;
use crate::probe::args::ProbeArgs;
use crate::tune::args::TuneArgs;

const AFTER_HELP: &str = "\
Exit codes:
  0 done            1 it ran, and the verdict is bad      2 wrong usage or input
  3 refused, because something could be lost              4 the machine lacks something
  5 the medium failed or vanished                         6 interrupted, can be resumed
  70 a mistake in flashfit

Examples:
  flashfit list
  flashfit tune sim:sd-c4-block --profile quick
  flashfit tune /dev/mmcblk0 --dir my-card --confirm mmcblk0";

/// Fits file systems to flash: finds the file system, options and I/O scheduler that serve a medium
/// best, by measuring them on it.
#[derive(Debug, Parser)]
#[command(name = "flashfit", version, max_term_width = 80, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// A folder with your own cards/, filesystems/, knobs/ and workloads/, over the built-in ones.
    #[arg(long, global = true, value_name = "DIR", env = "FLASHFIT_CATALOG")]
    pub catalog: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the media of this machine.
    List(ListArgs),
    /// Show what one medium says of itself. Reads only.
    Inspect(InspectArgs),
    /// Find out how a medium is built inside, and how sure that is. Reads only, unless --write.
    Probe(Box<ProbeArgs>),
    /// Show layouts and commands that fit a medium, with the reason for every number. Reads only.
    Plan(Box<PlanArgs>),
    /// Show what is wrong with a medium as it is, and what would mend it. Reads only.
    Check(CheckArgs),
    /// Make a plan true on a medium, with a backup of its ends. Erases the medium.
    Apply(Box<ApplyArgs>),
    /// Write back what apply saved. What was written to the medium since is lost.
    Restore(RestoreArgs),
    /// Measure setups on a medium and recommend one. Erases the medium.
    Tune(Box<TuneArgs>),
    /// Rank the setups of a run by the methodology's merits.
    Analyze(AnalyzeArgs),
    /// Write the report of a run as one HTML file.
    Report(ReportArgs),
    /// Show the file systems, options, workloads and cards that flashfit knows.
    Catalog(CatalogArgs),
    /// Find out which options this kernel and the installed programs take, refuse or ignore.
    Options(OptionsArgs),
    /// Simulated cards: list, show, serve, read the counters of, cut the power of.
    Card(CardArgs),
    /// Tell on which stands trials can be made, and what is missing.
    Stand(StandArgs),
    /// Serves a simulated card to the parent process.
    #[command(hide = true)]
    CardServer(CardServerArgs),
    /// Makes trials for a flashfit elsewhere.
    #[command(hide = true)]
    Agent(AgentArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flashfit inspect /dev/mmcblk0\n  flashfit inspect sim:sd-c4-block --json"
)]
pub struct InspectArgs {
    /// A device node, an image file or sim:NAME.
    pub target: String,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flashfit analyze my-card\n  flashfit analyze my-card --by latency --top 3"
)]
pub struct AnalyzeArgs {
    /// The run directory.
    pub dir: PathBuf,
    /// What to rank by.
    #[arg(long, value_enum, default_value_t = ByArg::Throughput)]
    pub by: ByArg,
    /// How many setups of each file system to show.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub top: usize,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flashfit report my-card\n  flashfit report my-card -o /tmp/report.html"
)]
pub struct ReportArgs {
    /// The run directory.
    pub dir: PathBuf,
    /// Where to write it; report.html in the run directory unless given.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct CatalogArgs {
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flashfit options --fs ext4,btrfs\n  flashfit options --refresh --json"
)]
pub struct OptionsArgs {
    /// File systems, separated by commas; all of the catalogue unless given.
    #[arg(long = "fs", value_delimiter = ',', value_name = "NAMES")]
    pub filesystems: Option<Vec<String>>,
    /// Find out anew what was found before.
    #[arg(long)]
    pub refresh: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// A merit by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ByArg {
    /// Mean logarithm of throughput.
    Throughput,
    /// The worst completion latency.
    Latency,
    /// Bytes that the medium programs, or that are written to it, by bytes that the workload
    /// writes.
    Wear,
}

impl From<ByArg> for flashfit_tune::By {
    fn from(by: ByArg) -> Self {
        match by {
            ByArg::Throughput => Self::Throughput,
            ByArg::Latency => Self::Latency,
            ByArg::Wear => Self::Wear,
        }
    }
}

/// Refuses a catalogue folder that is not there, or has a folder with a slip in its name: their
/// entries would be missing in silence.
pub fn is_folder(catalog: Option<&Path>) -> Result<(), Failure> {
    let Some(catalog) = catalog else { return Ok(()) };
    let Ok(entries) = std::fs::read_dir(catalog) else {
        return Err(Failure::new(
            ExitClass::Usage,
            format!("there is no catalogue folder {}", catalog.display()),
            Some("name the folder that holds cards/, filesystems/, knobs/ or workloads/"),
        ));
    };
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let nearest = flashfit_catalogue::nearest(&name, flashfit_catalogue::FOLDERS);
        // What is near to a folder's name, but is none, is a slip, and would be passed over.
        if let Some(nearest) = nearest.filter(|nearest| *nearest != name) {
            return Err(Failure::new(
                ExitClass::Usage,
                format!("{} is no folder of a catalogue", entry.path().display()),
                Some(&format!("did you mean `{nearest}`?")),
            ));
        }
    }
    Ok(())
}

/// Parses a size for clap.
pub fn size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: flashfit_medium::units::BadSize| error.to_string())
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
