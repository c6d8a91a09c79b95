//! The house rules that a machine can check: the length of files, what a module says at its top,
//! and what must not be left behind.

use std::path::{Path, PathBuf};

const MOST_LINES: usize = 800;
const MOST_COLUMNS: usize = 100;

fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![root];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 50, "the crates are there");
    files
}

/// Every source file for which `complaint` finds something.
fn complaints(complaint: impl Fn(&str) -> Option<String>) -> Vec<String> {
    sources()
        .into_iter()
        .filter_map(|path| {
            let text = std::fs::read_to_string(&path).expect("text");
            Some(format!("{}: {}", path.display(), complaint(&text)?))
        })
        .collect()
}

#[track_caller]
fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn every_module_says_what_it_is() {
    assert_none(&complaints(|text| {
        (!text.starts_with("//! ")).then(|| "has no //! at its top".to_owned())
    }));
}

#[test]
fn no_file_is_too_long_or_too_wide() {
    assert_none(&complaints(|text| {
        // A text that is to be found again by searching is not broken.
        let wide = text
            .lines()
            .position(|line| line.chars().count() > MOST_COLUMNS && !line.contains(['"', '\\']));
        let lines = text.lines().count();
        match wide {
            Some(line) => Some(format!("line {} is over {MOST_COLUMNS} columns", line + 1)),
            None => (lines > MOST_LINES).then(|| format!("{lines} lines")),
        }
    }));
}

#[test]
fn lints_are_expected_and_not_allowed() {
    let pattern = format!("#[{}(", "allow");
    assert_none(&complaints(|text| {
        text.contains(&pattern).then(|| "allows a lint; expect it, with a reason".to_owned())
    }));
}
