//! Constraints on latency and life, in replays and reports of runs written by hand.

use std::path::Path;

use serde_json::{Value, json};

use crate::fixture::Place;

const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tune/tests/runs");
const MS: u64 = 1_000_000;

/// A full-length trial of ext4 or another file system with this rate in kB/s and 99th percentile in
/// microseconds.
fn trial(setup: (&str, &[&str], &str), repeat: u64, rate: u64, p99_us: u64) -> Value {
    let (filesystem, options, scheduler) = setup;
    let latency = json!({ "p99_ns": p99_us * 1000, "max_ns": p99_us * 2000 });
    let write = json!({ "bytes_per_second": rate * 1000, "bytes": 1_000_000, "latency": latency });
    let setup = json!({ "filesystem": filesystem, "options": options, "scheduler": scheduler });
    json!({
        "version": 1,
        "key": {
            "purpose": "search",
            "setup": setup,
            "workload": "sync-files",
            "repeat": repeat,
        },
        "outcome": { "completed": { "points": [{ "stages": [{
            "name": "write",
            "kind": "throughput",
            "write": write,
        }]}]}},
        "written": { "trial_bytes": 0, "workload_bytes": 1_000_000 },
    })
}

const BASE: (&str, &[&str], &str) = ("ext4", &[], "none");
const NOATIME: (&str, &[&str], &str) = ("ext4", &["noatime"], "none");

/// Trials of a setup with these 99th percentiles.
fn trials(setup: (&str, &[&str], &str), rate: u64, p99_us: &[u64]) -> Vec<Value> {
    (0..).zip(p99_us).map(|(repeat, p99_us)| trial(setup, repeat, rate + repeat, *p99_us)).collect()
}

fn write(place: &Place, spec: &Value, lines: &[Value]) {
    let header = json!({ "schema": "flashfit.run", "schema_version": 1, "spec": spec });
    write_with_header(place, &header, lines);
}

fn write_with_header(place: &Place, header: &Value, lines: &[Value]) {
    std::fs::create_dir_all(place.path("run")).unwrap();
    place.file("run/run.json", &header.to_string());
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    place.file("run/trials.jsonl", &text);
}

fn replayed(place: &Place, more: &[&str]) -> Value {
    place
        .flashfit(&[&["tune", "--replay", "run", "--json"], more].concat())
        .document("flashfit.replay")
}

/// What it prints, on one line.
fn text(place: &Place, args: &[&str]) -> String {
    let ended = place.flashfit(args);
    ended.said(0, &[]);
    ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn one_slow_trial_does_not_exclude_a_setup() {
    let place = Place::new();
    let lines =
        [trials(BASE, 8000, &[3000, 3000, 3000]), trials(NOATIME, 8900, &[8500, 3000, 3000])];
    write(&place, &json!({ "filesystems": ["ext4"], "p99_write_max_ns": 5 * MS }), &lines.concat());
    for seed in ["1", "2", "3", "4", "5", "6"] {
        let found = replayed(&place, &["--seed", seed]);
        assert_eq!(found["beyond_demand"], json!([]), "{seed}: {found:#}");
        assert_eq!(found["verdict"], "Cannot tell", "{seed}: {found:#}");
    }
    let said = text(&place, &["tune", "--replay", "run"]);
    let expected = "keep default ext4 for now: ext4 with noatime was best in the search, but is not \
        known to meet the constraints";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn repeated_draws_do_not_show_that_a_constraint_is_met() {
    let place = Place::new();
    let lines =
        [trials(BASE, 8000, &[20_000, 21_000]), trials(NOATIME, 9000, &[4500, 3200])].concat();
    write(&place, &json!({ "filesystems": ["ext4"], "p99_write_max_ns": 5 * MS }), &lines);
    let found = replayed(&place, &[]);
    assert!(found["trials"]["drawn_again"].as_u64().unwrap() > 0, "{found:#}");
    assert_eq!(found["constraint_shown"], false, "{found:#}");
    assert_eq!(found["nearest_to_constraint"]["trials"], 2, "{found:#}");
    let said = text(&place, &["tune", "--replay", "run"]);
    let expected = "no setup was shown to meet 5.000 ms; the nearest is ext4 noatime none: 3.795 ms \
        under sync-files (2 trials)";
    assert!(said.contains(expected), "{said}");
}

/// After one trial of another file system, where the default scheduler is not one of those to
/// choose from.
#[test]
fn nothing_is_recommended_after_too_few_trials_without_the_baseline() {
    let place = Place::new();
    let lines = [
        [(0, 6000), (1, 8000), (2, 10_000)]
            .map(|(repeat, rate)| trial(("ext4", &[], "mq-deadline"), repeat, rate, 3000))
            .to_vec(),
        trials(("btrfs", &[], "none"), 9000, &[3000]),
        trials(("ext4", &[], "none"), 8900, &[3000]),
        trials(("xfs", &[], "none"), 8800, &[3000]),
        trials(("f2fs", &[], "none"), 8900, &[3000]),
    ];
    let mut header = json!({ "schema": "flashfit.run", "schema_version": 1 });
    header["spec"] = json!({ "filesystems": ["ext4", "btrfs", "xfs", "f2fs"] });
    header["facts"] = json!({ "default_scheduler": "mq-deadline" });
    write_with_header(&place, &header, &lines.concat());
    let args = ["--scheduler", "none", "--trials", "7"];
    let found = replayed(&place, &args);
    assert!(found["verdict"].is_null() && found["recommended"].is_null(), "{found:#}");
    let said = text(&place, &[&["tune", "--replay", "run"], &args[..]].concat());
    let expected = "No result: nothing to recommend yet: too little was measured, and the baseline \
        ext4 base mq-deadline is not among the setups to choose from";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn the_constraint_that_is_not_met_is_named() {
    let place = Place::new();
    let lines = [trials(BASE, 8000, &[3000; 6]), trials(NOATIME, 8900, &[3000; 6])].concat();
    let said = |lines: &[Value], spec: &Value, years: &str| {
        write(&place, spec, lines);
        let usage = ["--usage", "raspberry-pi", "--min-years", years, "--strategy", "exhaustive"];
        text(&place, &[&["tune", "--replay", "run"], &usage[..]].concat())
    };
    let slow = json!({ "target": "sim:usd-a1-pagemap", "p99_write_max_ns": 1000 });
    let fast = json!({ "target": "sim:usd-a1-pagemap", "p99_write_max_ns": 5000 * MS });
    let (life, latency) =
        ("no setup was shown to last 900 years; the nearest is", "no setup was shown to meet");
    let of_both = said(&lines, &slow, "900");
    assert!(of_both.contains(life) && of_both.contains(latency), "{of_both}");
    let of_life = said(&lines, &fast, "900");
    assert!(of_life.contains(life) && !of_life.contains(latency), "{of_life}");
    let of_latency = said(&lines, &slow, "0.01");
    assert!(!of_latency.contains("to last") && of_latency.contains(latency), "{of_latency}");
}

/// Where no setup can last as long as it must, the search ends before any full-length trial.
#[test]
fn a_latency_that_was_not_measured_is_not_the_reason() {
    let place = Place::new();
    let setups = ["ext4", "f2fs"].map(|name| {
        let years = [1, 2, 3];
        json!({ "filesystem": name, "options": [], "years_thousandths": years, "limit": "wear" })
    });
    let life = json!({
        "usage": "raspberry-pi", "gib_a_day_thousandths": 4000, "device": "a card",
        "rated_cycles": 1500, "given": { "min_years_thousandths": 1000 },
        "setups": setups,
    });
    run_of_5_ms(&place, &life, &[], &trials(BASE, 8000, &[3000, 3000]));
    place.flashfit(&["report", "run", "-o", "report.html"]).said(0, &[]);
    let page = std::fs::read_to_string(place.path("report.html")).unwrap();
    assert!(page.contains("no setup was shown to last 1 year; the nearest is ext4 base none"));
    assert!(!page.contains("no setup was shown to meet"));
}

/// A run with a constraint of 5 ms, this usage model, and these full-length and short trials.
fn run_of_5_ms(place: &Place, life: &Value, full: &[Value], short: &[Value]) {
    let header = std::fs::read(Path::new(RUNS).join("v1-sim-adaptive/run.json")).unwrap();
    let mut header: Value = serde_json::from_slice(&header).unwrap();
    header["spec"]["p99_write_max_ns"] = json!(5 * MS);
    header["spec"]["workloads"] = json!(["sync-files"]);
    header["spec"]["life"] = life.clone();
    let recorded = std::fs::read_to_string(Path::new(RUNS).join("v1-sim-adaptive/trials.jsonl"));
    let recorded: Value = serde_json::from_str(recorded.unwrap().lines().next().unwrap()).unwrap();
    let lines = (1..).zip(full.iter().chain(short)).map(|(number, of)| {
        let mut line = recorded.clone();
        line.as_object_mut().unwrap().remove("batch");
        line["number"] = json!(number);
        line["key"] = of["key"].clone();
        if number > full.len() {
            line["key"]["length"] = json!("short");
        }
        let figures = &of["outcome"]["completed"]["points"][0]["stages"][0]["write"];
        let points = line["outcome"]["completed"]["points"].as_array_mut().unwrap();
        for stage in points.iter_mut().flat_map(|at| at["stages"].as_array_mut().unwrap()) {
            let write = stage["write"].as_object_mut().unwrap();
            write["bytes_per_second"] = figures["bytes_per_second"].clone();
            write["latency"]["p99_ns"] = figures["latency"]["p99_ns"].clone();
            write.remove("sync");
        }
        line
    });
    write_with_header(place, &header, &lines.collect::<Vec<_>>());
}

#[test]
fn a_violation_is_shown_with_the_same_figures_everywhere() {
    let place = Place::new();
    let full = trials(BASE, 8000, &[10_000, 21_000, 45_000]);
    let discard = ("ext4", &["discard"][..], "none");
    let short = [
        trials(BASE, 8000, &[6000, 5000]),
        trials(NOATIME, 8000, &[43_000]),
        trials(discard, 8000, &[43_000, 40_000, 44_000]),
    ];
    run_of_5_ms(&place, &Value::Null, &full, &short.concat());
    let found = place.flashfit(&["analyze", "run", "--json"]).document("flashfit.rankings");
    let [base] = &found["setups"].as_array().unwrap()[..] else { panic!("{found:#}") };
    assert_eq!((&base["setup"], &base["is_baseline"]), (&json!("ext4 base none"), &json!(true)));
    place.flashfit(&["report", "run", "-o", "report.html"]).said(0, &[]);
    let page = std::fs::read_to_string(place.path("report.html")).unwrap();
    let nearest = "no setup was shown to meet 5.000 ms; the nearest is ext4 base none: 21.14 ms \
        under sync-files (3 trials)";
    assert!(page.contains(nearest), "{page}");
    let (_, violations) = page.split_once("Violates the constraint").unwrap();
    let (violations, _) = violations.split_once("</table>").unwrap();
    let rows: Vec<String> = violations.split("<tr").skip(2).map(cells).collect();
    let expected = [
        "ext4 base none|21.14 ms|+322.8 %|3|sync-files|",
        "ext4 discard none|42.30 ms|+746.0 %|3|sync-files|short trials",
    ];
    assert_eq!(rows, expected);
}

/// The text of the cells of a row.
fn cells(row: &str) -> String {
    let cells = row.split("<t").skip(1).map(|cell| {
        let text = cell.split_once('>').map_or("", |(_, text)| text);
        text.split('<').next().unwrap_or_default()
    });
    cells.collect::<Vec<_>>().join("|")
}
