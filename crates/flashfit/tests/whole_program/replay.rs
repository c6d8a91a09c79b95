//! Replayed searches on recorded and handwritten runs, without a device or root.

use serde_json::{Value, json};

use crate::fixture::Place;

/// The rate of a setup under a workload in bytes per second: noatime adds 10 %, nojournal 20 % but
/// is unsafe, btrfs is slower.
fn rate(filesystem: &str, options: &[&str], workload: &str) -> u64 {
    let base = if workload == "database" { 2_000_000 } else { 8_000_000 };
    let base = if filesystem == "btrfs" { base / 10 * 8 } else { base };
    options.iter().fold(base, |rate, option| match *option {
        "noatime" => rate / 10 * 11,
        "nojournal" => rate / 10 * 12,
        "geometry" if workload == "database" => rate / 10 * 13,
        "geometry" => rate / 10 * 8,
        _ => rate,
    })
}

/// Every setup of a small grid.
fn setups() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut setups = Vec::new();
    for options in 0..8 {
        let names = ["noatime", "geometry", "nojournal"];
        let on = (0..3).filter(|bit| options >> bit & 1 == 1).map(|bit| names[bit]).collect();
        setups.push(("ext4", on));
    }
    setups.push(("btrfs", vec![]));
    setups.push(("btrfs", vec!["noatime"]));
    setups
}

/// A minimal record for a replay.
fn line(filesystem: &str, options: &[&str], workload: &str, repeat: u64) -> Value {
    // Noise of some tenths of a percent, different in each repeat.
    let jitter = 1000 + (repeat * 7 + options.len() as u64 * 3) % 5;
    let rate = rate(filesystem, options, workload) / 1000 * jitter;
    json!({
        "version": 1,
        "key": {
            "purpose": "search",
            "setup": { "filesystem": filesystem, "options": options, "scheduler": "none" },
            "workload": workload,
            "repeat": repeat,
        },
        "outcome": { "completed": { "points": [{ "stages": [{
            "name": "write",
            "kind": "throughput",
            "write": { "bytes_per_second": rate },
        }]}]}},
    })
}

fn grid() -> Vec<Value> {
    let mut lines = Vec::new();
    for (filesystem, options) in setups() {
        for workload in ["database", "sync-files"] {
            lines.extend((0..6).map(|repeat| line(filesystem, &options, workload, repeat)));
        }
    }
    lines
}

/// Writes a run with these lines to the directory `name`.
fn write(place: &Place, name: &str, header: &Value, lines: &[Value]) {
    std::fs::create_dir_all(place.path(name)).unwrap();
    place.file(&format!("{name}/run.json"), &header.to_string());
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    place.file(&format!("{name}/trials.jsonl"), &text);
}

fn least_header() -> Value {
    json!({ "schema": "flashfit.run", "schema_version": 1 })
}

fn replay(place: &Place, more: &[&str]) -> Value {
    let args = [&["tune", "--json", "--replay", "grid"], more].concat();
    place.flashfit(&args).document("flashfit.replay")
}

#[test]
fn every_strategy_finds_the_best_of_a_run_written_by_hand() {
    let place = Place::new();
    write(&place, "grid", &least_header(), &grid());
    for strategy in ["adaptive", "greedy", "exhaustive", "random"] {
        let more = ["--strategy", strategy, "--workload", "sync-files", "--trials", "60"];
        let found = replay(&place, &more);
        assert_eq!(found["choice"]["label"], "ext4 noatime none", "{strategy}: {found:#}");
        assert_eq!(found["choice"]["rank"], 1, "{strategy}");
        assert_eq!(found["choice"]["regret_percent_hundredths"], 0, "{strategy}");
        assert_eq!(found["best"]["label"], "ext4 noatime none");
        assert_eq!(found["untuned"]["label"], "ext4 base none");
        assert_eq!(found["strategy"], strategy);
        // Four of eight have no journal, which is not safe.
        assert_eq!((&found["setups"], &found["setups_recorded"]), (&json!(6), &json!(10)));
        assert!(found["trials"]["made"].as_u64().unwrap() <= 60, "{strategy}: {found:#}");
        assert_eq!(found["simulated"], false);
        let gain = found["gain"]["percent_hundredths"].as_i64();
        let gain = gain.unwrap_or_else(|| panic!("{strategy}: {found:#}"));
        assert!((900..=1100).contains(&gain), "{strategy}: {gain}");
        assert_eq!(found["verdict"], "Better", "{strategy}");
    }
}

#[test]
fn a_record_without_repeats_confirms_nothing() {
    let place = Place::new();
    let mut once = grid();
    once.retain(|line| line["key"]["repeat"] == 0);
    write(&place, "grid", &least_header(), &once);
    for strategy in ["adaptive", "greedy", "exhaustive", "random"] {
        let found = replay(&place, &["--strategy", strategy, "--workload", "sync-files"]);
        assert_eq!(found["choice"]["label"], "ext4 noatime none", "{strategy}: {found:#}");
        let verdict = found["verdict"].as_str().unwrap();
        assert!(["Cannot tell", "Likely better"].contains(&verdict), "{strategy}: {found:#}");
    }
}

#[test]
fn weights_and_constraints_change_the_chosen_setup() {
    let place = Place::new();
    write(&place, "grid", &least_header(), &grid());
    let chosen = |more: &[&str]| {
        let found = replay(&place, &[&["--strategy", "exhaustive"], more].concat());
        found["choice"]["label"].as_str().unwrap().to_owned()
    };
    assert_eq!(chosen(&["--weight", "database=9"]), "ext4 noatime+geometry none");
    assert_eq!(chosen(&["--weight", "sync-files=9"]), "ext4 noatime none");
    assert_eq!(
        chosen(&["--workload", "sync-files", "--without", "ext4:noatime"]),
        "ext4 base none"
    );
    let risky = chosen(&["--workload", "sync-files", "--require", "may-corrupt"]);
    assert_eq!(risky, "ext4 noatime+nojournal none");
}

#[test]
fn the_same_seed_gives_the_same_replay() {
    let place = Place::new();
    write(&place, "grid", &least_header(), &grid());
    let of = |seed: &str| replay(&place, &["--seed", seed, "--trials", "40"]).to_string();
    assert_eq!(of("3"), of("3"));
    let args = ["tune", "--replay", "grid", "--trials", "40"];
    let text = place.flashfit(&args);
    text.said(0, &[]);
    assert!(text.stdout.contains("In the whole record:"), "{}", text.stdout);
    crate::terminal::fits(place.command(&args));
    assert!(!place.path("run").exists() && !place.path("grid/report.html").exists());
}

#[test]
fn only_runs_of_the_same_device_are_combined() {
    let place = Place::new();
    let header = |card: &str| {
        json!({
            "schema": "flashfit.run", "schema_version": 1,
            "facts": { "stand": "here", "card": { "name": card } },
        })
    };
    let lines = grid();
    let (first, second) = lines.split_at(lines.len() / 2);
    write(&place, "grid", &header("one"), first);
    write(&place, "more", &header("one"), second);
    write(&place, "other", &header("another"), second);
    let both = ["tune", "--json", "--replay", "grid", "more", "--trials", "50"];
    let found = place.flashfit(&both).document("flashfit.replay");
    assert_eq!(found["setups_recorded"], 10);
    assert_eq!(found["simulated"], true);
    let mixed = place.flashfit(&["tune", "--replay", "grid", "other"]);
    mixed.said(2, &["cannot mix grid and other", "the card (one and another)"]);
    // The same trials are no independent ones, also of a run that was continued.
    write(&place, "continued", &header("one"), &lines);
    for runs in [["grid", "grid"], ["grid", "continued"]] {
        let twice = place.flashfit(&[&["tune", "--replay"], &runs[..]].concat());
        twice.said(2, &["are the same run", "name each run once"]);
    }
}

/// An adaptive run has short trials of some setups only.
#[test]
fn setups_without_a_short_trial_are_not_left_out() {
    let place = Place::new();
    let mut lines = grid();
    let mut short = line("ext4", &[], "sync-files", 0);
    short["key"]["length"] = json!("short");
    let mut again = short.clone();
    again["key"]["repeat"] = json!(1);
    lines.extend([short, again]);
    write(&place, "grid", &least_header(), &lines);
    for seed in ["1", "2", "3", "4"] {
        let more = ["--workload", "sync-files", "--trials", "60", "--seed", seed];
        let found = replay(&place, &more);
        assert_eq!(found["recommended"]["label"], "ext4 noatime none", "{seed}: {found:#}");
    }
}

#[test]
fn runs_that_cannot_be_replayed_are_reported() {
    let place = Place::new();
    write(&place, "grid", &least_header(), &grid());
    let refused = |args: &[&str], texts: &[&str]| {
        let ended = place.flashfit(&[&["tune", "--replay"], args].concat());
        ended.said(2, texts);
        assert_eq!(ended.stdout, "");
    };
    refused(&["nowhere"], &["nowhere does not contain a run"]);
    refused(
        &["grid", "--workload", "grep"],
        &["`grep`", "recorded workloads: database, sync-files"],
    );
    refused(&["grid", "--fs", "xfs"], &["`xfs`", "recorded were ext4, btrfs"]);
    let text = "no recorded setup has the file systems, options";
    refused(&["grid", "--fs", "ext4", "--with", "ext4:journal-data"], &[text, "hint: "]);
    refused(&["grid", "--scheduler", "bfq"], &[text]);
    refused(&["grid", "--trials", "1"], &["too few trials", "--trials 2 or more"]);
    refused(&["grid", "--by", "wear"], &["has no count of what was written", "--by throughput"]);
    refused(&["grid", "--by", "latency"], &["has no figure of latency"]);
    refused(&["grid", "--weight", "grep=2"], &["`grep`", "not measured"]);
    write(&place, "newer", &json!({ "schema": "flashfit.run", "schema_version": 2 }), &[]);
    refused(&["newer"], &["newer is a run of format 2"]);
    write(&place, "empty", &least_header(), &[]);
    refused(&["empty"], &["empty contains no trials"]);
    write(&place, "damaged", &least_header(), &grid());
    let text = std::fs::read_to_string(place.path("damaged/trials.jsonl")).unwrap();
    place.file("damaged/trials.jsonl", &text.replacen("\"options\"", "\"optoins\"", 1));
    refused(
        &["damaged"],
        &[
            "damaged/trials.jsonl:1: `key.setup`: missing field `options`",
            "newer version of flashfit",
        ],
    );
}

#[test]
fn failed_and_incomplete_setups_are_excluded_and_listed() {
    let place = Place::new();
    let mut lines = grid();
    let is = |line: &Value, option: &str, workload: &str| {
        line["key"]["setup"]["options"] == json!([option]) && line["key"]["workload"] == workload
    };
    lines.retain(|line| !is(line, "geometry", "database"));
    for line in lines.iter_mut().filter(|line| is(line, "noatime", "sync-files")) {
        line["outcome"] = json!({ "failed": { "message": "mount says no" } });
    }
    write(&place, "grid", &least_header(), &lines);
    let found = replay(&place, &["--strategy", "exhaustive"]);
    assert_eq!(found["incomplete"][0]["options"], json!(["geometry"]));
    let failed: Vec<&Value> = found["failed"].as_array().unwrap().iter().collect();
    assert_eq!(failed.len(), 2, "{found:#}");
    assert_eq!(found["choice"]["rank"], 1);
    // Short trials are trials, too.
    let mut short = lines.clone();
    let first = lines.iter().find(|line| is(line, "geometry", "sync-files")).unwrap();
    let mut first = first.clone();
    (first["key"]["workload"], first["key"]["length"]) = (json!("database"), json!("short"));
    short.push(first);
    write(&place, "grid", &least_header(), &lines);
    let what = "1 setup lacks a workload and is excluded: ext4 geometry";
    let replayed = ["tune", "--replay", "grid", "--strategy", "exhaustive"];
    let text = || {
        let ended = place.flashfit(&replayed);
        ended.said(0, &[]);
        ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(text().contains(what), "{}", text());
    write(&place, "grid", &least_header(), &short);
    let of_short = "1 setup has only short trials under a workload and is excluded";
    assert!(text().contains(of_short), "{}", text());
    assert!(!text().contains("lacks a workload"), "{}", text());
    for line in &mut lines {
        line["outcome"] = json!({ "failed": { "message": "mount says no" } });
    }
    write(&place, "grid", &least_header(), &lines);
    let ended = place.flashfit(&["tune", "--replay", "grid"]);
    ended.said(1, &["every recorded trial failed", "mount says no"]);
}

/// A gain that cannot be computed is not the score itself.
#[test]
fn gains_over_a_baseline_without_a_rank_are_right_or_absent() {
    let place = Place::new();
    let fixed = ["--workload", "sync-files", "--strategy", "exhaustive", "--seed", "1"];
    let said = |more: &[&str]| {
        let text = place.flashfit(&[&["tune", "--replay", "grid"], &fixed[..], more].concat());
        text.said(0, &[]);
        text.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let is_baseline = |line: &Value| {
        line["key"]["setup"]["filesystem"] == "ext4" && line["key"]["setup"]["options"] == json!([])
    };
    let gain = |setup: &Value| setup["recorded_gain_percent_hundredths"].clone();

    let mut lines = grid();
    for line in &mut lines {
        let p99_ns = if is_baseline(line) { 30_000_000 } else { 1_000_000 };
        let write = &mut line["outcome"]["completed"]["points"][0]["stages"][0]["write"];
        write["latency"] = json!({ "p99_ns": p99_ns });
    }
    write(&place, "grid", &least_header(), &lines);
    let limit = ["--p99-write-max", "20ms"];
    let found = replay(&place, &[&fixed[..], &limit].concat());
    assert_eq!(found["choice"]["label"], "ext4 noatime none", "{found:#}");
    let percent = gain(&found["choice"]).as_i64().unwrap();
    assert!((950..1050).contains(&percent), "{percent}");
    assert_eq!((&found["choice"]["rank"], &found["untuned"]["rank"]), (&json!(1), &Value::Null));
    let text = said(&limit);
    assert!(text.contains("baseline: ext4 base none: not ranked: it exceeds 20.00 ms"), "{text}");

    for line in lines.iter_mut().filter(|line| is_baseline(line)).take(1) {
        line["key"]["workload"] = json!("sync-files");
        line["key"]["repeat"] = json!(9);
        line["outcome"] = json!({ "failed": { "message": "mount says no" } });
    }
    write(&place, "grid", &least_header(), &lines);
    let found = replay(&place, &fixed);
    assert_eq!(found["best"]["rank"], 1, "{found:#}");
    assert_eq!(found["best"]["regret_percent_hundredths"], 0);
    assert_eq!(gain(&found["best"]), Value::Null);
    let text = said(&[]);
    let why = "gain not known: the baseline has a trial that failed";
    assert!(text.contains(why), "{text}");
    assert!(text.contains("ext4 base none: not ranked: it has a trial that failed"), "{text}");
}

#[test]
fn a_run_with_another_catalog_says_so() {
    let place = Place::new();
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (filesystems, workloads) = (names(&["ext4", "btrfs"]), names(&["database", "sync-files"]));
    let same = flashfit_tune::CatalogUsed::of_names(&filesystems, &workloads, None).unwrap();
    let other = json!({"sha256": "00".repeat(32), "built_in": true});
    for (catalog, differs) in [(json!(same), false), (other, true)] {
        let mut header = least_header();
        header["spec"] = json!({"filesystems": filesystems, "workloads": workloads});
        header["catalog"] = catalog;
        write(&place, "grid", &header, &grid());
        let args = ["tune", "--replay", "grid", "--workload", "sync-files"];
        let said = place.flashfit(&args);
        said.said(0, &[]);
        assert_eq!(said.stderr.contains("used other definitions"), differs, "{}", said.stderr);
    }
}

/// Records are read one by one, and only what a replay needs of each is kept.
#[test]
fn a_replay_takes_less_memory_than_twice_the_record() {
    let place = Place::new();
    let mut lines = grid();
    for line in &mut lines {
        let stages = &mut line["outcome"]["completed"]["points"][0]["stages"];
        let mut stage = stages[0].clone();
        // As long as a recorded stage, which has 400 bytes or more.
        stage["latencies"] = Value::String("1".repeat(320));
        *stages = Value::Array(vec![stage; 350]);
    }
    write(&place, "grid", &least_header(), &lines);
    let bytes = std::fs::metadata(place.path("grid/trials.jsonl")).unwrap().len();
    assert!(bytes > 10 << 20, "a long record: {bytes}");
    let args = ["tune", "--json", "--replay", "grid", "--trials", "40"];
    let mut child = place.command(&args).spawn().unwrap();
    // Freed at the end of the process, so the last value before is the highest.
    let (status, mut peak_kib) = (format!("/proc/{}/status", child.id()), 0);
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let highest = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = highest.and_then(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak_kib = peak_kib.max(kib.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let ended = crate::fixture::Ended::of(child);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // The program itself takes some megabytes.
    let most_kib = (2 * bytes + (24 << 20)) / 1024;
    assert!(peak_kib > 0 && peak_kib < most_kib, "{peak_kib} KiB of {most_kib}");
}

/// The grid with what was written to the device: noatime writes half of what the others do.
fn counted_grid() -> Vec<Value> {
    let mut lines = grid();
    for line in &mut lines {
        let options = line["key"]["setup"]["options"].as_array().unwrap();
        let cost = if options.contains(&json!("noatime")) { 500_000 } else { 1_000_000 };
        let write = &mut line["outcome"]["completed"]["points"][0]["stages"][0]["write"];
        write["bytes"] = json!(1_000_000);
        line["written"] = json!({ "trial_bytes": 0, "workload_bytes": cost });
    }
    lines
}

#[test]
fn years_are_shown_next_to_throughput_and_can_be_a_constraint() {
    let place = Place::new();
    let mut header = least_header();
    header["spec"] = json!({ "target": "sim:usd-a1-pagemap" });
    write(&place, "grid", &header, &counted_grid());
    let usage = ["--usage", "raspberry-pi"];
    let asked = |more: &[&str]| {
        let fixed = ["--strategy", "exhaustive", "--require", "may-corrupt"];
        replay(&place, &[&fixed[..], &usage, more].concat())
    };
    let estimate = ["wear", "estimate", "sim:usd-a1-pagemap", "--fs", "ext4,btrfs", "--json"];
    let estimate = place.flashfit(&[&estimate[..], &usage].concat());
    let estimate = estimate.document("flashfit.wear-estimate");
    let estimated = |index: usize, key: &str| estimate["setups"][index]["years"][key].as_f64();
    let found = asked(&[]);
    assert_eq!(found["life"]["usage"], "raspberry-pi");
    assert_eq!(found["life"]["simulated"], true);
    let years = |options: Value| {
        let setups = found["life"]["setups"].as_array().unwrap();
        let is_it = |life: &&Value| {
            life["setup"]["filesystem"] == "ext4" && life["setup"]["options"] == options
        };
        setups.iter().find(is_it).unwrap_or_else(|| panic!("{options}: {found:#}")).clone()
    };
    // The same years as `wear estimate`, to three digits after the point.
    let default = years(json!([]));
    for key in ["low", "median", "high"] {
        let shown = default["years"][key].as_f64().unwrap();
        assert!((shown - estimated(0, key).unwrap()).abs() < 0.001, "{key}: {default:#}");
    }
    let half = years(json!(["noatime"]));
    assert_eq!(
        (&default["years_basis"], &half["years_basis"]),
        (&json!("recorded"), &json!("trials"))
    );
    let ratio = half["years"]["median"].as_f64().unwrap() / estimated(0, "median").unwrap();
    assert!((1.98..2.02).contains(&ratio), "{ratio}");
    // Without a constraint a setup that writes twice as much may win; with it, it may not.
    let least = format!("{:.2}", half["years"]["low"].as_f64().unwrap() * 0.95);
    let lasting = asked(&["--min-years", &least]);
    assert_eq!(lasting["life"]["min_years_shown"], true);
    let options = lasting["choice"]["setup"]["options"].as_array().unwrap();
    assert!(options.contains(&json!("noatime")), "{lasting:#}");
    let never = asked(&["--min-years", "900"]);
    assert_eq!(never["life"]["min_years_shown"], false);
    assert_eq!(never["life"]["nearest_to_min_years"]["filesystem"], "ext4");
    assert!(never["choice"].is_null() && never["verdict"].is_null(), "{never:#}");
    let args = ["tune", "--replay", "grid", "--min-years", "900", "--strategy", "exhaustive"];
    let text = place.flashfit(&[&args[..], &usage].concat());
    text.said(0, &[]);
    let words = text.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no setup was shown to last 900 years; the nearest is ext4"), "{words}");
    place
        .flashfit(&["tune", "--replay", "grid", "--min-years", "5"])
        .said(2, &["--min-years needs a usage model", "--usage"]);
    place
        .flashfit(&["tune", "--replay", "grid", "--usage", "raspberry-pi", "--min-years", "0"])
        .said(2, &["above 0"]);
}

/// An image has the capacity of its file, and flags about the device count without `--usage`, too.
#[test]
fn flags_about_the_device_count_for_a_recorded_run() {
    let place = Place::new();
    let device = |life: Option<&Value>| {
        let mut header = least_header();
        header["spec"] = json!({ "target": "/images/card.img" });
        header["facts"] = json!({ "medium": { "capacity": 4_u64 << 30 } });
        if let Some(life) = life {
            header["spec"]["life"] = life.clone();
        }
        write(&place, "grid", &header, &counted_grid());
    };
    device(None);
    let shown = |more: &[&str]| {
        let fixed = ["--fs", "ext4", "--strategy", "exhaustive", "--trials", "60"];
        replay(&place, &[&fixed[..], more].concat())["life"].clone()
    };
    let usage = ["--usage", "raspberry-pi", "--class", "usd-a1-pagemap"];
    let of_image = shown(&usage);
    assert!(of_image["device"].as_str().unwrap().contains("(4 GiB"), "{of_image:#}");

    let recorded = json!({
        "usage": "raspberry-pi", "gib_a_day_thousandths": 4000, "device": "before",
        "rated_cycles": 1500, "given": { "class": "usd-a1-pagemap" },
        "setups": [{
            "filesystem": "ext4", "options": [], "years_thousandths": [1, 2, 3], "limit": "wear",
        }],
    });
    device(Some(&recorded));
    assert_eq!(shown(&[])["device"], "before");
    assert_eq!(shown(&["--min-years", "0.001"])["device"], "before");
    let worn = shown(&["--endurance", "100"]);
    assert_eq!((&worn["rated_cycles"], &worn["device"]), (&json!(100), &of_image["device"]));
    let other = shown(&["--capacity", "64GiB", "--class", "usb-cheap"]);
    let modeled = other["device"].as_str().unwrap();
    assert!(modeled.contains("usb-cheap (64 GiB"), "{modeled}");

    let mut from_file = recorded.clone();
    from_file["usage"] = json!("/etc/hostname");
    device(Some(&from_file));
    place
        .flashfit(&["tune", "--replay", "grid", "--endurance", "100"])
        .said(2, &["`/etc/hostname`, is not in the catalog", "--usage /etc/hostname"]);
}
