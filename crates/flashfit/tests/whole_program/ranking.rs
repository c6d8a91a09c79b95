//! `flashfit analyze` and `flashfit report` on a small real run.

use flashfit_device::Bytes;
use serde_json::Value;

use crate::fixture::{Place, skip_without_cards};
use crate::terminal::fits;

#[test]
fn a_ranking_has_scores_trials_and_intervals() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.tune(&place.card(), &["--repeats", "2"]).said(0, &[]);
    for by in ["throughput", "latency"] {
        let ended = place.flashfit(&["analyze", "run", "--by", by, "--json"]);
        is_ranked(&ended.document("flashfit.rankings")["rankings"]);
    }
    place.flashfit(&["analyze", "run", "--top", "0"]).said(2, &["--top"]);
    let top = place.flashfit(&["analyze", "run", "--top", "1", "--json"]);
    for table in top.document("flashfit.rankings")["rankings"].as_array().unwrap() {
        // The first setup, and the baseline at any rank.
        let rows = table["rows"].as_array().unwrap();
        let first_or_baseline = |row: &Value| row["place"] == 1 || row["setup"] == "ext4 base none";
        assert!(rows.iter().all(first_or_baseline), "{table}");
    }
    let text = place.flashfit(&["analyze", "run"]);
    assert!(
        text.stdout.contains("SIMULATED CARD") && text.stdout.contains("ext4 base none"),
        "{text:#?}"
    );
    two_setups_are_compared(&place);
    the_report_can_be_written_elsewhere(&place);
    a_damaged_line_is_named(&place);
    the_order_is_that_of_the_run(&place);
}

/// And the text says where setups stand that were measured once.
fn the_order_is_that_of_the_run(place: &Place) {
    let by = |args: &[&str]| {
        let all = [&["analyze", "run", "--json"][..], args].concat();
        place.flashfit(&all).document("flashfit.rankings")["by"].clone()
    };
    assert_eq!(by(&[]), "throughput");
    let header = std::fs::read_to_string(place.path("run/run.json")).unwrap();
    let mut other: Value = serde_json::from_str(&header).unwrap();
    other["spec"]["by"] = "latency".into();
    std::fs::write(place.path("run/run.json"), other.to_string()).unwrap();
    assert_eq!(by(&[]), "latency");
    assert_eq!(by(&["--by", "throughput"]), "throughput");
    let text = place.flashfit(&["analyze", "run"]).stdout.replace('\n', " ");
    assert!(text.contains("measured once come after the others"), "{text}");
    std::fs::write(place.path("run/run.json"), &header).unwrap();
}

#[track_caller]
fn is_ranked(tables: &Value) {
    let tables = tables.as_array().unwrap();
    assert!(!tables.is_empty());
    for table in tables {
        let rows = table["rows"].as_array().unwrap();
        assert!(rows.len() >= 2, "{table}");
        let merits: Vec<i64> =
            rows.iter().map(|row| row["merit_thousandths"].as_i64().unwrap()).collect();
        assert!(merits.is_sorted_by(|better, worse| better >= worse), "{merits:?}");
        for (place, row) in (1..).zip(rows) {
            assert!(row["place"].as_u64().unwrap() <= place, "{row}");
            assert_eq!(row["trials"], 2, "{row}");
            let bound = |name: &str| row[name].as_i64().unwrap();
            assert!(bound("low_thousandths") <= bound("merit_thousandths"), "{row}");
            assert!(bound("merit_thousandths") <= bound("high_thousandths"), "{row}");
        }
    }
}

fn two_setups_are_compared(place: &Place) {
    let listed = place.flashfit(&["analyze", "run", "--json"]).document("flashfit.rankings");
    let setups = listed["setups"].as_array().unwrap();
    assert!(setups.iter().all(|setup| setup["constraints"][0]["status"] == "met"), "{listed:#}");
    // A run without confirming trials compares nothing by itself.
    let of_run = listed["head_to_head"].as_array().unwrap();
    let other = setups.iter().find(|setup| setup["is_baseline"] == false).unwrap();
    let other = other["setup"].as_str().unwrap();
    let versus = ["analyze", "run", "--versus", "baseline", other];
    let found = place.flashfit(&[&versus[..], &["--json"]].concat());
    let found = found.document("flashfit.head-to-head");
    assert_eq!((&found["setup"], &found["other"]), (&"ext4 base none".into(), &other.into()));
    let confirmed = found["basis"] == "confirming-rounds";
    assert_eq!(confirmed, !of_run.is_empty(), "{found:#}");
    assert!(found["difference"]["percent_hundredths"].is_i64(), "{found:#}");
    assert!(found["workloads"][0]["difference"].is_object(), "{found:#}");
    assert_eq!(found["setup_constraints"][0]["constraint"], "require");
    place.flashfit(&versus).said(0, &[]);
    let text = place.flashfit(&versus).stdout;
    assert!(text.contains("SIMULATED CARD") && text.contains("all, by weight"), "{text}");
    fits(place.command(&versus));
    let with = |name: &str| place.flashfit(&["analyze", "run", "--versus", "baseline", name]);
    with("ext4 bse none").said(2, &["no such setup", "did you mean 'ext4 base none'?"]);
    // As a terminal cuts it.
    let found = with("ext4 ba...e none");
    found.said(0, &[]);
    assert!(found.stdout.contains("ext4 base none versus ext4 base none"), "{found:#?}");
    with("ext4…").said(2, &["fits 2 setups", "'ext4 base none'", other]);
    with("btrfs…none").said(2, &["no such setup", "type it as analyze shows it"]);
}

fn the_report_can_be_written_elsewhere(place: &Place) {
    place.flashfit(&["report", "run", "-o", "elsewhere.html"]).said(0, &[]);
    let text = std::fs::read_to_string(place.path("elsewhere.html")).unwrap();
    assert!(text.contains("</html>") && !text.contains("src=\"http"));
    // Not only what was written while workloads were measured.
    let written = |line: String| serde_json::from_str::<Value>(&line).unwrap()["written"].clone();
    let all: u64 = place
        .recorded()
        .into_iter()
        .map(|line| written(line)["trial_bytes"].as_u64().unwrap())
        .sum();
    let all = format!("in whole trials, with mkfs and what is written before: {} by", Bytes(all));
    assert!(text.contains(&all), "{all}");
    place.flashfit(&["report", "run", "-o", "no-folder/report.html"]).said(2, &["no-folder"]);
}

fn a_damaged_line_is_named(place: &Place) {
    let path = place.path("run/trials.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    let other = whole.replacen("{\"version\":1,", "{\"version\":999,", 1);
    let torn = whole.replacen('\n', "\n{\"version\":\n", 1);
    let noise = format!("{whole}\u{1}\u{1}\u{1}\n");
    for (text, line, what) in [
        (&other, 1, "a record of version 999"),
        (&torn, 2, "damaged"),
        (&noise, whole.lines().count() + 1, "damaged"),
    ] {
        std::fs::write(&path, text).unwrap();
        let place_of_fault = format!("run/trials.jsonl:{line}: {what}");
        for args in [&["analyze", "run"][..], &["report", "run"], &["tune", "--resume", "run"]] {
            place.flashfit(args).said(2, &[&place_of_fault]);
        }
        assert_eq!(&std::fs::read_to_string(&path).unwrap(), text, "the file was changed");
    }
    std::fs::write(&path, &whole).unwrap();
    place.flashfit(&["analyze", "run"]).said(0, &[]);
}

#[test]
fn the_document_of_a_run_has_latencies_and_wear_of_each_setup() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let ended = place.tune(&place.card(), &["--json"]);
    let document = ended.document("flashfit.recommendation");
    let setups = document["setups"].as_array().unwrap();
    for role in ["is_baseline", "is_recommended"] {
        assert_eq!(setups.iter().filter(|setup| setup[role] == true).count(), 1, "{setups:#?}");
    }
    for setup in setups {
        let workload = &setup["workloads"][0];
        assert!(workload["trials"].as_u64().unwrap() > 0, "{setup:#?}");
        let p99 = workload["p99_write_ns"].as_u64().unwrap();
        assert!(p99 > 0 && p99 <= workload["worst_ns"].as_u64().unwrap(), "{setup:#?}");
        assert!(workload["programmed_per_thousand"].as_u64().unwrap() >= 500, "{setup:#?}");
    }
}

#[test]
fn all_file_systems_are_ranked_together_and_in_a_matrix() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let more = ["--fs", "ext4,ext3", "--workload", "sync-files,random-write"];
    place.tune(&place.card(), &more).said(0, &[]);
    let document = place.flashfit(&["analyze", "run", "--json"]).document("flashfit.rankings");
    let tables = document["rankings"].as_array().unwrap();
    let overall = &tables[0];
    assert_eq!((&overall["workload"], &overall["filesystem"]), (&Value::Null, &Value::Null));
    assert_eq!(overall["title"], "All workloads, all file systems");
    let rows = overall["rows"].as_array().unwrap();
    for filesystem in ["ext4", "ext3"] {
        assert!(rows.iter().any(|row| row["filesystem"] == filesystem), "{overall:#}");
    }
    for table in tables {
        for row in table["rows"].as_array().unwrap() {
            let options: Vec<&str> =
                row["options"].as_array().unwrap().iter().map(|o| o.as_str().unwrap()).collect();
            let options = if options.is_empty() { "base".to_owned() } else { options.join("+") };
            let text = |key: &str| row[key].as_str().unwrap().to_owned();
            let label = format!("{} {options} {}", text("filesystem"), text("scheduler"));
            assert_eq!(row["setup"], label.as_str(), "{row:#}");
            assert_eq!(row["workload"], table["workload"], "{row:#}");
            // Another file system's default setup is a baseline too; the growth is over the first.
            if row["setup"] == "ext4 base none" {
                assert_eq!(row["growth_percent_hundredths"], 0, "{row:#}");
                assert_ne!(row["role"], "candidate", "{row:#}");
            }
        }
    }
    let matrix = document["matrix"].as_array().unwrap();
    let workloads: Vec<&Value> = matrix.iter().map(|row| &row["workload"]).collect();
    assert_eq!(workloads, [&Value::Null, &"sync-files".into(), &"random-write".into()]);
    for row in matrix {
        let cells = row["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 2, "{row:#}");
        assert!(cells[0]["growth_percent_hundredths"].as_i64().unwrap() >= 0, "{row:#}");
    }
    let text = place.flashfit(&["analyze", "run"]).stdout;
    assert!(text.contains("All workloads, all file systems"), "{text}");
    assert!(text.contains("against the baseline"), "{text}");
    fits(place.command(&["analyze", "run"]));
}
