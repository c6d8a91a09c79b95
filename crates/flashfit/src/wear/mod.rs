//! `flashfit wear`: what a device reports about its wear, and what writing costs it.

pub mod age;
pub mod age_args;
pub mod args;
pub mod device;
mod device_model;
pub mod estimate;
pub mod life_args;
mod measure;
pub mod record;
mod record_command;
pub mod recorded_life;
mod registers;
pub mod run_life;
mod saved_card;
mod setup_life;
pub mod setup_name;
pub mod setup_traces;
mod show;
pub mod target;
mod trace_bed;
pub mod usage_args;

use std::path::Path;

use crate::command_error::CommandError;
use args::{WearArgs, WearCommand};

pub fn run(args: &WearArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    match &args.command {
        WearCommand::Show(args) => show::run(args, catalog),
        WearCommand::Measure(args) => measure::run(args, catalog),
        WearCommand::Estimate(args) => estimate::run(args, catalog),
        WearCommand::Age(args) => age::run(args, catalog),
        WearCommand::Record(args) => record::run(args, catalog),
    }
}
