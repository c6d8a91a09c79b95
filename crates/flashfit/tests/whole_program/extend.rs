//! `flashfit tune --resume` with more: workloads, file systems, options, budget and memory.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fixture::{Ended, Place, skip_without_cards};

fn header(place: &Place) -> Value {
    serde_json::from_str(&std::fs::read_to_string(place.path("run/run.json")).unwrap()).unwrap()
}

/// The trials as `purpose, setup, workload, repeat`.
fn keys(place: &Place) -> Vec<String> {
    let key = |line: &String| serde_json::from_str::<Value>(line).unwrap()["key"].to_string();
    place.recorded().iter().map(key).collect()
}

fn resume(place: &Place, more: &[&str]) -> Ended {
    place.flashfit(&[&["tune", "--resume", "run", "--progress", "never"], more].concat())
}

#[test]
fn a_run_is_extended_and_a_killed_extension_continues() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.tune(&place.card(), &[]).said(0, &[]);
    let before = keys(&place);
    let more = ["--workload", "random-write", "--with", "ext4:fast_commit", "--memory", "80MiB"];
    let preview = resume(&place, &[&more[..], &["--dry-run", "--json"]].concat());
    preview.said(0, &["extended"]);
    assert_eq!(keys(&place), before, "a preview changes nothing");
    assert!(header(&place)["extensions"].is_null());

    let mut child =
        place.command(&[&["tune", "--resume", "run"], &more[..]].concat()).spawn().unwrap();
    place.wait_for_trials(before.len() + 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let run = header(&place);
    assert_eq!(run["extensions"].as_array().unwrap().len(), 1, "{run:#}");
    assert_eq!(run["extensions"][0]["trials"], before.len());
    assert_eq!(run["extensions"][0]["before"]["workloads"], serde_json::json!(["sync-files"]));
    let free = run["choices"][0]["free"].as_array().unwrap();
    assert!(free.contains(&"fast_commit".into()) && free.contains(&"noatime".into()), "{run:#}");
    let warnings = run["warnings"].to_string();
    assert!(warnings.contains("64 MiB") && warnings.contains("80 MiB"), "{warnings}");

    // Without the flags: the run knows them.
    resume(&place, &[]).said(0, &[]);
    let after = keys(&place);
    assert_eq!(after[..before.len()], before[..], "recorded trials are kept");
    let unique: BTreeSet<&String> = after.iter().collect();
    assert_eq!(unique.len(), after.len(), "nothing is measured twice");
    let new = &after[before.len()..];
    assert!(new.iter().any(|key| key.contains("random-write")));
    assert!(new.iter().any(|key| key.contains("fast_commit")));
    let again = |key: &&String| {
        key.contains("sync-files") && key.contains("\"search\"") && !key.contains("fast_commit")
    };
    assert_eq!(new.iter().filter(again).count(), 0, "{new:#?}");
    assert_eq!(header(&place)["extensions"].as_array().unwrap().len(), 1);
    let config = std::fs::read_to_string(place.path("run/config.toml")).unwrap();
    assert!(config.contains("random-write"), "{config}");
    for args in [&["analyze", "run"][..], &["report", "run"], &["compare", "run", "run"]] {
        place.flashfit(args).said(0, &[]);
    }
    // The same flags again add nothing.
    resume(&place, &more).said(0, &[]);
    assert_eq!(keys(&place), after);
    assert_eq!(header(&place)["extensions"].as_array().unwrap().len(), 1);
}

#[test]
fn a_run_is_only_extended_and_only_with_what_exists() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.tune(&place.card(), &[]).said(0, &[]);
    let run = header(&place);
    for (more, texts) in [
        (&["--workload", "sync-filez"][..], &["sync-filez"][..]),
        (&["--fs", "ext5"], &["ext5"]),
        (&["--with", "ext4:nothing"], &["nothing"]),
        (&["--with", "btrfs:noatime"], &["btrfs", "--fs btrfs"]),
        (&["--memory", "32MiB"], &["--memory", "only extended"]),
        (&["--seed", "2"], &["--seed"]),
        (&["--data-size", "8MiB"], &["--data-size"]),
        (&["--without", "ext4:noatime"], &["--without"]),
    ] {
        resume(&place, more).said(2, texts);
    }
    assert_eq!(header(&place), run, "nothing was changed");
}
