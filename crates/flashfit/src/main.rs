//! The flashfit command: the only crate that prints, asks or exits.
//!
//! One file a subcommand under `commands/`: it checks what was typed, makes one call into the crate
//! whose job it is, and renders what came back.

mod apply;
mod card_bench;
mod charset;
mod cli;
mod command_error;
mod commands;
mod consent;
mod crash;
mod environment;
mod hints;
mod output;
mod output_file;
mod probe;
mod rendering;
mod schemas;
mod signals;
mod state;
#[cfg(feature = "survey")]
mod survey;
#[cfg(not(feature = "survey"))]
#[path = "survey/absent.rs"]
mod survey;
mod test_beds;
mod timeouts;
mod tune;
mod wear;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use flashfit_host::at_panic;
use flashfit_user_error::ExitClass;

use cli::{Cli, Command};
use command_error::CommandError;

fn main() -> ExitCode {
    exit_on_panic();
    if !std::io::stdout().is_terminal() {
        flashfit_report::table::show_cells_whole();
    }
    let mut own_args = std::env::args_os().take_while(|arg| arg != "--");
    let is_for_scripts = own_args.any(|arg| arg == "--json" || arg == "--json-stream");
    let cli = match Cli::try_parse_from(cli::with_help_flag(std::env::args_os().collect())) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, is_for_scripts),
    };
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.show();
            if is_for_scripts {
                failure.show_json();
            }
            ExitCode::from(failure.class().code())
        }
    }
}

/// A panic in any thread ends the process with the usual message and the exit code of a bug. It
/// does not unwind, whether the program is built for that or not: a bug leaves what a kill leaves,
/// which the kernel or the next start removes, except for what `at_panic` removes now.
fn exit_on_panic() {
    let show = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        show(panic);
        at_panic::run();
        std::process::exit(ExitClass::Bug.code().into());
    }));
}

/// Help and the version go to standard output; a wrong command line also to scripts.
fn usage(error: &clap::Error, is_for_scripts: bool) -> ExitCode {
    let printed = error.print();
    // Nothing can be done about a closed output.
    let is_full = |error: &std::io::Error| error.kind() == std::io::ErrorKind::StorageFull;
    if !error.use_stderr() && printed.as_ref().is_err_and(is_full) {
        let hint = "make room where it goes, or send it elsewhere, as in: flashfit ... > FILE";
        let message = "cannot write to standard output: it is full";
        CommandError::new(ExitClass::Environment, message, Some(hint)).show();
        return ExitCode::from(ExitClass::Environment.code());
    }
    if error.use_stderr() && is_for_scripts {
        let text = error.render().to_string();
        let lines: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).collect();
        let message = lines.join(" ").trim_start_matches("error: ").to_owned();
        CommandError::new(ExitClass::Usage, message, Some("see --help")).show_json();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(ExitClass::Usage.code()))
}

fn run(cli: &Cli) -> Result<(), CommandError> {
    let catalog = cli.catalog()?;
    let catalog = catalog.as_deref();
    match &cli.command {
        Command::List(args) => commands::list::run(args, catalog),
        Command::Inspect(args) => commands::inspect::run(args, catalog),
        Command::Probe(args) => probe::run(args, catalog),
        Command::Plan(args) => commands::plan::run(args, catalog),
        Command::Check(args) => commands::check::run(args, catalog),
        Command::Apply(args) => apply::run(args, catalog),
        Command::Restore(args) => apply::restore(args),
        Command::Tune(args) => tune::run(args, catalog),
        Command::Analyze(args) => commands::analyze::run(args, catalog),
        Command::Compare(args) => commands::compare::run(args),
        Command::Report(args) => commands::report::run(args, catalog),
        Command::Catalog(args) => commands::catalog::run(args, catalog),
        Command::Options(args) => commands::options::run(args, catalog),
        Command::Crash(args) => crash::run(args, catalog),
        Command::Card(args) => commands::card::run(args, catalog),
        Command::Wear(args) => wear::run(args, catalog),
        Command::Survey(args) => survey::run(args),
        Command::Completions(args) => commands::completions::run(args),
        Command::Man(args) => commands::man::man(args),
        Command::Schema(args) => commands::schema::run(args),
        Command::Doctor(args) => commands::doctor::run(args, catalog),
        Command::Stand(args) => {
            let commands::doctor::LegacyStandCommand::Doctor(args) = &args.command;
            commands::doctor::run(args, catalog)
        }
        Command::Agent(args) => commands::agent::run(args),
        Command::CardServer(args) => commands::card_server::run(args, catalog),
    }
}
