//! `flashfit completions SHELL`: shell completion from the definition of the command line.

use clap::{Arg, Args, Command, CommandFactory};
use clap_complete::Shell;

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

/// Prints the script.
pub fn run(args: &CompletionsArgs) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(&Cli::command()), NAME, &mut script);
    output::print_utf8(&String::from_utf8_lossy(&script))
}

/// A command without the subcommands and flags that its help hides, at any depth.
fn visible(command: &Command) -> Command {
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let shown = Command::new(leaked(command.get_name()))
        .about(command.get_about().cloned().unwrap_or_default())
        .subcommands(commands.map(visible));
    let arguments = || command.get_arguments();
    let shown = if arguments().any(Arg::is_hide_set) {
        // clap wants every argument that another one excludes, so that none can be left out.
        shown.args(arguments().filter(|arg| !arg.is_hide_set()).map(independent))
    } else {
        shown.args(arguments().cloned()).groups(command.get_groups().cloned())
    };
    if command.get_version().is_some() { shown.version(env!("CARGO_PKG_VERSION")) } else { shown }
}

/// An argument without what it says of others.
fn independent(arg: &Arg) -> Arg {
    let aliases = arg.get_visible_aliases().unwrap_or_default();
    let mut shown = Arg::new(leaked(arg.get_id().as_str()))
        .action(arg.get_action().clone())
        .value_parser(arg.get_value_parser().clone())
        .value_hint(arg.get_value_hint())
        .global(arg.is_global_set())
        .last(arg.is_last_set())
        .trailing_var_arg(arg.is_trailing_var_arg_set())
        .visible_aliases(aliases.into_iter().map(leaked));
    if let Some(help) = arg.get_help() {
        shown = shown.help(help.clone());
    }
    if let Some(long) = arg.get_long() {
        shown = shown.long(leaked(long));
    }
    if let Some(short) = arg.get_short() {
        shown = shown.short(short);
    }
    if let Some(names) = arg.get_value_names() {
        shown = shown.value_names(names.iter().cloned());
    }
    if let Some(values) = arg.get_num_args() {
        shown = shown.num_args(values);
    }
    shown
}

/// clap wants names that live as long as the program, and this runs once.
fn leaked(name: &str) -> &'static str {
    name.to_owned().leak()
}
