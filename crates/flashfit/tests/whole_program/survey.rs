//! `flashfit survey` on written runs and probes of cards, without a device or root.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{Ended, Place};
use crate::terminal::fits;

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
    fits(place.command(&["survey", "list"]));
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
    let hint = "hint: bundled=true or bundled=false";
    survey(&place, &["list", "--where", "bundled=no"]).said(2, &["expected true or false", hint]);
    let csv = survey(&place, &["list", "--csv", "--where", "product=x"]).stdout;
    assert!(csv.starts_with("card,kind,manufacturer,") && csv.lines().count() == 1, "{csv}");
    survey(&place, &["list", "--db", "text.txt"]).said(2, &["not a SQLite database"]);
    survey(&place, &["add", "a", "--db", "text.txt"]).said(2, &["not a SQLite database"]);
    assert_eq!(std::fs::read_to_string(place.path("text.txt")).unwrap(), "no document");
}

#[test]
fn a_slow_card_is_flagged_and_products_are_compared() {
    let place = Place::new();
    let names: Vec<String> = (0..6u32).map(|number| format!("runs/{number}")).collect();
    for (number, name) in (0u32..).zip(&names) {
        let factor = if number == 5 { 0.5 } else { 1.0 };
        run(&place, name, &cid(0x7654_3210 + number), u64::from(number), factor);
    }
    survey(&place, &["add", "runs"]).said(0, &[]);
    let all = cards(&place, &[]);
    let odd: Vec<&Value> = all.iter().filter(|card| card["doubts"] != "").collect();
    assert_eq!(odd.len(), 1, "{all:#?}");
    assert!(odd[0]["doubts"].as_str().unwrap().starts_with("rates 50 % lower"), "{odd:#?}");
    let key = odd[0]["card"].as_str().unwrap();
    let shown = survey(&place, &["show", key, "--json"]).document("flashfit.survey-card");
    let results = shown["results"].as_array().unwrap();
    assert_eq!((results.len(), &results[0]["count"]), (4, &json!(3)), "{shown:#}");
    assert!(results.iter().all(|row| row["low"].is_f64() && row["simulated"] == false));
    let text = survey(&place, &["show", key]).stdout;
    assert!(text.contains("0x03 SD") && text.contains("! rates 50 % lower"), "{text}");
    survey(&place, &["show", "ffffffffffff"]).said(2, &["no card", "hint: flashfit survey list"]);

    let only = ["--where", "workload=database", "--where", "card!=", "--where"];
    let compare =
        |more: &str| survey(&place, &[&["compare"], &only[..], &[more, "--json"]].concat());
    let rows = compare("filesystem=ext4").document("flashfit.survey-products")["results"].clone();
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]["cards"]), (1, &json!(6)), "{rows:#}");
    assert!(rows[0]["low"].as_f64() < rows[0]["value"].as_f64());
    assert_eq!((&rows[0]["metric"], &rows[0]["ratio"]), (&json!("rate"), &Value::Null));
    let csv = survey(&place, &["compare", "--csv"]).stdout;
    assert_eq!(csv.lines().count(), 3, "{csv}");
    let text = survey(&place, &["compare"]).stdout;
    fits(place.command(&["survey", "compare"]));
    assert!(text.contains("Measured with 6.12.0, aarch64") && text.contains("SL32G"), "{text}");
}

#[test]
fn a_survey_is_merged_once() {
    let place = Place::new();
    run(&place, "a", &cid(0x7654_3210), 1, 1.0);
    run(&place, "b", &cid(0x7654_3211), 2, 1.0);
    survey(&place, &["add", "a", "--db", "one.db"]).said(0, &[]);
    survey(&place, &["add", "a", "b", "--with-serial", "--db", "other.db"]).said(0, &[]);
    for added in [1, 0] {
        let merge = ["merge", "other.db", "--db", "one.db", "--json"];
        let merged = survey(&place, &merge).document("flashfit.survey-merged");
        assert_eq!((&merged["added"], &merged["cards"]), (&json!(added), &json!(2)));
    }
    assert!(cards(&place, &["--db", "one.db"]).iter().all(|card| card["serial"] == Value::Null));
    place.file("text", "no database at all, but long enough for a header of one");
    survey(&place, &["merge", "text", "--db", "one.db"]).said(2, &["not a SQLite database"]);
    survey(&place, &["merge", "nothing.db", "--db", "one.db"]).said(2, &["no survey at"]);
}

#[test]
fn inspect_and_probe_look_into_a_survey() {
    let place = Place::new();
    run(&place, "a", &cid(0x7654_3210), 1, 1.0);
    let image = place.image("disk.img", 64).display().to_string();
    place.flashfit(&["inspect", &image, "--survey", "no.db"]).said(2, &["no survey at"]);
    // Without a survey there is nothing to say.
    let ended = place.flashfit(&["inspect", &image]);
    ended.said(0, &[]);
    assert!(!ended.stderr.contains("survey"), "{}", ended.stderr);
    survey(&place, &["add", "a", "--db", "s.db"]).said(0, &[]);
    for command in ["inspect", "probe"] {
        let ended = place.flashfit(&[command, &image, "--survey", "s.db", "--json"]);
        ended.said(0, &["survey: it has no such card"]);
        assert!(serde_json::from_str::<Value>(&ended.stdout).is_ok(), "{}", ended.stdout);
    }
}

#[test]
fn a_survey_of_the_environment_that_is_not_there_or_damaged_stops_nothing() {
    let place = Place::new();
    let image = place.image("disk.img", 64).display().to_string();
    place.file("text.db", "a text that is long enough to be no header of SQLite");
    for (file, said) in [("none.db", ""), ("", ""), ("text.db", "not a SQLite database")] {
        let mut command = place.command(&["inspect", &image]);
        let ended = Ended::of(command.env("FLASHFIT_SURVEY", file).spawn().unwrap());
        ended.said(0, &[said]);
        assert_eq!(ended.stderr.contains("warning"), !said.is_empty(), "{}", ended.stderr);
    }
    // What is asked for is looked at before the probe.
    let ended = place.flashfit(&["probe", &image, "--survey", "none.db", "--output", "p.json"]);
    ended.said(2, &["no survey at"]);
    assert!(ended.stdout.is_empty() && !place.path("p.json").exists(), "{ended:#?}");
}

/// Two programs add other runs and the same runs at once.
#[test]
fn two_writers_lose_nothing() {
    let place = Place::new();
    for number in 0..40u32 {
        run(&place, &format!("runs/{number}"), &cid(0x7654_3210 + number), number.into(), 1.0);
    }
    let start = || place.command(&["survey", "add", "runs", "--json"]).spawn().unwrap();
    let both = [start(), start()].map(Ended::of);
    let states: Vec<String> = both
        .iter()
        .flat_map(|ended| {
            let document = ended.document("flashfit.survey-added");
            let rows = document["results"].as_array().unwrap().clone();
            rows.into_iter().map(|row| row["state"].as_str().unwrap().to_owned())
        })
        .collect();
    let count = |state: &str| states.iter().filter(|found| *found == state).count();
    assert_eq!((count("added"), count("present")), (40, 40));
    assert_eq!(cards(&place, &[]).len(), 40);
}

/// A program that is killed leaves whole sources only, and the next one completes the work.
#[test]
fn a_kill_leaves_whole_runs_and_adding_again_completes_them() {
    let place = Place::new();
    for number in 0..60u32 {
        run(&place, &format!("runs/{number:02}"), &cid(0x7654_3210 + number), number.into(), 1.0);
    }
    survey(&place, &["add", "runs/00"]).said(0, &[]);
    let mut partial = 0;
    for wait_ms in [0u64, 2, 5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100] {
        let mut child = place.command(&["survey", "add", "runs"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let all = cards(&place, &[]);
        partial += usize::from(all.len() > 1 && all.len() < 60);
        for card in &all {
            let key = card["card"].as_str().unwrap();
            let shown = survey(&place, &["show", key, "--json"]).document("flashfit.survey-card");
            let figures = (shown["sources"][0]["figures"].clone(), shown["results"].as_array());
            assert_eq!((figures.0, figures.1.unwrap().len()), (json!(4), 4), "{shown:#}");
        }
        if all.len() == 60 {
            break;
        }
        let check = "PRAGMA integrity_check; PRAGMA foreign_key_check;";
        let path = place.path("data/flashfit/survey.db");
        let checked = std::process::Command::new("sqlite3").arg(&path).arg(check).output();
        if let Ok(checked) = checked {
            assert_eq!(String::from_utf8_lossy(&checked.stdout), "ok\n");
        }
    }
    eprintln!("kills between the first and the last run: {partial}");
    survey(&place, &["add", "runs"]).said(0, &[]);
    assert_eq!(cards(&place, &[]).len(), 60);
}

#[test]
fn a_survey_that_cannot_be_written_is_named() {
    let place = Place::new();
    run(&place, "a", &cid(0x7654_3210), 1, 1.0);
    place.file("file", "");
    let ended = survey(&place, &["add", "a", "--db", "file/survey.db"]);
    ended.said(4, &["cannot open", "hint: name another file"]);
}

/// Adds where there is no room for a survey. Then adds until a small file system is full, makes
/// room, and adds again; then reads it read-only.
const SCRIPT: &str = r#"
mkdir tiny && mount -t tmpfs -o size=32k tmpfs tiny || exit 99
"$FLASHFIT" survey add runs/000 --db tiny/survey.db 2> none
echo "none $?"
mkdir disk && mount -t tmpfs -o size=300k tmpfs disk || exit 99
export FLASHFIT_SURVEY=disk/survey.db
"$FLASHFIT" survey add runs 2> full
echo "full $?"
"$FLASHFIT" survey list > before 2>&1
echo "list $?"
mount -o remount,size=16m disk
"$FLASHFIT" survey add runs > added 2>&1
echo "added $?"
mount -o remount,ro disk
"$FLASHFIT" survey list --json > after
echo "read $?"
"$FLASHFIT" survey add runs 2> read-only
echo "write $?"
"#;

#[test]
fn a_full_disk_and_a_read_only_one_are_reported() {
    if crate::fixture::skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    for number in 0..400u32 {
        run(&place, &format!("runs/{number:03}"), &cid(0x7654_3210 + number), number.into(), 1.0);
    }
    let script = format!("cd {} && {SCRIPT}", place.folder().display());
    let output = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .env("FLASHFIT", crate::fixture::FLASHFIT)
        .output()
        .unwrap();
    let text = |name: &str| std::fs::read_to_string(place.path(name)).unwrap_or_default();
    let codes = String::from_utf8_lossy(&output.stdout).into_owned();
    let codes: Vec<&str> = codes.lines().filter(|line| line.split(' ').count() == 2).collect();
    let all = format!("{}{}{}{}", text("full"), text("before"), text("added"), text("read-only"));
    let none = text("none");
    assert!(none.contains("the disk is full") && none.contains("hint: make room"), "{none}");
    assert_eq!(codes, ["none 4", "full 4", "list 0", "added 0", "read 0", "write 4"], "{all}");
    assert!(text("full").contains("the disk is full") && text("full").contains("hint: make room"));
    let after: Value = serde_json::from_str(&text("after")).unwrap();
    assert_eq!(after["data"]["results"].as_array().unwrap().len(), 400);
}
