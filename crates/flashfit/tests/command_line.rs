//! Keeps the command line in the command: no other crate names a flag or a subcommand in its texts.
//! Errors refer to them with `flashfit_user_error::{Setting, Task}`.
//!
//! Limits: it looks at string literals outside tests; comments may name them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use flashfit_test_support::{help_pages, literals};

/// Flags that other programs have, too, or that the help shows of other programs.
const SHARED: [&str; 5] = ["help", "version", "json", "folder", "open-au"];

/// All flags and the first words of all commands, from the help.
fn vocabulary() -> (BTreeSet<String>, Vec<String>) {
    let pages = help_pages(env!("CARGO_BIN_EXE_flashfit"));
    let named = pages.iter().flat_map(|page| flags_in(&page.text));
    let mut flags: BTreeSet<String> = named.map(str::to_owned).collect();
    flags.retain(|flag| !SHARED.contains(&flag.as_str()));
    (flags, pages[0].subcommands())
}

/// The names of the long flags in a text.
fn flags_in(text: &str) -> Vec<&str> {
    let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    let starts = text.match_indices("--").filter(|(start, _)| !text[..*start].ends_with('-'));
    let names = starts.map(|(start, dashes)| {
        let rest = &text[start + dashes.len()..];
        &rest[..rest.find(|letter| !is_name(letter)).unwrap_or(rest.len())]
    });
    names.filter(|name| name.starts_with(|letter: char| letter.is_ascii_lowercase())).collect()
}

/// What a text says of the command line. One without a space is an argument of a program.
fn mention(text: &str, flags: &BTreeSet<String>, commands: &[String]) -> Option<String> {
    if !text.contains(' ') {
        return None;
    }
    let flag = flags_in(text).into_iter().find(|flag| flags.contains(*flag));
    let command = text.match_indices("flashfit ").find_map(|(start, word)| {
        let next = text[start + word.len()..].split(|letter: char| !letter.is_alphanumeric());
        next.take(1).find(|next| commands.iter().any(|command| command == next))
    });
    let flag = flag.map(|flag| format!("--{flag}"));
    flag.or(command.map(|command| format!("flashfit {command}")))
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a directory of the project") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn only_the_command_names_its_flags_and_subcommands() {
    let (flags, commands) = vocabulary();
    assert!(flags.len() > 60 && commands.len() > 12, "{flags:?} {commands:?}");
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates' directory");
    let mut files = 0;
    let mut found = Vec::new();
    for path in sources(crates) {
        let shown = path.strip_prefix(crates).expect("it is below").display().to_string();
        let exempt = ["flashfit/", "test-support/"].iter().any(|exempt| shown.starts_with(exempt));
        let is_test = shown.ends_with("tests.rs") || shown.contains("/tests/");
        if exempt || is_test || !shown.contains("/src/") {
            continue;
        }
        files += 1;
        let text = std::fs::read_to_string(&path).expect("text");
        for literal in literals::of_code(&text) {
            if let Some(what) = mention(&literal.text, &flags, &commands) {
                found.push(format!("{shown}:{}: `{what}`", literal.line));
            }
        }
    }
    assert!(files > 300, "the crates are there: {files}");
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn flags_and_commands_are_found_in_texts() {
    let flags = ["backup".to_owned()].into();
    let commands = ["list".to_owned()];
    let is_found = |text: &str| mention(text, &flags, &commands).is_some();
    assert!(is_found("name a directory with --backup"));
    assert!(is_found("run `flashfit list` to see them"));
    for text in
        ["--backup", "this flashfit lists nothing", "a --backup-file of another program", "list it"]
    {
        assert!(!is_found(text), "{text}");
    }
}
