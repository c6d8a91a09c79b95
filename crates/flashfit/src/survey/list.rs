//! `flashfit survey list`: the cards of the survey.

use flashfit_host::path_text;
use flashfit_survey::SurveyDatabase;
use flashfit_survey::query::ListedCard;

use super::args::SurveyListArgs;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::survey::{self, CardsDocument};

pub fn run(args: &SurveyListArgs) -> Result<(), CommandError> {
    let filters = args.rows.filters(&ListedCard::COLUMNS)?;
    let path = args.file.path()?;
    let survey = SurveyDatabase::open_for_reading(&path)?;
    let cards = survey.cards()?.into_iter().map(ListedCard::new);
    let cards: Vec<ListedCard> = cards.filter(|card| card.matches(&filters)).collect();
    let document = CardsDocument::new(path_text::to_text(&path), &cards);
    if args.rows.json {
        output::json(&document)
    } else if args.rows.csv {
        output::print_utf8(&survey::csv(&document.results))
    } else {
        output::print(&survey::cards_text(&document, output::width()))
    }
}
