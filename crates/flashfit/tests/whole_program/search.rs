//! Adaptive search on a simulated card: constraints, initial states, budgets, replay and result.

use serde_json::Value;

use crate::fixture::{Place, skip_without_cards};

/// A short run with adaptive search.
const ADAPTIVE: &str = r#"filesystems = ["ext4"]
workloads = ["sync-files"]
schedulers = ["none"]
data_size = "4MiB"
runtime_ms = 200
[options.ext4]
exclude = ["discard", "nojournal", "fast_commit", "writeback", "nobarrier"]
"#;

fn tune<'a>(card: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let run = ["tune", card, "--config", "my.toml", "--dir", "run", "--progress", "never"];
    run.iter().chain(more).copied().collect()
}

fn records(place: &Place) -> Vec<Value> {
    place.recorded().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_run_with_a_budget_can_be_replayed() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.file("my.toml", ADAPTIVE);
    let card = place.card();
    let ended = place.flashfit(&tune(&card, &["--trials", "24", "--json-stream"]));
    let told = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(ended.code, Some(0), "{told}");
    assert!(told.contains("within 2% of the best") && told.contains("limits: 24 trials"), "{told}");
    let lines: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (answer, before) = lines.split_last().unwrap();
    let (beliefs, progress): (Vec<_>, Vec<_>) =
        before.iter().partition(|line| line["schema"] == "flashfit.belief");
    assert!(!beliefs.is_empty() && !progress.is_empty());
    let at: Vec<u64> = progress.iter().map(|line| line["elapsed_ns"].as_u64().unwrap()).collect();
    assert!(at.is_sorted() && progress[0]["phase"] == "preparing", "{progress:#?}");
    for line in progress {
        assert_eq!(line["schema"], "flashfit.progress");
        let Some(share) = line["share_done"].as_f64() else { continue };
        let remaining = &line["remaining"];
        assert!((0.0..=1.0).contains(&share), "{line}");
        assert!(remaining["least_ns"].as_u64() <= remaining["most_ns"].as_u64(), "{line}");
    }
    // The simulated card counts its erases.
    let life: Vec<u64> = beliefs
        .iter()
        .map(|line| line["wear"]["life_percent_thousandths"][1].as_u64().unwrap())
        .collect();
    assert!(life.is_sorted() && *life.last().unwrap() > 0, "{beliefs:#?}");
    assert!(beliefs.iter().all(|line| line["wear"]["is_counted"] == true), "{beliefs:#?}");
    let made: Vec<u64> = beliefs.iter().map(|line| line["trials"].as_u64().unwrap()).collect();
    assert!(made.is_sorted() && beliefs[0]["written_bytes"].as_u64().unwrap() > 0);
    assert_eq!(answer["schema"], "flashfit.recommendation");
    for part in ["ties", "effects", "interactions", "front"] {
        assert!(answer["data"][part].is_array(), "no {part} in {answer:#}");
    }
    assert_eq!(answer["data"]["interrupted"], false);
    let records = records(&place);
    assert_eq!(records.len(), answer["data"]["trials"].as_u64().unwrap() as usize);
    assert!(records.iter().all(|record| record["batch"]["size"].as_u64().unwrap() > 0));
    assert!(records.iter().all(|record| record["written"]["trial_bytes"].as_u64().unwrap() > 0));
    let sentinel = |record: &&Value| record["key"]["purpose"] == "sentinel";
    assert!(
        records
            .iter()
            .filter(sentinel)
            .all(|r| r["key"]["setup"]["options"] == Value::Array(vec![]))
    );
    let replay = ["tune", "--replay", "run", "--strategy", "random", "--json"];
    for by in ["throughput", "latency", "wear"] {
        let found = place.flashfit(&[&replay[..], &["--by", by]].concat());
        let found = found.document("flashfit.replay");
        assert_eq!(found["simulated"], true);
        assert!(found["choice"]["rank"].is_u64(), "{by}: {found:#}");
    }
    let report = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(place.recorded().iter().all(|line| line.contains("busy_ns")), "how busy it was");
    assert!(report.contains("Processor load"));
    for title in ["Effect of each option", "Noise and steady state", "May be as good as the best"] {
        assert!(report.contains(title), "no `{title}` in the report");
    }
    // The model estimates rates, not scores, and this device counts what it programs or nothing.
    assert!(report.contains("The change of the rate by one option"));
    assert!(!report.contains("hange of the score"));
    assert!(report.contains("or bytes written to a device that does not report those"));
}

#[test]
fn a_file_system_is_filled_and_aged_before_each_trial() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.file("my.toml", ADAPTIVE);
    let card = place.card();
    let state = ["--fill", "40%", "--age", "2", "--strategy", "greedy", "--repeats", "1"];
    let more = [&state[..], &["--confirm-rounds", "0", "--trials", "2"]].concat();
    place.flashfit(&tune(&card, &more)).said(0, &[]);
    let records = records(&place);
    assert_eq!(records.len(), 2);
    for record in &records {
        let state = &record["state"];
        let used = state["used_hundredths"].as_u64().unwrap();
        assert!((3_300..=4_700).contains(&used), "{record:#}");
        assert_eq!(state["age_rounds"], 2);
        assert!(state["files"].as_u64().unwrap() > 50, "{state}");
        let written = &record["written"];
        let (trial, workload) = (&written["trial_bytes"], &written["workload_bytes"]);
        assert!(trial.as_u64().unwrap() > 2 * workload.as_u64().unwrap(), "{written}");
        assert!(record["phases"]["state_ns"].as_u64().unwrap() > 0);
    }
}

#[test]
fn a_budget_that_is_too_small_is_refused_with_the_minimum() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.file("my.toml", &ADAPTIVE.replace("[\"ext4\"]", "[\"ext4\", \"btrfs\"]"));
    let card = place.card();
    let few = place.flashfit(&tune(&card, &["--trials", "1"]));
    few.said(2, &["too few trials: one of each of 2 file systems", "--trials 2 or more"]);
    assert!(!place.path("run/run.json").exists(), "a refused run leaves nothing in its way");
    let preview = place.flashfit(&tune(&card, &["--trials", "1", "--dry-run"]));
    preview.said(2, &["too few trials"]);
    let short = place.flashfit(&tune(&card, &["--budget", "1ms"]));
    short.said(2, &["the budget is too small", "--budget", "with fewer file systems"]);
    // With more, it goes on where it ended.
    let made = place.recorded().len();
    place
        .flashfit(&["tune", "--resume", "run", "--budget", "20s", "--progress", "never"])
        .said(0, &[]);
    assert!(place.recorded().len() > made + 1, "{made} trials were made");
}

#[test]
fn a_run_with_a_usage_model_records_and_shows_years() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.file("my.toml", ADAPTIVE);
    let card = place.card();
    let life = ["--usage", "data-logger", "--capacity", "8GiB", "--min-years", "0.01", "--json"];
    let ended = place.flashfit(&tune(&card, &[&["--trials", "12"], &life[..]].concat()));
    let answer = ended.document("flashfit.recommendation");
    assert_eq!(answer["life"]["min_years_shown"], true, "{answer:#}");
    let years = &answer["life"]["setups"][0]["years"];
    assert!(years["low"].as_f64().unwrap() > 0.01, "{answer:#}");
    let header: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("run/run.json")).unwrap())
            .unwrap();
    let recorded = &header["spec"]["life"];
    assert_eq!(recorded["given"]["min_years_thousandths"], 10);
    assert_eq!(recorded["setups"][0]["years_thousandths"].as_array().unwrap().len(), 3);
    let config = std::fs::read_to_string(place.path("run/config.toml")).unwrap();
    assert!(config.contains("usage = \"data-logger\""), "{config}");
    let report = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(report.contains("Years under the usage model data-logger"), "no years in the report");
    let ranked = place.flashfit(&["analyze", "run", "--json"]);
    let row = &ranked.document("flashfit.rankings")["rankings"][0]["rows"][0];
    assert!(row["years"]["median"].is_number(), "{row:#}");
    // Another usage model gives other years, without a new trial.
    let other = place.flashfit(&["analyze", "run", "--usage", "kiosk", "--json"]);
    let other = other.document("flashfit.rankings");
    assert_ne!(other["rankings"][0]["rows"][0]["years"], row["years"]);
    // What it must last is still asked.
    let asked = other["setups"][0]["constraints"].as_array().unwrap();
    assert!(asked.iter().any(|of| of["constraint"] == "min-years"), "{other:#}");
}
