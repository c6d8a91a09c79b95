//! The command line: subcommands, their arguments, and the values of flags.

mod args;
mod help_command;
mod names;
mod table;
mod values;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::apply::args::{ApplyArgs, RestoreArgs};
use crate::commands::agent::AgentArgs;
use crate::commands::card_args::{CardArgs, CardServerArgs};
use crate::commands::check::CheckArgs;
use crate::commands::compare::args::CompareArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::doctor::{DoctorArgs, LegacyStandArgs};
use crate::commands::man::ManArgs;
use crate::commands::plan::args::PlanArgs;
use crate::commands::schema::SchemaArgs;
use crate::crash::args::CrashArgs;
use crate::probe::args::ProbeArgs;
use crate::survey::SurveyArgs;
use crate::tune::args::TuneArgs;
use crate::wear::args::WearArgs;
use crate::{command_error::CommandError, environment};

pub use args::{
    AnalyzeArgs, CatalogArgs, CatalogCommand, InspectArgs, ListArgs, OptionsArgs, ReportArgs,
};
pub use help_command::with_help_flag;
pub use names::{confirmed_name, target_name};
pub use table::TableArg;
pub use values::{
    CriterionArg, check_end, check_placement, durability, fs_option, is_folder, is_unpartitioned,
    layout_start, new_name, partition_end, size, text_path,
};

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
    /// Directory with your own catalog files, in directories such as workloads/ and cards/. A file
    /// there replaces the built-in file of the same name [env: FLASHFIT_CATALOG].
    #[arg(long, global = true, value_name = "DIR")]
    catalog: Option<PathBuf>,
}

impl Cli {
    /// The user's catalog, as the flag or the environment names it.
    pub fn catalog(&self) -> Result<Option<PathBuf>, CommandError> {
        if self.catalog.is_some() {
            is_folder(self.catalog.as_deref())?;
            return Ok(self.catalog.clone());
        }
        let named = environment::value(environment::CATALOG).map(PathBuf::from);
        is_folder(named.as_deref()).map_err(|error| error.at(environment::CATALOG))?;
        Ok(named)
    }
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
    /// Compare runs with each other: cards, kernels, before and after.
    Compare(CompareArgs),
    /// Show which options this kernel and the installed tools accept, reject or ignore.
    Options(OptionsArgs),
    /// List the file systems, options, workloads and cards of the catalog.
    Catalog(CatalogArgs),
    /// Simulated cards: list, show, serve, read counters, cut the power.
    Card(CardArgs),
    /// Wear: what a device reports, what writing costs it, how many years it lasts.
    Wear(WearArgs),
    /// Power cuts: check which setups survive them.
    Crash(CrashArgs),
    /// Collect the results of many cards in one file, and find out what is known of yours.
    #[cfg(feature = "survey")]
    Survey(SurveyArgs),
    /// Collect the results of many cards: NOT IN THIS BUILD. The Debian package for amd64 has it.
    #[cfg(not(feature = "survey"))]
    Survey(SurveyArgs),
    /// Print a script that completes command lines in a shell.
    Completions(CompletionsArgs),
    /// Print the man page, or write those of all commands.
    Man(ManArgs),
    /// Print the JSON Schemas of what `--json` prints.
    Schema(SchemaArgs),
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    /// Also that arguments that exclude each other exist: clap only looks when they are parsed.
    #[test]
    fn every_command_line_is_well_defined() {
        super::Cli::command().debug_assert();
    }
}
