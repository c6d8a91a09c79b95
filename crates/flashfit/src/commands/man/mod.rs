//! `flashfit man`: man pages from the definition of the command line.
//!
//! clap_mangen renders names and options. Usage lines, and what follows the options in the help, it
//! would fill like running text; here they become sections, with commands as they are typed.

mod help_end;

use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use flashfit_user_error::ExitClass;
use help_end::{HelpEnd, escaped};

use crate::cli::Cli;
use crate::command_error::CommandError;
use crate::environment::VARIABLES;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit man | man -l -\n  \
    flashfit man --dir /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Write the pages of all commands into this directory, flashfit.1 and flashfit-COMMAND.1.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Prints the page of the command, or writes all pages.
pub fn man(args: &ManArgs) -> Result<(), CommandError> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    match &args.dir {
        Some(dir) => write_pages(&command, dir).map_err(|error| {
            CommandError::new(
                ExitClass::Environment,
                format!("cannot write man pages to {}: {error}", dir.display()),
                Some("name a directory that exists and that you may write to: --dir DIR"),
            )
        }),
        None => output::print_utf8(&page(&command)),
    }
}

fn write_pages(command: &Command, dir: &Path) -> std::io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write_pages(inner, dir)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    std::fs::write(dir.join(format!("{name}.1")), page(command))
}

/// A page in the language of man(7).
fn page(command: &Command) -> String {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let end = HelpEnd::of(&help);
    let mut rendered = Vec::new();
    clap_mangen::Man::new(command.clone().after_help(None::<&'static str>))
        .render(&mut rendered)
        .expect("a vector takes everything");
    let rendered = String::from_utf8_lossy(&rendered);
    let (mut page, mut section) = (String::new(), "");
    let mut is_ended = false;
    for line in rendered.lines() {
        if let Some(next) = line.strip_prefix(".SH ") {
            if section == "DESCRIPTION" {
                page.push_str(&end.notes());
            }
            if next == "VERSION" {
                page.push_str(&last_sections(command, &end));
                is_ended = true;
            }
            section = next;
            page.push_str(&format!("{line}\n"));
            if section == "SYNOPSIS" {
                page.push_str(&synopsis(command));
            }
        } else if section != "SYNOPSIS" {
            page.push_str(&format!("{line}\n"));
        }
        if line.starts_with(".TH ") {
            // Neither hyphens within words nor blanks to fill lines: what is typed is copied.
            page.push_str(".nh\n.ad l\n");
        }
    }
    if section == "DESCRIPTION" {
        page.push_str(&end.notes());
    }
    if !is_ended {
        page.push_str(&last_sections(command, &end));
    }
    page
}

/// The lines of the usage as the help has them.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:");
    let lines: String = usage.lines().map(|line| format!("{}\n", escaped(line.trim()))).collect();
    format!(".nf\n{lines}.fi\n")
}

fn last_sections(command: &Command, end: &HelpEnd) -> String {
    let page = command.get_display_name().unwrap_or_else(|| command.get_name());
    let name = page.split('-').nth(1);
    let exit_status = end.exit_status().unwrap_or_else(|| "See \\fBflashfit\\fR(1).\n".to_owned());
    let mut text = format!(".SH \"EXIT STATUS\"\n{exit_status}.SH ENVIRONMENT\n");
    let is_read =
        |commands: &[&str]| commands.is_empty() || name.is_none_or(|name| commands.contains(&name));
    for variable in VARIABLES.iter().filter(|variable| is_read(variable.commands)) {
        let meaning = escaped(variable.meaning);
        text.push_str(&format!(".TP\n\\fB{}\\fR\n{meaning}\n", variable.name));
    }
    text + &end.lists()
}
