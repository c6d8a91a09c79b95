//! `flashfit survey html DIR`: the survey as web pages.

use std::path::PathBuf;

use clap::Args;
use flashfit_host::path_text;
use flashfit_survey::SurveyDatabase;
use flashfit_survey::query::ListedCard;
use flashfit_survey_site::SiteOptions;

use super::place::SurveyFileArgs;
use super::{list, row_args};
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::survey::{SiteDocument, site_text};

#[derive(Debug, Args)]
#[command(after_help = format!(
    "Columns: {}\n\nExamples:\n  flashfit survey html site\n  \
     flashfit survey html site --where simulated=false --where kind=sd-card",
    ListedCard::COLUMNS.join(", ")
))]
pub struct SurveyHtmlArgs {
    /// New directory for the pages; its index.html is the first one.
    pub dir: PathBuf,
    #[command(flatten)]
    pub file: SurveyFileArgs,
    /// Cards to publish, by a condition such as kind=sd-card, with = != < <= > >= or ~ (a part of
    /// the text). May be repeated; all must hold.
    #[arg(long = "where", value_name = "COLUMN=VALUE")]
    pub conditions: Vec<String>,
    /// Publish names that you gave to cards, and whole kernel versions.
    #[arg(long)]
    pub with_names: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &SurveyHtmlArgs) -> Result<(), CommandError> {
    let filters = row_args::filters(&args.conditions, &ListedCard::COLUMNS)?;
    let path = args.file.path()?;
    let survey = SurveyDatabase::open_for_reading(&path)?;
    let (mut cards, mut results) = list::read_open(&survey)?;
    results.hide_commands(&survey.bundle_keys()?);
    // After the siblings were compared: what is published of a card does not depend on it.
    cards.retain(|card| card.matches(&filters));
    let options = SiteOptions { with_names: args.with_names };
    let site =
        flashfit_survey_site::publish(&cards, &results, options, &args.dir).map_err(|error| {
            let hint = "name a directory where you may write, as in: flashfit survey html ~/site";
            CommandError::from(error).or_hint(hint)
        })?;
    let document = SiteDocument::new(path_text::to_text(&args.dir), site);
    if args.json { output::json(&document) } else { output::print(&site_text(&document)) }
}
