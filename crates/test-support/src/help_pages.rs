//! The help of a program and of all its subcommands, as users see it.

use std::path::Path;
use std::process::Command;

/// The help of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelpPage {
    /// The subcommands that lead to it; empty for the program itself.
    pub command: Vec<String>,
    pub text: String,
}

impl HelpPage {
    /// The subcommands that it lists, without `help`.
    pub fn subcommands(&self) -> Vec<String> {
        let listed = self.text.lines().skip_while(|line| *line != "Commands:").skip(1);
        listed
            .take_while(|line| !line.is_empty())
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .map(str::to_owned)
            .collect()
    }
}

/// The pages of a program made with clap, its own first.
///
/// # Panics
/// When the program does not start, or its help is no UTF-8.
pub fn help_pages(program: impl AsRef<Path>) -> Vec<HelpPage> {
    let (mut pages, mut open) = (Vec::new(), vec![Vec::new()]);
    while let Some(command) = open.pop() {
        let output = Command::new(program.as_ref()).args(&command).arg("--help").output();
        let text = String::from_utf8(output.expect("the program starts").stdout).expect("UTF-8");
        let page = HelpPage { command, text };
        let inner = page.subcommands().into_iter();
        open.extend(inner.map(|name| [&page.command[..], &[name]].concat()));
        pages.push(page);
    }
    pages
}
