//! `flashfit wear`: what a device reports about its wear, and what writing costs it.

pub mod args;
mod device;
mod measure;
mod show;

use std::path::Path;

use crate::command_error::CommandError;
use args::{WearArgs, WearCommand};

pub fn run(args: &WearArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    match &args.command {
        WearCommand::Show(args) => show::run(args, catalog),
        WearCommand::Measure(args) => measure::run(args, catalog),
    }
}
