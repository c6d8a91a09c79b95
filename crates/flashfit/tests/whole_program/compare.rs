//! `flashfit compare` on recorded and handwritten runs, without a device or root.

use std::path::Path;

use rustix::fs::FlockOperation;
use serde_json::{Value, json};

use crate::fixture::{Ended, Place};

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tune/tests/runs/");

/// A run by hand: three setups under two workloads, `repeats` rounds, all rates times `factor`.
fn run(place: &Place, name: &str, seed: u64, repeats: u64, factor: f64, spec: &Value) {
    std::fs::create_dir_all(place.path(name)).unwrap();
    let header = json!({
        "schema": "flashfit.run", "schema_version": 1, "tool_version": "0.1.0",
        "spec": spec,
        "facts": { "kernel": "6.1.0", "medium": { "identity": { "model": "CARD" } } },
    });
    place.file(&format!("{name}/run.json"), &header.to_string());
    let mut random = seed;
    let mut text = String::new();
    for repeat in 0..repeats {
        for (filesystem, options) in
            [("ext4", vec![]), ("ext4", vec!["noatime"]), ("btrfs", vec![])]
        {
            for (workload, base) in [("database", 2e6), ("sync-files", 8e6)] {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                let noise = (random >> 33) as f64 / f64::from(1u32 << 31) * 0.04 - 0.02;
                let rate = (base * factor * (1.0 + noise)) as u64;
                let line = json!({
                    "version": 1,
                    "key": {
                        "purpose": "search", "workload": workload, "repeat": repeat,
                        "setup": {
                            "filesystem": filesystem, "options": options, "scheduler": "none"
                        },
                    },
                    "outcome": { "completed": { "points": [{ "stages": [{
                        "name": "write", "kind": "throughput",
                        "write": { "bytes_per_second": rate },
                    }]}]}},
                });
                text += &format!("{line}\n");
            }
        }
    }
    place.file(&format!("{name}/trials.jsonl"), &text);
}

fn spec(data_size: u64) -> Value {
    json!({ "data_size": data_size, "profile": "quick" })
}

fn compare(place: &Place, more: &[&str]) -> Ended {
    place.flashfit(&[&["compare"], more].concat())
}

fn document(place: &Place, more: &[&str]) -> Value {
    compare(place, &[more, &["--json"]].concat()).document("flashfit.comparison")
}

#[track_caller]
fn fits(place: &Place, more: &[&str]) {
    crate::terminal::fits(place.command(&[&["compare"], more].concat()));
}

#[test]
fn the_same_run_twice_has_no_difference() {
    let place = Place::new();
    run(&place, "a", 1, 3, 1.0, &spec(4 << 20));
    let adaptive = format!("{RECORDED}v1-sim-adaptive");
    for dir in ["a", &adaptive] {
        let ended = compare(&place, &[dir, dir, "--fail-if-slower", "0.01%"]);
        ended.said(0, &[]);
        fits(&place, &[dir, dir, "--fail-if-slower", "0.01%"]);
        assert!(ended.stdout.contains("B compared with A: no difference"), "{}", ended.stdout);
        assert!(ended.stdout.contains("same run"), "{}", ended.stdout);
        // Nothing limits the width of a pipe.
        assert!(ended.stdout.contains(&format!("A  {dir}  ")), "{}", ended.stdout);
        let found = document(&place, &[dir, dir]);
        let pair = &found["comparisons"][0];
        assert_eq!(pair["overall"]["verdict"], "no-difference", "{found:#}");
        assert_eq!(pair["overall"]["change_percent_hundredths"], 0, "{found:#}");
        // Nothing contradicts the definition of no difference.
        assert_eq!(pair["overall"]["equivalent"], true, "{found:#}");
        assert_eq!(pair["overall"]["low_percent_hundredths"], Value::Null, "{found:#}");
        assert!(!ended.stdout.contains("(95 % interval"), "{}", ended.stdout);
        assert_eq!((&pair["same_run"], &pair["comparable"]), (&json!(true), &json!(true)));
    }
}

#[test]
fn a_run_and_its_continuation_are_not_independent() {
    let place = Place::new();
    run(&place, "a", 1, 2, 1.0, &spec(4 << 20));
    run(&place, "b", 1, 3, 1.0, &spec(4 << 20));
    let ended = compare(&place, &["a", "b"]);
    assert!(ended.stdout.contains("12 trials in common"), "{}", ended.stdout);
    let pair = &document(&place, &["a", "b"])["comparisons"][0];
    assert_eq!((&pair["same_run"], &pair["shared_trials"]), (&json!(false), &json!(12)));
    run(&place, "other", 2, 3, 1.0, &spec(4 << 20));
    let ended = compare(&place, &["a", "other"]);
    assert!(!ended.stdout.contains("in common"), "{}", ended.stdout);
    assert!(ended.stdout.contains("of one on a busy machine by 10 %"), "{}", ended.stdout);
}

#[test]
fn runs_are_compared_by_what_all_were_ranked_by() {
    let place = Place::new();
    let ranked = |by: &str| {
        let mut spec = spec(4 << 20);
        spec["by"] = by.into();
        spec
    };
    run(&place, "a", 1, 3, 1.0, &ranked("wear"));
    run(&place, "b", 2, 3, 1.0, &ranked("wear"));
    assert_eq!(document(&place, &["a", "b"])["by"], "wear");
    assert_eq!(document(&place, &["a", "b", "--by", "latency"])["by"], "latency");
    run(&place, "b", 2, 3, 1.0, &ranked("latency"));
    assert_eq!(document(&place, &["a", "b"])["by"], "throughput");
}

#[test]
fn a_run_that_is_20_percent_slower_is_found() {
    let place = Place::new();
    run(&place, "a", 1, 3, 1.0, &spec(4 << 20));
    run(&place, "b", 2, 3, 0.8, &spec(4 << 20));
    let found = document(&place, &["a", "b", "--fail-if-slower", "25%"]);
    let overall = &found["comparisons"][0]["overall"];
    assert_eq!(overall["verdict"], "worse", "{found:#}");
    let bound = |name: &str| overall[name].as_i64().unwrap();
    let [low, change, high] =
        ["low", "change", "high"].map(|name| bound(&format!("{name}_percent_hundredths")));
    assert!(low < -2000 && -2100 < change && change < -1900 && -2000 < high, "{overall:#}");
    assert_eq!((&overall["trials"], &overall["setups"]), (&json!([18, 18]), &json!(3)));
    // Over all, 2 workloads, 3 setups and 6 cells.
    assert_eq!(found["slowdowns"]["tests"], 12, "{found:#}");
    assert_eq!(found["slowdowns"]["sure"].as_array().unwrap().len(), 0, "not by 25 %");

    let failed = compare(&place, &["a", "b", "--fail-if-slower", "5%"]);
    failed.said(1, &["slower by more than 5%", "b"]);
    fits(&place, &["a", "b", "--fail-if-slower", "5%"]);
    assert!(failed.stdout.contains("slower over all workloads"), "{}", failed.stdout);
    // The verdict of a script is the exit code, and the document is whole.
    let json = compare(&place, &["a", "b", "--fail-if-slower", "5%", "--json"]);
    json.said(1, &["slower by more than 5%"]);
    let parsed: Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(!parsed["data"]["slowdowns"]["sure"].as_array().unwrap().is_empty());
    // The other way around it is faster.
    compare(&place, &["b", "a", "--fail-if-slower", "5%"]).said(0, &[]);
}

#[test]
fn what_two_sessions_differ_by_is_not_a_slowdown() {
    let place = Place::new();
    run(&place, "a", 1, 3, 1.0, &spec(4 << 20));
    run(&place, "b", 2, 3, 0.93, &spec(4 << 20));
    let strict = |more: &[&str]| compare(&place, &[&["a", "b"], more].concat());
    let same = strict(&["--fail-if-slower", "2%"]);
    same.said(0, &[]);
    let text = same.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("sessions without any change are taken to differ by 3%"), "{text}");
    let exact = ["--fail-if-slower", "2%", "--session-spread", "0.5%"];
    strict(&exact).said(1, &["slower by more than 2%"]);
    let found = document(&place, &[&["a", "b"], &exact[2..]].concat());
    assert_eq!(found["slowdowns"]["session_spread_percent_hundredths"], 50, "{found:#}");
}

#[test]
fn a_recorded_run_that_was_slowed_down_is_found() {
    let place = Place::new();
    let from = Path::new(RECORDED).join("v1-sim-adaptive");
    let read = |file: &str| std::fs::read_to_string(from.join(file)).unwrap();
    std::fs::create_dir_all(place.path("slow")).unwrap();
    place.file("slow/run.json", &read("run.json"));
    fn slower(value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match value.as_u64() {
                        Some(rate) if key == "bytes_per_second" => *value = (rate * 8 / 10).into(),
                        _ => slower(value),
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(slower),
            _ => {}
        }
    }
    let lines = read("trials.jsonl").lines().fold(String::new(), |text, line| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        slower(&mut value);
        format!("{text}{value}\n")
    });
    place.file("slow/trials.jsonl", &lines);
    let from = from.display().to_string();
    let ended = compare(&place, &[&from, "slow", "--fail-if-slower", "5%"]);
    ended.said(1, &["slower by more than 5%"]);
    assert!(!ended.stdout.contains("same run"), "{}", ended.stdout);
    fits(&place, &[&from, "slow", "--fail-if-slower", "5%"]);
}

#[test]
fn what_is_not_comparable_is_marked_and_not_tested() {
    let place = Place::new();
    run(&place, "a", 1, 3, 1.0, &spec(4 << 20));
    run(&place, "other", 2, 3, 0.5, &spec(8 << 20));
    let ended = compare(&place, &["a", "other"]);
    ended.said(0, &[]);
    fits(&place, &["a", "other"]);
    assert!(ended.stdout.contains("Not comparable") && ended.stdout.contains("data size"));
    assert!(ended.stdout.contains("4 MiB") && ended.stdout.contains("8 MiB"), "{}", ended.stdout);
    let why = ["cannot be told: other (not comparable with a, other data size)"];
    compare(&place, &["a", "other", "--fail-if-slower", "5%"]).said(2, &why);
    let found = document(&place, &["a", "other"]);
    assert_eq!(found["comparisons"][0]["comparable"], false, "{found:#}");
    assert_eq!(found["comparisons"][0]["differing"][0]["what"], "data size");

    // Another device or version is a difference that users ask for.
    run(&place, "b", 2, 3, 1.0, &spec(4 << 20));
    let header = std::fs::read_to_string(place.path("b/run.json")).unwrap();
    place.file("b/run.json", &header.replace("\"CARD\"", "\"OTHER\"").replace("0.1.0", "0.0.9"));
    let found = document(&place, &["a", "b"]);
    let pair = &found["comparisons"][0];
    assert_eq!(pair["comparable"], true, "{found:#}");
    let differing = pair["differing"].as_array().unwrap();
    let what: Vec<&str> = differing.iter().map(|found| found["what"].as_str().unwrap()).collect();
    assert_eq!(what, ["device", "version of flashfit"]);
    compare(&place, &["a", "b", "--fail-if-slower", "5%"]).said(0, &[]);
}

#[test]
fn a_run_that_cannot_be_tested_is_no_success_next_to_one_that_can() {
    let place = Place::new();
    run(&place, "a", 1, 3, 1.0, &spec(4 << 20));
    run(&place, "same", 2, 3, 1.0, &spec(4 << 20));
    run(&place, "other", 3, 3, 0.05, &spec(8 << 20));
    run(&place, "slow", 4, 3, 0.5, &spec(4 << 20));
    let limit = ["--fail-if-slower", "5%"];
    let runs = |runs: &[&'static str]| [runs, &limit].concat();
    let mixed = compare(&place, &runs(&["a", "same", "other"]));
    mixed.said(2, &["cannot be told: other (not comparable with a, other data size)"]);
    let text = mixed.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Not tested for a slowdown: other (not comparable"), "{text}");
    let slowdowns = &document(&place, &["a", "same", "other"])["slowdowns"];
    assert_eq!(slowdowns["untested"], json!([{ "run": 2, "reason": "other-measurement" }]));
    // A sure slowdown is the worse news.
    compare(&place, &runs(&["a", "other", "slow"])).said(1, &["slower by more than 5%: slow"]);
    compare(&place, &runs(&["a", "same"])).said(0, &[]);
}

#[test]
fn a_wide_interval_is_no_proof_of_equality() {
    let place = Place::new();
    run(&place, "a", 1, 3, 1.0, &spec(4 << 20));
    run(&place, "b", 2, 3, 1.0, &spec(4 << 20));
    let overall = |found: &Value| found["comparisons"][0]["overall"].clone();
    let equal = overall(&document(&place, &["a", "b"]));
    assert_eq!((&equal["verdict"], &equal["equivalent"]), (&json!("no-difference"), &json!(true)));
    assert!(compare(&place, &["a", "b"]).stdout.contains("with A: no difference over all"));

    // Of the three trials of a cell, one is slower, and one faster.
    let text = std::fs::read_to_string(place.path("b/trials.jsonl")).unwrap();
    let noisy = text.lines().enumerate().fold(String::new(), |text, (index, line)| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let write = &mut line["outcome"]["completed"]["points"][0]["stages"][0]["write"];
        let rate = write["bytes_per_second"].as_u64().unwrap();
        let cells = 6;
        let rate = [rate, rate / 3, rate * 3][(index % cells + 2 * (index / cells)) % 3];
        write["bytes_per_second"] = json!(rate);
        format!("{text}{line}\n")
    });
    place.file("b/trials.jsonl", &noisy);
    let unknown = overall(&document(&place, &["a", "b"]));
    assert_eq!(
        (&unknown["verdict"], &unknown["equivalent"]),
        (&json!("no-difference"), &json!(false))
    );
    let text = compare(&place, &["a", "b"]).stdout;
    assert!(text.contains("with A: cannot tell over all"), "{text}");
}

#[test]
fn a_part_of_any_number_of_runs_is_compared() {
    let place = Place::new();
    for (name, seed, factor) in [("a", 1, 1.0), ("b", 2, 0.8), ("c", 3, 1.3)] {
        run(&place, name, seed, 3, factor, &spec(4 << 20));
    }
    let part = ["--setup", "ext4:noatime", "--workload", "database", "--fs", "ext4"];
    let found = document(&place, &[&["a", "b", "c"][..], &part].concat());
    let pairs = found["comparisons"].as_array().unwrap();
    assert_eq!(pairs.len(), 2);
    for (pair, verdict) in pairs.iter().zip(["worse", "better"]) {
        assert_eq!(pair["overall"]["verdict"], verdict, "{pair:#}");
        assert_eq!(pair["workloads"].as_array().unwrap().len(), 1, "{pair:#}");
        assert_eq!(pair["setups"][0]["label"], "ext4 noatime none", "{pair:#}");
    }
    for (flag, name) in [("--setup", "ext4:no"), ("--workload", "x"), ("--fs", "xfs")] {
        compare(&place, &["a", "b", flag, name]).said(2, &[name, "recorded: "]);
    }
}

#[test]
fn the_page_has_all_runs_on_the_same_axes() {
    let place = Place::new();
    run(&place, "a", 1, 3, 1.0, &spec(4 << 20));
    run(&place, "b", 2, 3, 0.8, &spec(4 << 20));
    compare(&place, &["a", "b", "-o", "page.html"]).said(0, &["written: page.html"]);
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("</html>") && !page.contains("src=\"http"));
    let charts: Vec<&str> = page.split("<svg").skip(1).collect();
    assert!(charts.len() >= 3, "changes and two workloads: {}", charts.len());
    let has = |name: &str| charts[1].contains(&format!("{name} ext4 base none"));
    assert!(has("A") && has("B"), "{}", charts[1]);
    // A page of flashfit is replaced, another file is not.
    compare(&place, &["a", "b", "-o", "page.html"]).said(0, &[]);
    place.file("notes.html", "mine");
    compare(&place, &["a", "b", "-o", "notes.html"]).said(3, &["not changed"]);
}

#[test]
fn directories_without_results_are_named() {
    let place = Place::new();
    run(&place, "a", 1, 3, 1.0, &spec(4 << 20));
    run(&place, "empty", 2, 0, 1.0, &spec(4 << 20));
    std::fs::create_dir_all(place.path("folder")).unwrap();
    for dir in ["folder", "missing"] {
        for runs in [["a", dir], [dir, "a"]] {
            compare(&place, &runs).said(2, &[dir, "does not contain a run", "hint: "]);
        }
    }
    compare(&place, &["a"]).said(2, &[]);
    for runs in [["a", "empty"], ["empty", "a"], ["empty", "empty"]] {
        let ended = compare(&place, &runs);
        ended.said(0, &[]);
        fits(&place, &runs);
        assert!(ended.stdout.contains("empty has no completed trial"), "{}", ended.stdout);
        assert!(ended.stdout.contains("no trials"), "{}", ended.stdout);
        let strict = [&runs[..], &["--fail-if-slower", "5%"]].concat();
        compare(&place, &strict).said(2, &["cannot be told"]);
    }
}

#[test]
fn a_run_under_way_or_interrupted_is_marked() {
    let place = Place::new();
    run(&place, "a", 1, 3, 1.0, &spec(4 << 20));
    run(&place, "b", 2, 3, 1.0, &spec(4 << 20));
    let lock = std::fs::File::create(place.path("b/.flashfit-lock")).unwrap();
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
    let ended = compare(&place, &["a", "b"]);
    ended.said(0, &[]);
    assert!(ended.stdout.contains("still under way"), "{}", ended.stdout);
    assert_eq!(document(&place, &["a", "b"])["runs"][1]["under_way"], true);
    drop(lock);
    assert_eq!(document(&place, &["a", "b"])["runs"][1]["under_way"], false);
    // A directory is only read.
    assert!(!place.path("a/.flashfit-lock").exists());

    let text = std::fs::read_to_string(place.path("b/trials.jsonl")).unwrap();
    let batched = text.replace("{\"key\"", "{\"batch\":{\"number\":0,\"size\":20},\"key\"");
    assert_ne!(batched, text);
    place.file("b/trials.jsonl", &batched);
    let ended = compare(&place, &["a", "b"]);
    ended.said(0, &[]);
    assert!(ended.stdout.contains("ended after"), "{}", ended.stdout);
    let notes = &document(&place, &["a", "b"])["runs"][1]["notes"];
    assert_eq!(notes[0], "ended after 18 of the 20 trials of its last batch");

    let mut limited = spec(4 << 20);
    limited["confirm_rounds"] = 5.into();
    limited["limits"] = json!({ "trials": 30 });
    run(&place, "b", 2, 3, 1.0, &limited);
    let note = |name: &str| document(&place, &["a", name])["runs"][1]["notes"][0].clone();
    assert_eq!(note("b"), "ended before any confirming trial: 18 of 30 trials");
    limited["limits"] = json!({ "budget_ns": 60_000_000_000_u64 });
    run(&place, "b", 2, 3, 1.0, &limited);
    assert_eq!(note("b"), "ended before any confirming trial: 0 of 60 s");
}

#[test]
fn a_setup_that_was_measured_once_has_no_interval() {
    let place = Place::new();
    for (name, factor) in [("one", 1.0), ("two", 1.2)] {
        run(&place, name, 7, 1, factor, &spec(1 << 26));
        let file = place.path(&format!("{name}/trials.jsonl"));
        let text = std::fs::read_to_string(&file).unwrap();
        let is_default = |line: &&str| line.contains("ext4") && !line.contains("noatime");
        let lines: Vec<&str> = text.lines().filter(is_default).collect();
        std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    }
    let ended = compare(&place, &["one", "two"]);
    let said = "B compared with A: 1 common setup: +20.0 %, with too few repeats for an";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
}

#[test]
fn the_assumptions_of_years_are_named_and_compared() {
    let place = Place::new();
    let with_life = |device: &str| {
        let mut spec = spec(4 << 20);
        spec["life"] = json!({
            "usage": "kiosk", "gib_a_day_thousandths": 2000, "device": device,
            "rated_cycles": 1500,
            "setups": [{
                "filesystem": "ext4", "options": [], "years_thousandths": [1000, 2000, 3000],
                "limit": "wear",
            }],
        });
        spec
    };
    run(&place, "a", 1, 2, 1.0, &with_life("/dev/sda, modeled as usb-cheap (4 GiB)"));
    run(&place, "b", 2, 2, 1.0, &with_life("/dev/sdb, modeled as usb-cheap (4 GiB)"));
    run(&place, "c", 3, 2, 1.0, &with_life("/dev/sdc, modeled as usb-cheap (16 GiB)"));
    let shown = |dirs: &[&str]| {
        let text = compare(&place, dirs).stdout;
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let warning = "The years of these runs are not comparable";
    let alike = shown(&["a", "b"]);
    assert!(alike.contains("Years that setups last, simulated"), "{alike}");
    let line = "Years of B, simulated: usage model kiosk (2.00 GiB a day); /dev/sdb, modeled as \
                usb-cheap (4 GiB), rated for 1500 erase cycles.";
    assert!(alike.contains(line) && !alike.contains(warning), "{alike}");
    assert!(shown(&["a", "c"]).contains(warning));
    let found = document(&place, &["a", "c"]);
    assert_eq!(found["runs"][1]["life_model"]["usage"], "kiosk", "{found:#}");
    assert_eq!(found["comparisons"][0]["same_life_model"], false, "{found:#}");
}
