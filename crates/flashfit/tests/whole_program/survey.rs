//! `flashfit survey` on written runs and probes of cards, without a device or root.

use serde_json::{Value, json};

use crate::fixture::{Ended, Place};

/// A card of a product, by its serial number, as its CID.
pub fn cid(serial: u32) -> String {
    format!("035344534c33324780{serial:08x}012b00")
}

/// A run on a card whose rates are all multiplied by `factor`.
pub fn run(place: &Place, name: &str, cid: &str, seed: u64, factor: f64) {
    let header = json!({
        "schema": "flashfit.run", "schema_version": 1, "tool_version": "0.2.0",
        "created_unix_s": 1_795_000_000 + seed,
        "spec": { "profile": "quick", "data_size": 8 << 20, "memory": 32 << 20 },
        "facts": {
            "kernel": "6.12.0", "machine": "aarch64", "processors": 4, "stand": "here",
            "medium": {
                "path": "/dev/mmcblk0", "kind": "sd-card", "capacity": 32u64 << 30,
                "partition_start": null, "identity": { "cid": cid, "model": "SL32G" },
            },
        },
    });
    std::fs::create_dir_all(place.path(name)).unwrap();
    place.file(&format!("{name}/run.json"), &header.to_string());
    let mut random = seed;
    let mut text = String::new();
    for repeat in 0..3u64 {
        for (workload, base) in [("database", 2e6), ("sync-files", 8e6)] {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            let noise = (random >> 33) as f64 / f64::from(1u32 << 31) * 0.04 - 0.02;
            let rate = (base * factor * (1.0 + noise)) as u64;
            let line = json!({
                "version": 1,
                "key": { "purpose": "search", "workload": workload, "repeat": repeat,
                    "setup": { "filesystem": "ext4", "options": [], "scheduler": "none" } },
                "outcome": { "completed": { "points": [{ "stages": [{
                    "name": "write", "kind": "throughput",
                    "write": { "bytes_per_second": rate, "latency": { "p99_ns": 9_000_000 } },
                }]}]}},
            });
            text += &format!("{line}\n");
        }
    }
    place.file(&format!("{name}/trials.jsonl"), &text);
}

fn survey(place: &Place, more: &[&str]) -> Ended {
    place.flashfit(&[&["survey"], more].concat())
}

fn cards(place: &Place, more: &[&str]) -> Vec<Value> {
    let listed = survey(place, &[&["list", "--json"], more].concat());
    listed.document("flashfit.survey-cards")["results"].as_array().unwrap().clone()
}

#[test]
fn runs_and_probes_are_added_once_and_cards_are_recognized() {
    let place = Place::new();
    run(&place, "runs/a", &cid(0x7654_3210), 1, 1.0);
    run(&place, "runs/a-later", &cid(0x7654_3210), 2, 1.0);
    run(&place, "runs/b", &cid(0x7654_3211), 3, 1.0);
    place.file("runs/notes.txt", "mine");
    let card = place.card();
    place.flashfit(&["probe", &card, "--output", "runs/probe.json"]).said(0, &[]);
    let added = survey(&place, &["add", "runs", "--json"]).document("flashfit.survey-added");
    let states: Vec<&Value> =
        added["results"].as_array().unwrap().iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["added"; 4]);
    assert_eq!((&added["cards"], &added["ignored_files"]), (&json!(3), &json!(1)), "{added:#}");
    let ended = survey(&place, &["add", "runs"]);
    ended.said(0, &[]);
    assert!(ended.stdout.contains("0 added, 4 there already"), "{}", ended.stdout);

    let all = cards(&place, &[]);
    let real: Vec<&Value> = all.iter().filter(|card| card["simulated"] == false).collect();
    assert_eq!((all.len(), real.len()), (3, 2), "{all:#?}");
    assert!(real.iter().any(|card| card["runs"] == 2) && real.iter().any(|card| card["runs"] == 1));
    for card in &real {
        assert_eq!((&card["product"], &card["manufacturer"]), (&json!("SL32G"), &json!("0x03")));
        assert_eq!((&card["manufactured"], &card["serial"]), (&json!("2018-11"), &Value::Null));
    }
    let simulated = cards(&place, &["--where", "simulated=true", "--where", "probes>0"]);
    assert_eq!((simulated.len(), &simulated[0]["kind"]), (1, &json!("simulated")));
    let text = survey(&place, &["list"]).stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let csv = survey(&place, &["list", "--csv", "--where", "product~sl32"]).stdout;
    assert!(csv.starts_with("card,kind,manufacturer,") && csv.lines().count() == 3, "{csv}");
}

#[test]
fn a_fake_with_a_copied_identity_is_another_card() {
    let place = Place::new();
    run(&place, "a", &cid(0x7654_3210), 1, 1.0);
    run(&place, "fake", &cid(0x7654_3210), 2, 0.5);
    let header = std::fs::read_to_string(place.path("fake/run.json")).unwrap();
    place.file(
        "fake/run.json",
        &header.replace(&(32u64 << 30).to_string(), &(8u64 << 30).to_string()),
    );
    survey(&place, &["add", "a", "fake"]).said(0, &[]);
    assert_eq!(cards(&place, &[]).len(), 2);
}

#[test]
fn what_cannot_be_added_is_named_and_the_rest_is_added() {
    let place = Place::new();
    run(&place, "a", &cid(0x7654_3210), 1, 1.0);
    std::fs::create_dir(place.path("empty")).unwrap();
    place.file("plan.json", r#"{"schema": "flashfit.plan", "schema_version": 1}"#);
    place.file("text.txt", "no document");
    survey(&place, &["add", "empty"]).said(2, &["not a run", "hint: add run directories"]);
    survey(&place, &["list"]).said(2, &["no survey at", "hint: make one: flashfit survey add"]);
    let ended = survey(&place, &["add", "plan.json", "text.txt", "a"]);
    ended.said(2, &["`flashfit.plan`", "not a JSON document"]);
    assert!(ended.stdout.contains("1 added, 2 refused"), "{}", ended.stdout);
    assert_eq!(cards(&place, &[]).len(), 1);
    survey(&place, &["list", "--where", "prodct=x"]).said(2, &["unknown column `prodct`"]);
    survey(&place, &["list", "--db", "text.txt"]).said(2, &["not a SQLite database"]);
    survey(&place, &["add", "a", "--db", "text.txt"]).said(2, &["not a SQLite database"]);
    assert_eq!(std::fs::read_to_string(place.path("text.txt")).unwrap(), "no document");
}
