//! `flashfit agent`, hidden: makes trials here for a flashfit elsewhere, over its standard input
//! and output, or over a socket in its own folder, so that the connection may break.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use flashfit_testbed::agent::{self, AgentFolder, AgentInfo};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::{output, signals, test_beds};

const START_WAIT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Connect standard input and output to the agent of this directory; start it if there is none.
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Only end the agent that this directory may still have.
    #[arg(long, requires = "folder")]
    pub end: bool,
    /// Do not start an agent: there was one before.
    #[arg(long, requires = "folder", conflicts_with = "end")]
    pub again: bool,
    /// Be the agent of this directory: new, empty, or left behind by an agent.
    #[arg(long, value_name = "DIR", conflicts_with = "folder")]
    pub listen: Option<PathBuf>,
    /// Print the version and the hash of the source.
    #[arg(long, conflicts_with_all = ["folder", "listen"])]
    pub build: bool,
    /// Seconds to wait for a new connection.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub linger: u64,
}

pub fn run(args: &AgentArgs) -> Result<(), CommandError> {
    if args.build {
        return output::print(&format!("flashfit {}\n", test_beds::BUILD));
    }
    match (&args.folder, &args.listen) {
        (Some(folder), _) => attach(folder, args),
        (None, Some(folder)) => listen(folder, args.linger),
        (None, None) => {
            let (input, output) = (std::io::stdin(), std::io::stdout());
            agent::serve(input, output, &about(), &signals::interrupt()?)
                .map_err(|error| failed("cannot make a folder", &error))
        }
    }
}

fn listen(folder: &Path, linger: u64) -> Result<(), CommandError> {
    let folder =
        AgentFolder::take(folder).map_err(|error| CommandError::from(error).at("agent"))?;
    let linger = Duration::from_secs(linger);
    agent::listen(folder, linger, &about(), &signals::interrupt()?)
        .map_err(|error| failed("cannot listen", &error))
}

fn attach(folder: &Path, args: &AgentArgs) -> Result<(), CommandError> {
    let socket = agent::socket_of(folder);
    let try_once = || agent::attach(&socket, std::io::stdin(), std::io::stdout());
    if args.end {
        return agent::end(&socket).map_err(|error| failed("it does not end", &error));
    }
    if try_once().is_ok() {
        return Ok(());
    }
    if args.again {
        return output::print(&agent::ended());
    }
    start(folder, args.linger)?;
    let began = Instant::now();
    loop {
        match try_once() {
            Ok(()) => return Ok(()),
            Err(error) if began.elapsed() > START_WAIT => {
                return Err(failed("the agent does not answer", &error));
            }
            Err(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// Starts an agent that stays when this process goes.
fn start(folder: &Path, linger: u64) -> Result<(), CommandError> {
    // Here, because the agent's own standard error goes nowhere.
    drop(AgentFolder::take(folder).map_err(|error| CommandError::from(error).at("agent"))?);
    let program = std::env::current_exe().map_err(|error| failed("has no program", &error))?;
    Command::new(program)
        .args(["agent", "--linger", &linger.to_string(), "--listen"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map(drop)
        .map_err(|error| failed("cannot start the agent", &error))
}

fn about() -> AgentInfo {
    AgentInfo {
        version: test_beds::BUILD.to_owned(),
        cards: Box::new(|folder| test_beds::cards(Some(folder))),
    }
}

fn failed(what: &str, error: &std::io::Error) -> CommandError {
    CommandError::new(ExitClass::Environment, format!("agent: {what}: {error}"), None)
}
