//! `flashfit card-server`, hidden: the process that serves a simulated card to its parent.
//!
//! It is its own process because one that both serves FUSE and does I/O on it can deadlock
//! when it is killed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::command_error::CommandError;
use crate::commands::card_args::CardServerArgs;
use crate::commands::serving_args::ServingArgs;

pub fn run(args: &CardServerArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let mut output = std::io::stdout();
    let model = match flashfit_card::catalog::load(&args.name, catalog) {
        Ok(model) => model,
        Err(error) => {
            flashfit_card_server::refuse(&mut output, &error);
            return Err(error.into());
        }
    };
    let control = std::io::BufReader::new(std::io::stdin());
    Ok(flashfit_card_server::run(&model, &args.how.options(), control, output)?)
}

/// This very program.
pub fn program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// The arguments that make it serve a card as a loop device.
pub fn args(name: &str, catalog: Option<&Path>) -> Vec<OsString> {
    let mut args = vec![OsString::from("card-server")];
    args.extend(catalog_args(catalog));
    args.push(name.into());
    args
}

/// The arguments that name a catalog, if there is one.
pub fn catalog_args(catalog: Option<&Path>) -> Vec<OsString> {
    catalog.map_or_else(Vec::new, |catalog| vec!["--catalog".into(), catalog.into()])
}

/// The arguments that make it serve a card in a given way.
pub fn args_with(name: &str, how: &ServingArgs, catalog: Option<&Path>) -> Vec<OsString> {
    let mut args = args(name, catalog);
    args.extend(how.to_args());
    args
}
