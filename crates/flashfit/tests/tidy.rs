//! Checks rules of the source code: length of files, module heads, skips and lints.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MOST_LINES: usize = 500;
const MOST_COLUMNS: usize = 100;

fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = root.parent().expect("the crates' folder").to_owned();
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

/// The complaints about all source files.
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
fn every_module_has_a_head() {
    assert_none(&complaints(|text| {
        (!text.starts_with("//! ")).then(|| "has no //! at its top".to_owned())
    }));
}

#[test]
fn files_and_lines_have_a_limited_length() {
    assert_none(&complaints(|text| {
        // Long strings are not split, so that they can be found by searching.
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

/// Skips that are only printed are not counted, and `FLASHFIT_REQUIRE` cannot forbid them.
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

/// Files named by users may be FIFOs, devices or huge; `flashfit_host::input_file` handles them.
#[test]
fn named_files_are_read_with_a_limit() {
    let readers = [
        "flashfit/src/",
        "catalog/src/",
        "/crates/probe/src/",
        "run-format/src/config.rs",
        "run-format/src/shell_config.rs",
        "card/src/snapshot/mod",
    ];
    let raw = ["fs::read(", "read_to_string(", "File::open("];
    let found = sources().into_iter().filter_map(|path| {
        let shown = path.display().to_string();
        let is_test = shown.ends_with("tests.rs");
        readers.iter().any(|reader| !is_test && shown.contains(reader)).then_some(())?;
        let text = std::fs::read_to_string(&path).expect("text");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let line = code.lines().position(|line| raw.iter().any(|raw| line.contains(raw)))?;
        // Opening a directory to sync it is allowed.
        let is_sync = code.lines().nth(line).is_some_and(|line| line.contains("sync_all"));
        (!is_sync).then(|| format!("{shown}:{}: use host::input_file", line + 1))
    });
    assert_none(&found.collect::<Vec<_>>());
}

/// A command parses, makes one call and renders; longer files are work that belongs to another
/// crate. Only renderers may be longer, because a table or a document is one piece.
#[test]
fn command_files_are_short() {
    const MOST_COMMAND_LINES: usize = 150;
    const MOST_RENDERING_LINES: usize = 350;
    let command = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut count = 0;
    let found =
        sources().into_iter().filter(|path| path.starts_with(&command)).filter_map(|path| {
            count += 1;
            let most = if path.starts_with(command.join("rendering")) {
                MOST_RENDERING_LINES
            } else {
                MOST_COMMAND_LINES
            };
            let lines = std::fs::read_to_string(&path).expect("text").lines().count();
            (lines > most).then(|| format!("{}: {lines} lines, at most {most}", path.display()))
        });
    let found: Vec<String> = found.collect();
    assert!(count > 80, "the command is there: {count}");
    assert_none(&found);
}

/// A reader who meets a name should know which type it is.
#[test]
fn public_types_have_one_name_each() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in sources() {
        let shown = path.display().to_string();
        // The workspace itself may lie below a directory named `src`.
        let in_crate =
            shown.rsplit_once("/crates/").is_some_and(|(_, file)| file.contains("/src/"));
        let text = std::fs::read_to_string(&path).expect("text");
        for name in text.lines().filter(|_| in_crate).filter_map(public_type) {
            places.entry(name.to_owned()).or_default().push(shown.clone());
        }
    }
    assert!(places.len() > 500, "the types are there");
    let twice = places.into_iter().filter(|(_, places)| places.len() > 1);
    assert_none(
        &twice.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect::<Vec<_>>(),
    );
}

/// The type that a line declares for other modules.
fn public_type(line: &str) -> Option<&str> {
    let mut words = line.trim_start().strip_prefix("pub ")?.split_whitespace();
    let kind = words.find(|word| *word != "unsafe")?;
    if !["struct", "enum", "trait", "type", "union"].contains(&kind) {
        return None;
    }
    words.next()?.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}

#[test]
fn the_name_of_a_public_type_is_found() {
    assert_eq!(public_type("pub struct Run<'a> {"), Some("Run"));
    assert_eq!(public_type("    pub enum Mode;"), Some("Mode"));
    assert_eq!(public_type("pub unsafe trait Cast: Sized {"), Some("Cast"));
    assert_eq!(public_type("pub fn run() {"), None);
    assert_eq!(public_type("struct Private;"), None);
}

#[test]
fn crates_use_only_crates_below_them_in_the_table_of_the_architecture() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates' folder");
    let root = crates.parent().expect("the workspace");
    let table = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("text");
    let order: Vec<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `crates/")?.split('`').next())
        .collect();
    assert!(order.len() > 25, "{order:?}");
    let mut found = Vec::new();
    for (at, name) in order.iter().enumerate() {
        let manifest = crates.join(name).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("text");
        let used = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
        for line in used.take_while(|line| !line.starts_with('[')) {
            let Some(used) = line.strip_prefix("flashfit-") else { continue };
            let used: String =
                used.chars().take_while(|&sign| sign.is_ascii_lowercase() || sign == '-').collect();
            if !order[at + 1..].contains(&used.as_str()) {
                found.push(format!("{name} uses {used}"));
            }
        }
    }
    assert_none(&found);
}
