//! `flashfit help COMMAND`, which clap parses without suggestions for a mistyped command.

use std::ffi::OsString;

use clap::CommandFactory;

use super::Cli;

/// The command line with `--help` at the end instead of `help` before the command.
pub fn with_help_flag(mut line: Vec<OsString>) -> Vec<OsString> {
    let is_help = |at: usize| line.get(at).is_some_and(|word| word == "help");
    let is_group = || {
        let name = line.get(1).and_then(|name| name.to_str());
        let root = Cli::command();
        name.and_then(|name| root.find_subcommand(name)).is_some_and(|it| it.has_subcommands())
    };
    let at = match (is_help(1), is_help(2)) {
        (true, _) => 1,
        (false, true) if is_group() => 2,
        _ => return line,
    };
    if line.len() > at + 1 && line[at + 1] != "help" {
        line.remove(at);
        line.push("--help".into());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_before_a_command_becomes_a_flag_behind_it() {
        for (typed, read) in [
            ("flashfit help tun", "flashfit tun --help"),
            ("flashfit help wear shw", "flashfit wear shw --help"),
            ("flashfit wear help show", "flashfit wear show --help"),
            ("flashfit help", "flashfit help"),
            ("flashfit help help", "flashfit help help"),
            ("flashfit wear help", "flashfit wear help"),
            ("flashfit inspect help", "flashfit inspect help"),
            ("flashfit tune help --dry-run", "flashfit tune help --dry-run"),
        ] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(with_help_flag(words(typed)), words(read));
        }
    }
}
