//! `flashfit survey html DIR`: the survey as web pages.

use flashfit_host::path_text;
use flashfit_survey::query::ListedCard;
use flashfit_survey_site::SiteOptions;

use super::args::SurveyHtmlArgs;
use super::{list, row_args};
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::survey::{SiteDocument, site_text};

pub fn run(args: &SurveyHtmlArgs) -> Result<(), CommandError> {
    let filters = row_args::filters(&args.conditions, &ListedCard::COLUMNS)?;
    let (mut cards, results) = list::read(&args.file.path()?)?;
    // After the siblings were compared: what is published of a card does not depend on it.
    cards.retain(|card| card.matches(&filters));
    let options = SiteOptions { with_names: args.with_names };
    let site = flashfit_survey_site::publish(&cards, &results, options, &args.dir)?;
    let document = SiteDocument::new(path_text::to_text(&args.dir), site);
    if args.json { output::json(&document) } else { output::print(&site_text(&document)) }
}
