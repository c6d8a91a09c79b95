//! Arguments of `flashfit survey`, and where the survey is.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use flashfit_survey::query::{ListedCard, RowFilter};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit survey add run-mmcblk0 geometry.json\n  \
                  flashfit survey list --where product=SL32G\n\n\
                  The survey is the file that --db names, or else survey.db in\n\
                  $XDG_DATA_HOME/flashfit or ~/.local/share/flashfit.")]
pub struct SurveyArgs {
    #[command(subcommand)]
    pub command: SurveyCommand,
}

#[derive(Debug, Subcommand)]
pub enum SurveyCommand {
    /// Add runs and probes. What is there already is not added again.
    Add(SurveyAddArgs),
    /// List the cards of the survey. Reads only.
    List(SurveyListArgs),
}

/// The file of the survey.
#[derive(Debug, Args)]
pub struct SurveyFileArgs {
    /// File of the survey [default: survey.db in your data directory].
    #[arg(long, value_name = "FILE", env = "FLASHFIT_SURVEY")]
    pub db: Option<PathBuf>,
}

impl SurveyFileArgs {
    pub fn path(&self) -> Result<PathBuf, CommandError> {
        self.db.clone().or_else(usual_file).ok_or_else(|| {
            let message = "there is no data directory for the survey: HOME is not set";
            CommandError::new(ExitClass::Usage, message, Some("name the file with --db FILE"))
        })
    }
}

/// The survey in the user's data directory, if the environment says where that is.
pub fn usual_file() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    // The specification: a relative path is not valid.
    let named = variable("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let usual = || Some(variable("HOME").filter(|path| path.is_absolute())?.join(".local/share"));
    Some(named.or_else(usual)?.join("flashfit/survey.db"))
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit survey add runs/ geometry.json\n  \
                  flashfit survey add --card 'red 7' run-sda probe-sda.json")]
pub struct SurveyAddArgs {
    /// Run directory, JSON document of `probe`, or directory with such.
    #[arg(required = true, value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub file: SurveyFileArgs,
    /// Name of the card, such as on its label: for cards without a serial number and cards in a USB
    /// reader. All that is added is of this card.
    #[arg(long, value_name = "NAME")]
    pub card: Option<String>,
    /// Keep serial numbers as they are, not only their salted hashes.
    #[arg(long)]
    pub with_serial: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// How rows are filtered and printed.
#[derive(Debug, Args)]
pub struct SurveyRowArgs {
    /// Condition such as product=SL32G or capacity_bytes>=32GiB, with = != < <= > >= or ~ (a part
    /// of the text). May be repeated; all must hold.
    #[arg(long = "where", value_name = "COLUMN=VALUE")]
    pub conditions: Vec<String>,
    /// Print CSV instead of text.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

impl SurveyRowArgs {
    pub fn filters(&self, columns: &[&str]) -> Result<Vec<RowFilter>, CommandError> {
        let parse = |text: &String| Ok(RowFilter::parse(text, columns)?);
        self.conditions.iter().map(parse).collect()
    }
}

#[derive(Debug, Args)]
#[command(after_help = format!(
    "Columns: {}\n\nExamples:\n  flashfit survey list --where manufacturer=0x03 --csv\n  \
     flashfit survey list --where simulated=false --where 'capacity_bytes>=32GB'",
    ListedCard::COLUMNS.join(", ")
))]
pub struct SurveyListArgs {
    #[command(flatten)]
    pub file: SurveyFileArgs,
    #[command(flatten)]
    pub rows: SurveyRowArgs,
}
