//! `flashfit agent`, hidden: makes trials here for a flashfit elsewhere, over its standard input
//! and output, or over a socket in a folder of its own, so that the connection may break.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use flashfit_host::ExitClass;
use flashfit_host::interrupt::Interrupt;
use flashfit_stand::agent::{self, About};

use crate::failure::Failure;
use crate::output;
use crate::stands;

const SOCKET: &str = "agent.socket";
const START_WAIT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Carry standard input and output to the agent of this folder; start it if there is none.
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// End the agent that this folder may still have, and nothing else.
    #[arg(long, requires = "folder")]
    pub end: bool,
    /// Do not start one: there was one before.
    #[arg(long, requires = "folder", conflicts_with = "end")]
    pub again: bool,
    /// Be the agent of this folder, which is removed in the end.
    #[arg(long, value_name = "DIR", conflicts_with = "folder")]
    pub listen: Option<PathBuf>,
    /// How many seconds it waits for somebody to come back.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub linger: u64,
}

pub fn run(args: &AgentArgs) -> Result<(), Failure> {
    match (&args.folder, &args.listen) {
        (Some(folder), _) => attach(folder, args),
        (None, Some(folder)) => listen(folder, args.linger),
        (None, None) => {
            let (input, output) = (std::io::stdin(), std::io::stdout());
            agent::serve(input, output, &about(), &interrupt()?)
                .map_err(|error| failed("cannot make a folder", &error))
        }
    }
}

fn listen(folder: &Path, linger: u64) -> Result<(), Failure> {
    let socket = folder.join(SOCKET);
    let linger = Duration::from_secs(linger);
    let ended = agent::listen(&socket, linger, &about(), &interrupt()?);
    // The program may be in it; what runs goes on without its name.
    let _ = std::fs::remove_dir_all(folder);
    ended.map_err(|error| failed("cannot listen", &error))
}

fn attach(folder: &Path, args: &AgentArgs) -> Result<(), Failure> {
    let socket = folder.join(SOCKET);
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
fn start(folder: &Path, linger: u64) -> Result<(), Failure> {
    own_folder(folder).map_err(|error| failed("cannot make its folder", &error))?;
    // What another agent that was killed has left.
    let _ = std::fs::remove_file(folder.join(SOCKET));
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

/// Makes the agent's folder, or takes the one that is there when whoever logged in has made it:
/// what is in it becomes the agent's, and its name can be guessed.
fn own_folder(folder: &Path) -> std::io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    let found = std::fs::symlink_metadata(folder)?;
    let before_sudo = std::env::var("SUDO_UID").ok().and_then(|user| user.parse().ok());
    let is_ours =
        found.uid() == rustix::process::geteuid().as_raw() || before_sudo == Some(found.uid());
    if found.is_dir() && is_ours {
        return Ok(());
    }
    let why = format!("{} is somebody else's", folder.display());
    Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, why))
}

fn about() -> About {
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        cards: Box::new(|folder| stands::cards(Some(folder))),
    }
}

fn interrupt() -> Result<Interrupt, Failure> {
    Interrupt::on_signals().map_err(|error| failed("cannot catch signals", &error))
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(ExitClass::Environment, format!("agent: {what}: {error}"), None)
}
