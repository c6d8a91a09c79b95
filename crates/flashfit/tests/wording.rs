//! Keeps phrases that CONTRIBUTING.md excludes out of text for users: documents, the catalog, all
//! `--help` output, and the messages and reports in the sources. The phrases are in
//! `data/banned-phrases.txt`.
//!
//! Limits: it finds phrases, not bad sentences. It skips code spans and code blocks in documents,
//! because they show file formats and the output of other programs.

use std::path::{Path, PathBuf};

use flashfit_test_support::{help_pages, literals};

const PHRASES: &str = include_str!("data/banned-phrases.txt");
/// Documents at the root; those in the directories below are found.
const DOCUMENTS: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "fuzz/README.md",
];
/// Terms of standards that contain a banned word.
const TERMS: [&str; 1] = ["physical media units written"];
/// Text that is part of a file format or of a marker on a device.
const FORMATS: [&str; 1] = ["flashfit: this medium was left unfinished"];
/// The catalog parts with text for users, and the names of their text keys.
const TEXT_KEYS: [&str; 10] = [
    "title",
    "note",
    "risk",
    "plan_only",
    "differs",
    "claim",
    "measured",
    "label",
    "source",
    "explanation",
];

struct Banned {
    phrase: String,
    instead: String,
}

fn banned() -> Vec<Banned> {
    let lines = PHRASES.lines().map(str::trim);
    let listed = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    listed
        .map(|line| {
            let (phrase, instead) = line.split_once(" => ").expect("PHRASE => REPLACEMENT");
            Banned { phrase: phrase.to_lowercase(), instead: instead.to_owned() }
        })
        .collect()
}

/// The first banned phrase in `text`, as whole words; line breaks count as spaces.
fn first_banned<'a>(text: &str, banned: &'a [Banned]) -> Option<&'a Banned> {
    let text = text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    let text = TERMS.iter().fold(text, |text, term| text.replace(term, ""));
    let belongs_to_word =
        |character: char| character.is_alphanumeric() || "_-/".contains(character);
    banned.iter().find(|one| {
        text.match_indices(&one.phrase).any(|(start, found)| {
            let before = text[..start].chars().next_back();
            let after = text[start + found.len()..].chars().next();
            !before.is_some_and(belongs_to_word) && !after.is_some_and(belongs_to_word)
        })
    })
}

fn complaint(name: &str, text: &str, banned: &[Banned]) -> Option<String> {
    let one = first_banned(text, banned)?;
    Some(format!("{name}: `{}`, write `{}`", one.phrase, one.instead))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a directory of the project") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            found.extend(files(&path, endings));
        } else if path.extension().is_some_and(|ending| endings.iter().any(|one| ending == *one)) {
            found.push(path);
        }
    }
    found
}

/// Markdown without code blocks and code spans, by paragraph.
fn prose(markdown: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut is_fenced = false;
    for line in markdown.lines() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        } else if line.trim().is_empty() {
            paragraphs.push(String::new());
        } else if !is_fenced && !line.starts_with("    ") {
            let paragraph = paragraphs.last_mut().expect("there is one");
            paragraph.push_str(line);
            paragraph.push('\n');
        }
    }
    let without_spans = |text: String| text.split('`').step_by(2).collect::<Vec<_>>().join("`");
    paragraphs.into_iter().map(without_spans).collect()
}

#[track_caller]
fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn documents_have_no_banned_phrases() {
    let banned = banned();
    let mut documents: Vec<PathBuf> = DOCUMENTS.iter().map(|name| root().join(name)).collect();
    documents.extend(files(&root().join("docs"), &["md"]));
    documents.extend(files(&root().join("catalog"), &["md"]));
    assert!(documents.len() > 15, "the documents are there");
    let mut found = Vec::new();
    for path in documents {
        let text = std::fs::read_to_string(&path).expect("text");
        let name = path.display().to_string();
        found.extend(prose(&text).iter().filter_map(|one| complaint(&name, one, &banned)));
    }
    assert_none(&found);
}

#[test]
fn the_catalog_has_no_banned_phrases() {
    let banned = banned();
    let mut found = Vec::new();
    let mut texts = 0;
    for path in files(&root().join("catalog"), &["toml", "fio"]) {
        let text = std::fs::read_to_string(&path).expect("text");
        let name = path.display().to_string();
        // Comments, and values of the keys that are shown; other values are names and commands.
        let is_text = |line: &str| {
            let line = line.trim_start_matches("#:").trim_start();
            let key = line.split(" = ").next().unwrap_or_default();
            line.starts_with('#') || TEXT_KEYS.contains(&key)
        };
        let mut is_long = false;
        for line in text.lines() {
            let fences = line.matches("\"\"\"").count();
            if is_long || is_text(line) {
                texts += 1;
                found.extend(complaint(&name, line, &banned));
            }
            is_long ^= fences % 2 == 1;
        }
    }
    assert!(texts > 300, "the catalog's texts are there");
    assert_none(&found);
}

#[test]
fn help_has_no_banned_phrases() {
    let banned = banned();
    let pages = help_pages(env!("CARGO_BIN_EXE_flashfit"));
    let complaints = pages.iter().filter_map(|page| {
        complaint(&format!("flashfit {}", page.command.join(" ")), &page.text, &banned)
    });
    let found: Vec<_> = complaints.collect();
    let seen = pages.len();
    assert!(seen > 20, "the subcommands are there: {seen}");
    assert_none(&found);
}

/// A line of a command that is broken without a backslash cannot be copied into a shell.
#[test]
fn examples_in_the_help_can_be_copied() {
    let mut examples = 0;
    for page in help_pages(env!("CARGO_BIN_EXE_flashfit")) {
        let lines = page.text.lines().skip_while(|line| *line != "Examples:").skip(1);
        let mut continues = false;
        for line in lines.take_while(|line| !line.is_empty()) {
            assert!(continues || line.starts_with("  flashfit "), "{:?}: {line}", page.command);
            continues = line.ends_with('\\');
            examples += 1;
        }
    }
    assert!(examples > 30, "the examples are there: {examples}");
}

#[test]
fn messages_have_no_banned_phrases() {
    let banned = banned();
    let (mut found, mut texts) = (Vec::new(), 0);
    let crates = root().join("crates");
    for path in files(&crates, &["rs"]) {
        // The folder of the checkout may be called anything.
        let name = format!("/{}", path.strip_prefix(&crates).expect("a file of it").display());
        let is_test = ["/tests/", "/benches/", "/test-support/", "/target/", "tests.rs"];
        if is_test.iter().any(|part| name.contains(part)) {
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("text");
        // One word may be a key of a file or an argument; only text has spaces.
        for literal in literals::of_code(&source) {
            if literal.text.contains(' ') && !FORMATS.contains(&literal.text.as_str()) {
                texts += 1;
                let place = format!("{name}:{}", literal.line);
                found.extend(complaint(&place, &literal.text, &banned));
            }
        }
    }
    assert!(texts > 2000, "the messages are there: {texts}");
    assert_none(&found);
}

#[test]
fn phrases_are_found_across_lines_and_as_whole_words() {
    let banned = banned();
    let is_found = |text: &str| first_banned(text, &banned).is_some();
    assert!(is_found("The erase\nunit is large."));
    assert!(is_found("Media."));
    assert!(!is_found("erase_unit = 4096, multimedia, media_page_size"));
    assert!(prose("`erase unit`\n\n    erase unit\n").iter().all(|one| !is_found(one)));
    assert!(prose("`a` erase unit `b`").iter().any(|one| is_found(one)));
}
