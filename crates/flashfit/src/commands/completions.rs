//! `flashfit completions SHELL` and `flashfit man`: shell completion and man pages, from the
//! definition of the command line.

use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use flashfit_user_error::ExitClass;

use crate::cli::Cli;
use crate::command_error::CommandError;
use crate::output;

const NAME: &str = "flashfit";

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    flashfit completions bash > /etc/bash_completion.d/flashfit\n  \
    flashfit completions zsh > /usr/local/share/zsh/site-functions/_flashfit\n  \
    flashfit completions fish > ~/.config/fish/completions/flashfit.fish")]
pub struct CompletionsArgs {
    /// Shell to complete in.
    pub shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit man | man -l -\n  \
    flashfit man --dir /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Write the pages of all commands into this directory, flashfit.1 and flashfit-COMMAND.1.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Prints the script.
pub fn run(args: &CompletionsArgs) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(&Cli::command()), NAME, &mut script);
    output::print_utf8(&String::from_utf8_lossy(&script))
}

/// A command without the subcommands that its help hides, at any depth.
fn visible(command: &Command) -> Command {
    // clap wants names that live as long as the program, and this runs once.
    let name: &'static str = command.get_name().to_owned().leak();
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let shown = Command::new(name)
        .about(command.get_about().cloned().unwrap_or_default())
        .args(command.get_arguments().cloned())
        .groups(command.get_groups().cloned())
        .subcommands(commands.map(visible));
    if command.get_version().is_some() { shown.version(env!("CARGO_PKG_VERSION")) } else { shown }
}

/// Prints the page of the command, or writes all pages.
pub fn man(args: &ManArgs) -> Result<(), CommandError> {
    match &args.dir {
        Some(dir) => write_pages(dir),
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut page)
                .expect("a vector takes everything");
            output::print_utf8(&String::from_utf8_lossy(&page))
        }
    }
}

fn write_pages(dir: &Path) -> Result<(), CommandError> {
    clap_mangen::generate_to(Cli::command(), dir).map_err(|error| {
        CommandError::new(
            ExitClass::Environment,
            format!("cannot write man pages to {}: {error}", dir.display()),
            Some("name a directory that exists and that you may write to"),
        )
    })
}
