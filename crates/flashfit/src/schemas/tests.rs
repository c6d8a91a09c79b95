//! Tests of the registry, and of the files in docs/schemas.

use std::collections::BTreeSet;
use std::path::Path;

use clap::CommandFactory;

use serde_json::json;

use super::generated::all;
use super::*;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas");

/// `make schemas` writes them.
#[test]
fn the_files_are_what_the_code_generates() {
    let folder = Path::new(FILES);
    let known: BTreeSet<String> =
        all().iter().map(|document| format!("{}.json", document.name)).collect();
    if std::env::var_os("FLASHFIT_BLESS").is_some() {
        for document in all() {
            let path = folder.join(format!("{}.json", document.name));
            std::fs::write(path, document.text()).unwrap();
        }
    }
    for document in all() {
        let path = folder.join(format!("{}.json", document.name));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(text == document.text(), "{} is old: make schemas", path.display());
    }
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let files: BTreeSet<String> = files.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(files, known, "a schema of no document");
}

#[test]
fn a_release_contains_the_files() {
    for name in NAMES {
        let text = std::fs::read_to_string(Path::new(FILES).join(format!("{name}.json"))).ok();
        assert!(text.is_some() && stored::text(name) == text, "{name}");
    }
    assert_eq!(stored::text("nothing"), None);
}

#[test]
fn every_command_with_json_has_schemas() {
    let mut found = BTreeSet::new();
    collect(&crate::cli::Cli::command(), &[], &mut found);
    let listed: BTreeSet<String> =
        COMMANDS.iter().map(|(command, _)| (*command).to_owned()).collect();
    assert_eq!(found, listed, "commands with --json (left) against schemas::COMMANDS");
    let of_commands: BTreeSet<&str> =
        COMMANDS.iter().flat_map(|(_, documents)| documents.iter().copied()).collect();
    let known: BTreeSet<&str> =
        all().iter().map(|document| document.name).filter(|name| *name != "error").collect();
    assert_eq!(of_commands, known, "documents of commands against the registry");
}

fn collect(command: &clap::Command, path: &[&str], found: &mut BTreeSet<String>) {
    if command.get_name() == "stand" {
        // The former name of `doctor`.
        return;
    }
    let is_json = |arg: &clap::Arg| arg.get_long().is_some_and(|flag| flag.starts_with("json"));
    if command.get_arguments().any(is_json) {
        found.insert(path.join(" "));
    }
    for sub in command.get_subcommands() {
        collect(sub, &[path, &[sub.get_name()]].concat(), found);
    }
}

#[test]
fn absent_keys_and_other_types_are_noticed() {
    let rankings = all().into_iter().find(|document| document.name == "rankings").unwrap();
    let data = &rankings.schema["properties"]["data"];
    assert_eq!(data["required"], json!(["by", "rankings", "matrix", "setups", "head_to_head"]));
    let row = &rankings.schema["$defs"]["RankingRow"];
    let required = row["required"].as_array().unwrap();
    // Present although it may be null, and absent without a usage model.
    assert!(required.contains(&json!("low_thousandths")) && !required.contains(&json!("years")));
    assert_eq!(row["properties"]["low_thousandths"]["type"], json!(["integer", "null"]));
}
