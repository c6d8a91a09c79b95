//! `flashfit crash`: what setups keep at power cuts.

pub mod args;
mod folder;
mod states;
mod states_document;
mod states_text;

use std::path::Path;

use crate::command_error::CommandError;
use args::{CrashArgs, CrashCommand};

pub fn run(args: &CrashArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    match &args.command {
        CrashCommand::States(args) => states::run(args, catalog),
    }
}
