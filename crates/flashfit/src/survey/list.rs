//! `flashfit survey list`: the cards of the survey.

use std::path::Path;

use flashfit_host::path_text;
use flashfit_survey::SurveyDatabase;
use flashfit_survey::database::ResultTable;
use flashfit_survey::query::{ListedCard, siblings, wear};

use super::args::SurveyListArgs;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::survey::{self, CardsDocument};

pub fn run(args: &SurveyListArgs) -> Result<(), CommandError> {
    let filters = args.rows.filters(&ListedCard::COLUMNS)?;
    let path = args.file.path()?;
    let (mut cards, _) = read(&path)?;
    cards.retain(|card| card.matches(&filters));
    let document = CardsDocument::new(path_text::to_text(&path), &cards);
    if args.rows.json {
        output::json(&document)
    } else if args.rows.csv {
        output::print_utf8(&survey::csv(&document.results))
    } else {
        output::print(&survey::cards_text(&document, output::width()))
    }
}

/// All cards, those that differ from their siblings flagged, and all results.
pub fn read(path: &Path) -> Result<(Vec<ListedCard>, ResultTable), CommandError> {
    read_open(&SurveyDatabase::open_for_reading(path)?)
}

/// The same of a survey that is open.
pub fn read_open(survey: &SurveyDatabase) -> Result<(Vec<ListedCard>, ResultTable), CommandError> {
    let mut cards: Vec<ListedCard> = survey.cards()?.into_iter().map(ListedCard::new).collect();
    let results = survey.results()?;
    siblings::flag(&mut cards, &results);
    wear::add_life_used(&mut cards, &results);
    Ok((cards, results))
}
