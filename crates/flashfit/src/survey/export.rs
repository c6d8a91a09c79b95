//! `flashfit survey export --parquet DIR`: the survey as files for other programs.

use flashfit_host::path_text;
use flashfit_survey::SurveyDatabase;
use flashfit_survey::query::ListedCard;

use super::args::SurveyExportArgs;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::survey::{ExportedDocument, exported_text};

const HINT: &str = "name a directory where you may write, as in: --parquet ~/survey-parquet";

pub fn run(args: &SurveyExportArgs) -> Result<(), CommandError> {
    let survey = SurveyDatabase::open_for_reading(&args.file.path()?)?;
    let cards: Vec<ListedCard> = survey.cards()?.into_iter().map(ListedCard::new).collect();
    let results = survey.results()?;
    let written = flashfit_survey_export::export(&cards, &results, &args.parquet)
        .map_err(|error| CommandError::from(error).or_hint(HINT))?;
    let document = ExportedDocument {
        dir: path_text::to_text(&args.parquet),
        products: written.products,
        cards: written.cards,
        results: written.results,
        bytes: written.bytes,
    };
    if args.json { output::json(&document) } else { output::print(&exported_text(&document)) }
}
