//! The command that was typed, for a hint to repeat it.

use std::ffi::OsString;
use std::path::Path;

use flashfit_host::program::{quote, quote_path};

use super::args::TuneArgs;

/// The options that only a run with a twin has, and whether a value follows.
const OF_TWIN: [(&str, bool); 5] = [
    ("--twin-first", false),
    ("--twin", true),
    ("--twin-trials", true),
    ("--twin-time", true),
    ("--twin-speed-mips", true),
];

/// A command in words, without the name of the program.
#[derive(Debug, Clone)]
pub struct RepeatCommand {
    words: Vec<String>,
    has_geometry: bool,
}

impl RepeatCommand {
    /// The command of this process, for a run in `dir`.
    pub fn of(args: &TuneArgs, dir: &Path) -> Self {
        Self::new(
            std::env::args_os().skip(1),
            dir,
            (args.dir.is_some(), args.what.geometry.is_some()),
        )
    }

    fn new(
        typed: impl Iterator<Item = OsString>,
        dir: &Path,
        (has_dir, has_geometry): (bool, bool),
    ) -> Self {
        let mut words: Vec<String> = typed
            .map(|word| {
                word.into_string().unwrap_or_else(|word| word.to_string_lossy().into_owned())
            })
            .collect();
        // The usual directory may have another name next time.
        if !has_dir {
            words.extend(["--dir".to_owned(), dir.to_string_lossy().into_owned()]);
        }
        Self { words, has_geometry }
    }

    /// The same again, in the same directory.
    pub fn text(&self) -> String {
        joined(&self.words)
    }

    /// The same run without a twin, with the geometry in `document`.
    pub fn without_twin(&self, document: &Path) -> String {
        let mut rest = Vec::new();
        let mut words = self.words.iter();
        while let Some(word) = words.next() {
            match OF_TWIN.iter().find(|(option, _)| option == word) {
                Some((_, true)) => drop(words.next()),
                Some((_, false)) => {}
                None if OF_TWIN.iter().any(|(option, _)| {
                    word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
                }) => {}
                None => rest.push(word.clone()),
            }
        }
        let geometry = match self.has_geometry {
            true => String::new(),
            false => format!(" --geometry {}", quote_path(document)),
        };
        joined(&rest) + &geometry
    }
}

fn joined(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
    format!("flashfit {}", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(typed: &str, has: (bool, bool)) -> RepeatCommand {
        let words: Vec<OsString> = typed.split(' ').map(OsString::from).collect();
        RepeatCommand::new(words.into_iter(), Path::new("run 1"), has)
    }

    #[test]
    fn a_command_names_its_directory_and_can_leave_the_twin_out() {
        let typed = "tune sdz --twin-first --twin-trials 9 --twin-time=2min --fs ext4";
        let repeated = command(typed, (false, false));
        assert_eq!(repeated.text(), format!("flashfit {typed} --dir 'run 1'"));
        let without = repeated.without_twin(Path::new("run 1/probe.json"));
        let expected = "flashfit tune sdz --fs ext4 --dir 'run 1' --geometry 'run 1/probe.json'";
        assert_eq!(without, expected);
        let named = command("tune sdz --dir a --geometry b --twin-first", (true, true));
        assert_eq!(named.text(), "flashfit tune sdz --dir a --geometry b --twin-first");
        let without = named.without_twin(Path::new("c"));
        assert_eq!(without, "flashfit tune sdz --dir a --geometry b");
    }
}
