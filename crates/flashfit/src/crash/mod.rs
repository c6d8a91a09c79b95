//! `flashfit crash`: what setups keep at power cuts.

pub mod args;
mod board;
mod board_start;
mod campaign_report;
mod conditions;
mod cuts;
pub mod cuts_args;
mod cuts_report;
mod cuts_resumed;
mod folder;
mod recorded;
mod recorded_args;
pub mod replay;
mod requests;
mod same_command;
pub mod shrink;
mod states;
pub mod states_document;
mod timeline_text;
mod tools;
mod verdict;

use std::path::Path;

use crate::command_error::CommandError;
use args::{CrashArgs, CrashCommand};

pub fn run(args: &CrashArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    match &args.command {
        CrashCommand::States(args) => states::run(args, catalog),
        CrashCommand::Cuts(args) => cuts::run(args, catalog),
        CrashCommand::Guest => cuts::serve(),
        CrashCommand::Board => board::serve(),
        CrashCommand::Replay(args) => replay::run(args, catalog),
        CrashCommand::Shrink(args) => shrink::run(args, catalog),
    }
}
