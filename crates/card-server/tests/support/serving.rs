//! The program that serves a card, which each of these tests also is: started with `serve` it does
//! that and nothing else.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use flashfit_card_client::{CardProcess, ProcessError};
use flashfit_card_server::{ServeOptions, refuse, run};
use flashfit_test_support::{HarnessTest, run_tests};
use flashfit_user_error::UserError;

/// Where and with what a card is served.
#[derive(Debug, Clone, Default)]
pub struct How {
    /// Over NBD on this socket.
    pub nbd: Option<PathBuf>,
    /// With its state in this file.
    pub state: Option<PathBuf>,
}

/// Starts a card in its own process.
pub fn start(card: &Path, how: &How) -> Result<CardProcess, ProcessError> {
    let path = |path: &Option<PathBuf>| {
        path.as_ref().map_or_else(|| "-".into(), |path| path.clone().into_os_string())
    };
    let args = ["serve".into(), card.as_os_str().to_owned(), path(&how.nbd), path(&how.state)];
    CardProcess::start(&std::env::current_exe().unwrap(), &args)
}

/// Serves a card where the arguments ask for it.
pub fn served_here() -> Option<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [serve, card, nbd, state] = args.as_slice() else { return None };
    if serve != "serve" {
        return None;
    }
    let model = match flashfit_card::catalog::load(card, None) {
        Ok(model) => model,
        Err(error) => {
            refuse(&mut std::io::stdout(), &error);
            return Some(ExitCode::from(error.class().code()));
        }
    };
    let path = |text: &String| (text != "-").then(|| PathBuf::from(text));
    let options = ServeOptions {
        nbd: path(nbd),
        state: path(state),
        stop_wait: Duration::from_secs(1),
        ..ServeOptions::default()
    };
    let control = BufReader::new(std::io::stdin());
    Some(match run(&model, &options, control, std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(error.class().code()),
    })
}

/// Runs the tests one after the other.
pub fn run_all(tests: &[(&'static str, fn())]) -> ExitCode {
    let tests = tests.iter().map(|(name, test)| HarnessTest::new(*name, *test)).collect();
    run_tests(tests, 1, || None)
}
