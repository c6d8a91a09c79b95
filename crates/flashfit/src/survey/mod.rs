//! `flashfit survey`: the results of many cards in one file.

mod add;
mod args;
mod bundle;
mod compare;
mod export;
mod html;
mod list;
mod mention;
mod merge;
mod place;
mod prior;
mod row_args;
mod show;

use crate::command_error::CommandError;
use args::SurveyCommand;

pub use args::SurveyArgs;
pub use mention::{SurveyMentionArgs, mention};
pub use prior::{SurveyPriorArgs, of_replay, of_run};

pub fn run(args: &SurveyArgs) -> Result<(), CommandError> {
    match &args.command {
        SurveyCommand::Add(args) => add::run(args),
        SurveyCommand::Merge(args) => merge::run(args),
        SurveyCommand::Bundle(args) => bundle::run(args),
        SurveyCommand::Export(args) => export::run(args),
        SurveyCommand::Html(args) => html::run(args),
        SurveyCommand::List(args) => list::run(args),
        SurveyCommand::Show(args) => show::run(args),
        SurveyCommand::Compare(args) => compare::run(args),
    }
}
