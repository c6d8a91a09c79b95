//! Everything that commands print as JSON, compared with the schemas in docs/schemas.
//!
//! [`check`] runs on the output of every command of all tests here, so the tests of a command are
//! also tests of its documents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::fixture::{Place, skip_without_cards};

/// Documents of commands that have their own tests: they need more than this machine's files.
const ELSEWHERE: &[&str] = &[
    "applied",
    "board",
    "card-counters",
    "card-cut",
    "comparison",
    "crash-cuts",
    "crash-replay",
    "crash-shrink",
    "crash-states",
    "free-space",
    "improved",
    "medium",
    "restored",
    "restored-improvement",
    "survey-added",
    "survey-bundle",
    "survey-bundled",
    "survey-card",
    "survey-cards",
    "survey-exported",
    "survey-site",
    "survey-merged",
    "survey-products",
    "wear-age",
    "wear-measure",
    "wear-record",
    "wear-show",
    "would-apply",
    "would-improve",
    "would-test-free-space",
];
/// A document in a file, which no command prints.
const IN_A_FILE: &str = "plan";

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas"))
}

fn schema(name: &str) -> Value {
    let path = folder().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}: a document without a schema", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// The mistakes of a document.
fn mistakes(document: &Value, schema: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(schema).unwrap();
    let all = validator.iter_errors(document);
    all.map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// The documents in an output, if it is nothing else.
fn documents(output: &str) -> Vec<(String, Value)> {
    let values = serde_json::Deserializer::from_str(output).into_iter::<Value>();
    let Ok(values) = values.collect::<Result<Vec<_>, _>>() else { return Vec::new() };
    let name =
        |value: &Value| Some(value["schema"].as_str()?.strip_prefix("flashfit.")?.to_owned());
    values.into_iter().filter_map(|value| Some((name(&value)?, value))).collect()
}

/// Panics if a document in the output of a command does not match its schema.
#[track_caller]
pub fn check(output: &str) {
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    for (name, document) in documents(output) {
        let schema = known.entry(name.clone()).or_insert_with(|| schema(&name));
        let found = mistakes(&document, schema);
        assert!(found.is_empty(), "flashfit.{name}: {found:#?}\n{document:#}");
    }
}

/// All names of documents, and the commands of the list with their documents.
fn listed(place: &Place) -> (BTreeSet<String>, BTreeSet<String>) {
    let list = place.flashfit(&["schema"]);
    list.said(0, &[]);
    let mut names = BTreeSet::new();
    let mut commands = BTreeSet::new();
    for line in list.stdout.lines().skip(1) {
        let (name, of) = line.split_once(char::is_whitespace).unwrap();
        names.insert(name.to_owned());
        if name != "error" {
            commands.extend(of.split(',').map(|command| command.trim().to_owned()));
        }
    }
    (names, commands)
}

#[test]
fn every_command_prints_documents_that_match_their_schemas() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let card = place.card();
    let tune = ["tune", &card, "--config", "run.toml", "--dir", "run"];
    place.file("run.toml", SMALL);
    std::fs::File::create(place.path("card.img")).unwrap().set_len(64 << 20).unwrap();
    let runs: &[(&[&str], &[&str])] = &[
        (&[&tune[..], &["--dry-run", "--json"]].concat(), &["would-tune"]),
        (&[&tune[..], &["--json-stream"]].concat(), &["belief", "progress", "recommendation"]),
        (&["tune", "--replay", "run", "--json"], &["replay"]),
        (&["analyze", "run", "--json"], &["rankings"]),
        (&["analyze", "run", "--versus", "winner", "baseline", "--json"], &["head-to-head"]),
        (&["card", "list", "--json"], &["cards"]),
        (&["card", "show", "sd-c4-block", "--json"], &["card"]),
        (&["card", "bench", "sd-c4-block", "--json"], &["card-bench"]),
        (&["inspect", "sim:sd-c4-block", "--json"], &["card"]),
        (&["catalog", "--json"], &["catalog"]),
        (&["list", "--json"], &["media"]),
        (&["check", "card.img", "--json"], &["check"]),
        (&["doctor", "--json"], &["stands"]),
        (&["options", "--fs", "ext4", "--json"], &["options"]),
        (&["plan", "card.img", "--no-probe", "--json"], &["plans"]),
        (&["probe", "sim:sd-c4-block", "--json"], &["probe"]),
        (&["probe", "sim:sd-c4-block", "--write", "--dry-run", "--json"], &["would-probe"]),
        (
            &["wear", "estimate", "sim:sd-c4-block", "--fs", "ext4", "--usage", "kiosk", "--json"],
            &["wear-estimate"],
        ),
    ];
    let mut seen = BTreeSet::from([IN_A_FILE.to_owned(), "error".to_owned()]);
    seen.extend(ELSEWHERE.iter().map(|&name| name.to_owned()));
    for (args, expected) in runs {
        // Checks the documents.
        let ended = place.flashfit(args);
        assert!(matches!(ended.code, Some(0 | 1)), "{args:?}: {ended:#?}");
        let found: BTreeSet<String> =
            documents(&ended.stdout).into_iter().map(|(name, _)| name).collect();
        let expected: BTreeSet<String> = expected.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(found, expected, "{args:?}: {ended:#?}");
        seen.extend(found);
    }
    let (names, _) = listed(&place);
    assert_eq!(seen, names, "documents of no test");
}

/// A short search.
const SMALL: &str = r#"filesystems = ["ext4"]
workloads = ["sync-files"]
schedulers = ["none"]
data_size = "4MiB"
runtime_ms = 200
trials = 8
[options.ext4]
exclude = ["discard", "nojournal", "fast_commit", "writeback", "nobarrier"]
"#;

#[test]
fn documents_that_are_tested_elsewhere_are_named_there() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/whole_program"));
    let mut sources = String::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => sources += &std::fs::read_to_string(path).unwrap(),
            }
        }
    }
    for name in ELSEWHERE {
        assert!(sources.contains(&format!("\"flashfit.{name}\"")), "no test prints {name}");
    }
}

#[test]
fn every_command_prints_its_errors_as_a_document() {
    let place = Place::new();
    let (_, commands) = listed(&place);
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let ended = place.flashfit(&[&words[..], &["--json", "--no-such-flag"]].concat());
        ended.said(2, &["--no-such-flag"]);
        let found = documents(&ended.stdout);
        assert_eq!(found.len(), 1, "{command}: {ended:#?}");
        assert_eq!(found[0].0, "error", "{command}");
        assert_eq!(found[0].1["error"]["class"], "usage");
    }
}

#[test]
fn absent_keys_other_types_and_other_versions_are_mistakes() {
    let place = Place::new();
    let (name, good) = documents(&place.flashfit(&["card", "list", "--json"]).stdout).remove(0);
    let schema = schema(&name);
    assert_eq!(mistakes(&good, &schema), Vec::<String>::new());
    let broken = |change: fn(&mut Value)| {
        let mut document = good.clone();
        change(&mut document);
        mistakes(&document, &schema)
    };
    let changes: [fn(&mut Value); 5] = [
        |document| document["schema_version"] = json!(2),
        |document| document["data"][0]["capacity"] = json!("4 GiB"),
        |document| document["data"][0]["nand"]["endurance_cycles"] = json!(-1),
        |document| drop(document["data"][1].as_object_mut().unwrap().remove("name")),
        |document| drop(document.as_object_mut().unwrap().remove("tool_version")),
    ];
    for change in changes {
        assert!(!broken(change).is_empty());
    }
    place.flashfit(&["schema", "ranking"]).said(2, &["no document", "did you mean `rankings`?"]);
    assert_eq!(documents("no JSON {"), []);
}

#[test]
fn the_printed_schema_is_the_documented_one() {
    let place = Place::new();
    for name in ["rankings", "flashfit.error"] {
        let printed = place.flashfit(&["schema", name]);
        printed.said(0, &[]);
        let file = folder().join(format!("{}.json", name.trim_start_matches("flashfit.")));
        assert_eq!(printed.stdout, std::fs::read_to_string(file).unwrap());
    }
}
