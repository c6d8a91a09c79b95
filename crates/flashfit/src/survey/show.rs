//! `flashfit survey show CARD`: what is known of one card.

use flashfit_host::path_text;
use flashfit_survey::query::{ResultFilters, find_card};

use super::args::SurveyShowArgs;
use super::list;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::survey::{self, CardDocument};

pub fn run(args: &SurveyShowArgs) -> Result<(), CommandError> {
    let filters = ResultFilters::parse(&args.rows.conditions)?;
    let path = args.file.path()?;
    let (cards, results) = list::read(&path)?;
    let card = find_card(cards, &args.card)?;
    let document = CardDocument::new(path_text::to_text(&path), &card, &results, &filters);
    if args.rows.json {
        output::json(&document)
    } else if args.rows.csv {
        output::print_utf8(&survey::csv(&document.results))
    } else {
        output::print(&survey::card_text(&document, output::width()))
    }
}
