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

/// A skip that is only printed is not counted and cannot be forbidden.
#[test]
fn skips_are_recorded_by_the_test_support() {
    let printed = [format!("\"{}: ", "skipped"), format!("\"{}\\n", "skipped")];
    let found: Vec<String> = sources()
        .into_iter()
        .filter(|path| {
            let path = path.display().to_string();
            !["/test-support/", "/benches/"].iter().any(|exempt| path.contains(exempt))
        })
        .filter(|path| {
            let text = std::fs::read_to_string(path).expect("text");
            printed.iter().any(|words| text.contains(words.as_str()))
        })
        .map(|path| format!("{}: prints a skip; call flashfit_test_support::skip", path.display()))
        .collect();
    assert_none(&found);
}

#[test]
fn lints_are_expected_and_not_allowed() {
    let pattern = format!("#[{}(", "allow");
    assert_none(&complaints(|text| {
        text.contains(&pattern).then(|| "allows a lint; expect it, with a reason".to_owned())
    }));
}

/// What a user names may be a FIFO, a device or a huge file; `flashfit_host::input_file` reads it
/// safely.
#[test]
fn named_files_are_read_with_a_limit() {
    let readers =
        ["flashfit/src/", "catalogue/src/", "tune/src/config.rs", "card/src/snapshot/mod"];
    let raw = ["fs::read(", "read_to_string(", "File::open("];
    let found = sources().into_iter().filter_map(|path| {
        let shown = path.display().to_string();
        readers.iter().any(|reader| shown.contains(reader)).then_some(())?;
        let text = std::fs::read_to_string(&path).expect("text");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let line = code.lines().position(|line| raw.iter().any(|raw| line.contains(raw)))?;
        // A folder is opened to be synced.
        let is_sync = code.lines().nth(line).is_some_and(|line| line.contains("sync_all"));
        (!is_sync).then(|| format!("{shown}:{}: use host::input_file", line + 1))
    });
    assert_none(&found.collect::<Vec<_>>());
}
