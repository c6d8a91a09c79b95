//! The flashfit command: the only crate that prints, asks or exits.
//!
//! One file a subcommand under `commands/`: it checks what was typed, makes one call into the crate
//! whose job it is, and renders what came back.

mod cli;
mod commands;
mod consent;
mod failure;
mod output;
mod rendering;
mod tune;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.show();
            ExitCode::from(failure.class().code())
        }
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    let catalog = cli.catalog.as_deref();
    match &cli.command {
        Command::List(args) => commands::list::run(args),
        Command::Inspect(args) => commands::inspect::run(args, catalog),
        Command::Tune(args) => tune::run(args, catalog),
        Command::Analyze(args) => commands::analyze::run(args),
        Command::Report(args) => commands::report::run(args),
        Command::Catalog(args) => commands::catalog::run(args, catalog),
        Command::Card(args) => commands::card::run(args, catalog),
        Command::CardServer(args) => commands::card_server::run(args, catalog),
    }
}
