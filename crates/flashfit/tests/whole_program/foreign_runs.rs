//! Run directories from other people are only data: programs in them are not run, links are not
//! followed, and additions of newer versions are ignored.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use flashfit_test_support::{AttemptKind, attempted};
use serde_json::{Value, json};

use crate::fixture::Place;

const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tune/tests/runs");

/// Copies a recorded run to `run` with changes to header and trials.
fn recorded(place: &Place, name: &str, header: impl Fn(&mut Value), trial: impl Fn(&mut Value)) {
    let from = Path::new(RUNS).join(name);
    let read = |file: &str| std::fs::read_to_string(from.join(file)).unwrap();
    std::fs::create_dir_all(place.path("run")).unwrap();
    let mut document: Value = serde_json::from_str(&read("run.json")).unwrap();
    header(&mut document);
    place.file("run/run.json", &document.to_string());
    let lines = read("trials.jsonl").lines().fold(String::new(), |text, line| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        trial(&mut value);
        format!("{text}{value}\n")
    });
    place.file("run/trials.jsonl", &lines);
    attempted(AttemptKind::ForeignRunDir, 1);
}

fn unchanged(_: &mut Value) {}

/// A catalog whose ext4 uses `program` as mkfs, which leaves a file if it runs.
fn catalog(place: &Place, program: &str) -> String {
    std::fs::create_dir_all(place.path("theirs/filesystems")).unwrap();
    let trap = place.file("trap", &format!("#!/bin/sh\ntouch {}\n", place.arg("sprung")));
    std::fs::set_permissions(&trap, std::fs::Permissions::from_mode(0o755)).unwrap();
    let built_in = include_str!("../../../../catalog/filesystems/ext4.toml");
    let program = program.replace("TRAP", &trap.display().to_string());
    let text = built_in.replacen("program = \"mkfs.ext4\"", &format!("program = \"{program}\""), 1);
    assert!(text.contains(&program));
    place.file("theirs/filesystems/ext4.toml", &text);
    place.arg("theirs")
}

const COMMANDS: [&[&str]; 4] = [
    &["analyze", "run"],
    &["report", "run"],
    &["tune", "--resume", "run", "--dry-run"],
    &["tune", "--resume", "run", "--confirm", "image"],
];

#[test]
fn programs_named_in_a_run_are_not_run() {
    let place = Place::new();
    let folder = catalog(&place, "TRAP");
    let theirs = |header: &mut Value| header["spec"]["catalog_dir"] = json!(folder);
    recorded(&place, "v1-sim-adaptive", theirs, unchanged);
    for args in COMMANDS {
        place
            .flashfit(args)
            .said(2, &["a run directory alone does not decide which programs run", "--catalog"]);
        // Even with the catalog named, only known programs are run.
        let args = [args, &["--catalog", "theirs"]].concat();
        place.flashfit(&args).said(2, &["theirs/filesystems/ext4.toml", "mkfs.program", "trap"]);
    }
    assert!(!place.path("sprung").exists());
}

#[test]
fn a_run_is_only_read_with_its_own_catalog() {
    let place = Place::new();
    let folder = catalog(&place, "mke2fs");
    let sha256 = "00".repeat(32);
    let used = |built_in: bool| {
        let (folder, sha256) = (folder.clone(), sha256.clone());
        move |header: &mut Value| {
            header["catalog"] = json!({"sha256": sha256, "built_in": built_in});
            header["spec"]["catalog_dir"] = if built_in { Value::Null } else { json!(folder) };
        }
    };
    recorded(&place, "v1-sim-adaptive", used(false), unchanged);
    place.flashfit(&["analyze", "run"]).said(2, &["--catalog", "theirs"]);
    // Before estimates, which take long.
    for command in ["analyze", "report"] {
        place.flashfit(&[command, "run", "--usage", "x"]).said(2, &["--catalog", "theirs"]);
    }
    let missing = |header: &mut Value| {
        used(false)(header);
        header["spec"]["catalog_dir"] = json!("target/theirs");
    };
    recorded(&place, "v1-sim-adaptive", missing, unchanged);
    let hint = ["target/theirs is not a directory here", "--catalog DIR"];
    place.flashfit(&["analyze", "run"]).said(2, &hint);
    recorded(&place, "v1-sim-adaptive", used(false), unchanged);
    let other = ["analyze", "run", "--catalog", "theirs"];
    place.flashfit(&other).said(2, &["used other definitions", "--catalog DIR"]);
    // A run can be read with a newer or older built-in catalog.
    recorded(&place, "v1-sim-adaptive", used(true), unchanged);
    place.flashfit(&["analyze", "run"]).said(0, &[]);
    place.flashfit(&other).said(2, &["built-in catalog", "leave --catalog out"]);
}

#[test]
fn other_test_beds_and_kernels_must_be_named_again() {
    let place = Place::new();
    let ssh = |header: &mut Value| header["spec"]["on"] = json!({"ssh": {"host": "elsewhere"}});
    recorded(&place, "v1-sim-adaptive", ssh, unchanged);
    let resume = ["tune", "--resume", "run", "--dry-run"];
    place.flashfit(&resume).said(2, &["ssh:elsewhere", "--resume run --on ssh:elsewhere"]);
    let here = [&resume[..], &["--on", "here"]].concat();
    place.flashfit(&here).said(2, &["on elsewhere", "can only continue there"]);
    let kernel = |header: &mut Value| header["spec"]["on"] = json!({"vm": {"kernel": "/k"}});
    recorded(&place, "v1-sim-adaptive", kernel, unchanged);
    place.flashfit(&resume).said(2, &["--resume run --vm-kernel /k"]);
    recorded(&place, "v1-sim-adaptive", unchanged, unchanged);
    let vm = [&resume[..], &["--on", "vm"]].concat();
    place.flashfit(&vm).said(2, &["can only continue there"]);
}

#[test]
fn additions_of_newer_versions_change_no_result() {
    fn grow(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.values_mut().for_each(grow);
                // In an object with names as keys, the addition would be a name.
                let by_name = ["completed", "failed", "block-size", "partition", "published"];
                let is_named = map.is_empty() || by_name.iter().any(|key| map.contains_key(*key));
                let holds_numbers =
                    map.values().all(|value| value.is_number() || value.is_string());
                if !is_named && !holds_numbers {
                    map.insert("from_a_newer_flashfit".into(), json!({"why": [1]}));
                }
            }
            Value::Array(items) => items.iter_mut().for_each(grow),
            _ => {}
        }
    }
    let grow_header = |header: &mut Value| {
        // Keyed by the names of file systems.
        let options = header["spec"]["options"].take();
        let planned = header["facts"]["planned"].take();
        grow(header);
        header["spec"]["options"] = options;
        header["facts"]["planned"] = planned;
    };
    let commands: [&[&str]; 4] = [
        &["analyze", "run", "--json"],
        &["report", "run", "-o", "report.html"],
        &["tune", "--replay", "run", "--workload", "sync-files", "--json"],
        &["tune", "--resume", "run", "--dry-run"],
    ];
    let answers = |place: &Place| -> Vec<String> {
        let said = commands.map(|args| {
            let ended = place.flashfit(args);
            ended.said(0, &[]);
            ended.stdout
        });
        let report = std::fs::read_to_string(place.path("report.html")).unwrap();
        said.into_iter().chain([report]).collect()
    };
    let plain = Place::new();
    recorded(&plain, "v1-sim-adaptive", unchanged, unchanged);
    let newer = Place::new();
    recorded(&newer, "v1-sim-adaptive", grow_header, grow);
    let text = std::fs::read_to_string(newer.path("run/run.json")).unwrap();
    assert!(text.matches("from_a_newer_flashfit").count() > 5, "{text}");
    assert_eq!(answers(&plain), answers(&newer));
}

#[test]
fn a_report_replaces_a_link_and_not_its_target() {
    let place = Place::new();
    recorded(&place, "v1-sim-adaptive", unchanged, unchanged);
    let theirs = place.file("theirs.txt", "theirs");
    symlink(&theirs, place.path("run/report.html")).unwrap();
    place.flashfit(&["report", "run"]).said(0, &[]);
    assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
    assert!(place.path("run/report.html").symlink_metadata().unwrap().is_file());
    std::fs::remove_file(place.path("run/trials.jsonl")).unwrap();
    symlink(&theirs, place.path("run/trials.jsonl")).unwrap();
    for args in COMMANDS {
        place.flashfit(args).said(3, &["trials.jsonl: not a regular file"]);
    }
    assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
}

#[test]
fn a_run_directory_that_everybody_may_write_to_is_refused() {
    let place = Place::new();
    recorded(&place, "v1-sim-adaptive", unchanged, unchanged);
    let set = |mode| {
        std::fs::set_permissions(place.path("run"), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0o777);
    for args in COMMANDS {
        place.flashfit(args).said(3, &["every user can write to it", "hint: ", "chmod o-w"]);
    }
    set(0o755);
    for args in COMMANDS {
        place.flashfit(args).said(0, &[]);
    }
}
