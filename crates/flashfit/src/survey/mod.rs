//! `flashfit survey`: the results of many cards in one file.

mod add;
mod args;
mod list;

use crate::command_error::CommandError;
use args::SurveyCommand;

pub use args::SurveyArgs;

pub fn run(args: &SurveyArgs) -> Result<(), CommandError> {
    match &args.command {
        SurveyCommand::Add(args) => add::run(args),
        SurveyCommand::List(args) => list::run(args),
    }
}
