//! Arguments of `flashfit survey`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use flashfit_survey::query::{ListedCard, ResultFilters};

use super::bundle::SurveyBundleArgs;
use super::html::SurveyHtmlArgs;
use super::place::SurveyFileArgs;
use super::row_args::SurveyRowArgs;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit survey add run-mmcblk0 geometry.json\n  \
                  flashfit survey list --where product=SL32G\n  \
                  flashfit survey compare --where workload=database\n\n\
                  The survey is the file that --db names, or else survey.db in\n\
                  $XDG_DATA_HOME/flashfit or ~/.local/share/flashfit.")]
pub struct SurveyArgs {
    #[command(subcommand)]
    pub command: SurveyCommand,
}

#[derive(Debug, Subcommand)]
pub enum SurveyCommand {
    /// Add runs, probes, wear counters and power cuts. What is there already is not added again.
    Add(SurveyAddArgs),
    /// Add all that another survey has.
    Merge(SurveyMergeArgs),
    /// List the cards of the survey. Reads only.
    List(SurveyListArgs),
    /// Write an anonymized file that can be sent to others. Reads only.
    Bundle(SurveyBundleArgs),
    /// Write the survey as Parquet files, for DuckDB, Spark and others. Reads only.
    Export(SurveyExportArgs),
    /// Write the survey as web pages that compare products, for publishing. Reads only.
    Html(SurveyHtmlArgs),
    /// Show what is known of one card. Reads only.
    Show(SurveyShowArgs),
    /// Compare products: how far their cards vary, and how much they differ. Reads only.
    Compare(SurveyCompareArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit survey add runs/ geometry.json\n  \
                  flashfit survey add --card 'red 7' run-sda probe-sda.json")]
pub struct SurveyAddArgs {
    /// Run directory, JSON document of `probe`, `wear show`, `wear measure` or `crash cuts`,
    /// bundle, or directory with such.
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

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  flashfit survey export --parquet survey-parquet\n  \
                  duckdb -c \"SELECT product, avg(value) FROM\n    \
                  read_parquet('survey-parquet/results/*/*.parquet', hive_partitioning = true)\n    \
                  WHERE metric = 'rate' AND NOT simulated GROUP BY product\"")]
pub struct SurveyExportArgs {
    /// New directory for the files: cards/ and results/, with a directory for each product
    /// (docs/survey.md has the columns).
    #[arg(long, value_name = "DIR")]
    pub parquet: PathBuf,
    #[command(flatten)]
    pub file: SurveyFileArgs,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit survey merge lab-2.db\n  \
                  flashfit survey merge lab-1.db --db both.db")]
pub struct SurveyMergeArgs {
    /// File of the other survey; it is only read.
    #[arg(value_name = "OTHER.db")]
    pub other: PathBuf,
    #[command(flatten)]
    pub file: SurveyFileArgs,
    /// Keep serial numbers that the other survey has.
    #[arg(long)]
    pub with_serial: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
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

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit survey show 9a1e4dcf\n  \
                  flashfit survey show 'red 7' --where metric=rate --csv")]
pub struct SurveyShowArgs {
    /// Beginning of the card's key, at least four letters, or its name.
    pub card: String,
    #[command(flatten)]
    pub file: SurveyFileArgs,
    #[command(flatten)]
    pub rows: SurveyRowArgs,
}

#[derive(Debug, Args)]
#[command(after_help = format!(
    "Columns: {}\n\nWithout a condition on the metric, rates are compared.\n\nExamples:\n  \
     flashfit survey compare --where filesystem=ext4 --where workload=database\n  \
     flashfit survey compare --where metric=latency-p99 --csv",
    ResultFilters::columns().join(", ")
))]
pub struct SurveyCompareArgs {
    #[command(flatten)]
    pub file: SurveyFileArgs,
    #[command(flatten)]
    pub rows: SurveyRowArgs,
}
