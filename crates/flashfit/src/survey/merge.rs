//! `flashfit survey merge OTHER.db`: adds all that another survey has.

use flashfit_host::path_text;
use flashfit_survey::SurveyDatabase;
use flashfit_survey::database::SurveyTable;

use super::args::SurveyMergeArgs;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::survey::{MergedDocument, merged_text};

pub fn run(args: &SurveyMergeArgs) -> Result<(), CommandError> {
    let path = args.file.path()?;
    let other = SurveyDatabase::open_for_reading(&args.other)?;
    let mut survey = SurveyDatabase::open(&path)?;
    let merged = survey.merge(&other, args.with_serial)?;
    let document = MergedDocument {
        database: path_text::to_text(&path),
        other: path_text::to_text(&args.other),
        added: merged.added,
        replaced: merged.replaced,
        present: merged.present,
        cards: survey.count(SurveyTable::Cards)?,
        sources: survey.count(SurveyTable::Sources)?,
    };
    survey.finish()?;
    if args.json {
        output::json(&document)
    } else {
        output::print(&merged_text(&document, output::width()))
    }
}
