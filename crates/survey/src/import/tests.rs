//! Tests of reading documents.

use std::path::Path;

use serde_json::{Value, json};

use super::{SurveyInput, read};
use crate::metric::SurveyMetric;
use crate::record::{SourceKind, SurveySource};

fn counter(id: &str, measures: &str, (value, unit): (u64, &str), since: &str) -> Value {
    json!({
        "id": id, "measures": measures, "value": value, "unit": unit, "step": 1, "since": since,
        "source": "test", "is_saturated": false, "is_simulated": false,
    })
}

fn device() -> Value {
    json!({
        "kind": "emmc", "capacity_bytes": 32u64 << 30, "partition_start_bytes": null,
        "identity": { "vendor": null, "model": "DG4032", "serial": "0x76543210", "cid": null,
            "firmware": "0x1", "disk_sequence": 7 },
        "declared": flashfit_device::DeclaredFacts::default(),
    })
}

fn reading() -> Value {
    json!({
        "schema": "flashfit.wear-show", "schema_version": 1, "tool_version": "0.2.0",
        "data": {
            "device": "/dev/mmcblk0", "kind": "emmc", "facts": [], "asked": [],
            "counters": [
                counter("emmc.life_a", "life_used_a", (10, "percent"), "made"),
                counter("emmc.life_b", "life_used_b", (30, "percent"), "made"),
                counter("kernel.written", "host_written", (512, "bytes"), "attached"),
            ],
            "measured_device": device(), "created_unix_s": 1_795_000_000,
        },
    })
}

fn measurement() -> Value {
    let interval = json!({ "low": 2.0, "middle": 2.5, "high": 3.0 });
    json!({
        "schema": "flashfit.wear-measure", "schema_version": 1, "tool_version": "0.2.0",
        "data": {
            "device": "/dev/mmcblk0", "kind": "emmc", "runs": 3, "write_amplification": interval,
            "counters": [{ "id": "x.flash", "measures": "flash_written", "unit": "bytes",
                "step": 512, "source": "test", "is_simulated": false, "total": 9, "per_run": interval,
                "is_resolved": true }],
            "goal": "x.flash", "steps_wanted": 10, "steps_counted": 10, "end": "resolved",
            "needed": { "bytes": 1, "basis": "unit" }, "is_simulated": false,
            "reports_wear": true, "notes": [], "command": ["cp", "/home/me/secret", "/mnt"],
            "measured_device": device(), "created_unix_s": 1_795_000_000,
        },
    })
}

fn cuts() -> Value {
    json!({
        "schema": "flashfit.crash-cuts", "schema_version": 1, "tool_version": "0.2.0",
        "data": {
            "plan": { "setups": ["ext4:noatime"], "workload": { "sqlite": {
                    "journal": "wal", "sync": "full" } }, "seed": 1, "states": 20,
                "board": { "on": "ssh:secret-host", "target": "/dev/mmcblk0", "device": "x" } },
            "dir": "/home/me/cuts", "kernel": "6.12.0", "created_unix_s": 1_795_000_000,
            "measured_device": device(),
            "setups": [{ "setup": "ext4:noatime", "states": 20, "broken_promises": 2,
                "by_promise": { "synced": { "examined": true, "broken": 2 },
                    "own-data": { "examined": false, "broken": 0 } },
                "by_oracle": { "commit": 2 }, "longest_recovery_ms": 5 }],
        },
    })
}

fn imported(document: &Value) -> Result<SurveySource, String> {
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    std::fs::write(file.path(), document.to_string()).unwrap();
    let path: &Path = file.path();
    match read(path).map_err(|error| error.to_string())? {
        SurveyInput::Source(source) => Ok(*source),
        SurveyInput::Bundle(_) => panic!("it is no bundle"),
    }
}

fn without(document: &Value, key: &str) -> Value {
    let mut document = document.clone();
    document["data"].as_object_mut().unwrap().remove(key);
    document
}

#[test]
fn readings_of_counters_are_of_one_card_at_one_time() {
    let source = imported(&reading()).unwrap();
    assert_eq!((source.kind, source.is_simulated), (SourceKind::WearReading, false));
    assert_eq!((source.card.kind.as_str(), source.card.product.as_str()), ("emmc", "DG4032"));
    assert_eq!((source.card.serial.as_str(), source.card.capacity), ("0x76543210", Some(32 << 30)));
    assert_eq!(source.facts.created_unix_s, Some(1_795_000_000));
    // What counts since the device was attached is left out.
    let figures: Vec<(&str, f64)> = source
        .results
        .iter()
        .inspect(|one| assert_eq!(one.measure.metric, SurveyMetric::LifeUsed.name()))
        .map(|one| (one.measure.point.as_str(), one.value.value))
        .collect();
    assert_eq!(figures, [("emmc.life_a", 10.0), ("emmc.life_b", 30.0)]);
    let mut simulated = reading();
    simulated["data"]["counters"][0]["is_simulated"] = json!(true);
    assert!(imported(&simulated).unwrap_err().contains("does not name its model"));
}

#[test]
fn measurements_of_wear_have_intervals_and_hide_the_command() {
    let source = imported(&measurement()).unwrap();
    assert_eq!((source.kind, source.results.len()), (SourceKind::WearMeasurement, 2));
    let first = &source.results[0];
    assert_eq!(first.measure.metric, "write-amplification");
    let value = first.value;
    assert_eq!((value.value, value.low, value.high, value.count), (2.5, Some(2.0), Some(3.0), 3));
    assert_eq!(source.results[1].measure.unit, "bytes/run");
    assert!(first.measure.workload.starts_with("command-"));
    assert!(!format!("{source:?}").contains("secret"), "{source:?}");
    let mut other = measurement();
    other["data"]["command"][1] = json!("/home/me/other");
    assert_ne!(imported(&other).unwrap().results[0].measure.workload, first.measure.workload);
}

#[test]
fn power_cuts_are_shares_with_intervals() {
    let source = imported(&cuts()).unwrap();
    assert_eq!((source.kind, source.rank), (SourceKind::PowerCuts, 20));
    assert_eq!((source.facts.test_bed.as_str(), source.facts.kernel.as_str()), ("ssh", "6.12.0"));
    let rows: Vec<(&str, &str, f64)> = source
        .results
        .iter()
        .map(|one| (one.measure.metric.as_str(), one.measure.point.as_str(), one.value.value))
        .collect();
    assert_eq!(
        rows,
        [
            ("power-cuts", "", 20.0),
            ("broken-promises", "", 0.1),
            ("broken-promises", "synced", 0.1),
            ("failed-cuts", "commit", 0.1),
            ("recovery-time-max", "", 5e6),
        ]
    );
    assert!(source.results[1].value.low.unwrap() < 0.1 && source.results[1].value.count == 20);
    assert!(source.results.iter().all(|one| one.setup.options == "noatime"));
    assert!(source.results.iter().all(|one| one.measure.workload == "sqlite:wal:full"));
    assert!(!format!("{source:?}").contains("secret"), "{source:?}");
    // The same campaign with more power cuts replaces it.
    let mut later = cuts();
    later["data"]["plan"]["states"] = json!(40);
    later["data"]["setups"][0]["states"] = json!(40);
    let later = imported(&later).unwrap();
    assert_eq!((&later.origin, later.rank), (&source.origin, 40));
    assert_ne!(later.address, source.address);
}

#[test]
fn power_cuts_of_a_simulated_card_are_of_its_model() {
    let mut document = without(&cuts(), "measured_device");
    document["data"]["plan"]["board"] = Value::Null;
    document["data"]["plan"]["card"] = json!({ "faults": [{ "class": "lost-cache" }],
        "model": { "name": "usd-a1-pagemap", "capacity": 1 << 30 } });
    let source = imported(&document).unwrap();
    assert!(source.is_simulated);
    assert_eq!(
        (source.card.product.as_str(), source.facts.test_bed.as_str()),
        ("usd-a1-pagemap", "vm")
    );
    assert_eq!(source.facts.conditions, "faults of the card: lost-cache");
}

#[test]
fn documents_that_do_not_say_which_card_it_was_are_refused() {
    for document in [reading(), measurement(), cuts()] {
        let error = imported(&without(&document, "measured_device")).unwrap_err();
        assert!(error.contains("does not say which card"), "{error}");
        let mut newer = document;
        newer["schema_version"] = json!(2);
        assert!(imported(&newer).unwrap_err().contains("another version"));
    }
    let mut states = cuts();
    states["schema"] = json!("flashfit.crash-states");
    assert!(imported(&states).unwrap_err().contains("about a file system"));
    let mut none = cuts();
    none["data"]["setups"][0]["states"] = json!(0);
    assert!(imported(&none).unwrap_err().contains("no power was cut"));
}

#[test]
fn campaigns_on_two_cards_are_two() {
    let first = imported(&cuts()).unwrap();
    let mut other = cuts();
    other["data"]["measured_device"]["identity"]["serial"] = json!("0x76543299");
    let second = imported(&other).unwrap();
    assert_ne!(first.origin, second.origin);
    let folder = tempfile::tempdir().unwrap();
    let mut survey = crate::SurveyDatabase::open(&folder.path().join("s")).unwrap();
    for source in [&first, &second] {
        survey.add(source, &crate::AddOptions::default()).unwrap();
    }
    assert_eq!(survey.cards().unwrap().len(), 2);

    // An earlier version knew the first one by its former origin. It is not counted twice, nor
    // taken for that of the other card.
    let mut survey = crate::SurveyDatabase::open(&folder.path().join("earlier")).unwrap();
    let options = crate::AddOptions::default();
    let mut former = first.clone();
    former.origin = first.former_origin.clone().unwrap();
    survey.add(&former, &options).unwrap();
    assert_eq!(survey.add(&second, &options).unwrap(), crate::Addition::Added);
    let mut later = cuts();
    later["data"]["setups"][0]["states"] = json!(40);
    let later = imported(&later).unwrap();
    assert_eq!(survey.add(&later, &options).unwrap(), crate::Addition::Replaced);
    assert_eq!(survey.add(&first, &options).unwrap(), crate::Addition::Older);
    assert_eq!(survey.cards().unwrap().len(), 2);
}

#[test]
fn a_document_is_found_wherever_its_schema_is() {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name);
    // The schema comes after the data.
    let sorted = reading().to_string();
    let head = &sorted[..256];
    assert!(!head.contains("\"flashfit."), "{head}");
    std::fs::write(name("sorted.json"), &sorted).unwrap();
    std::fs::write(name("pretty.json"), serde_json::to_string_pretty(&cuts()).unwrap()).unwrap();
    std::fs::write(name("other.json"), "{\"schema\": \"other\", \"by\": \"flashfit.x\"}").unwrap();
    let (found, others) = super::find(folder.path()).unwrap();
    assert_eq!((found, others), (vec![name("pretty.json"), name("sorted.json")], 1));
}

/// A run on `sda` of two boards, alternating; without a serial number unless it is given.
fn run_on_two_boards(serial: &str) -> SurveySource {
    let folder = tempfile::tempdir().unwrap();
    let header = json!({
        "schema": "flashfit.run", "schema_version": 1,
        "facts": { "medium": {
            "path": "/dev/sda", "kind": "usb", "capacity": 32u64 << 30, "partition_start": null,
            "identity": { "model": "Stick", "serial": (!serial.is_empty()).then_some(serial) },
        } },
    });
    std::fs::write(folder.path().join("run.json"), header.to_string()).unwrap();
    let name = if serial.is_empty() { "sda".to_owned() } else { format!("sda {serial}") };
    let mut trials = String::new();
    for repeat in 0..8 {
        let board = if repeat % 2 == 0 { "b1" } else { "b2" };
        let trial = json!({
            "version": 1,
            "key": { "purpose": "search", "workload": "database", "repeat": repeat,
                "setup": { "filesystem": "ext4", "options": [], "scheduler": "none" } },
            "made_on": { "board": board, "medium": name },
            "outcome": { "completed": { "points": [{ "stages": [{
                "name": "write", "kind": "throughput",
                "write": { "bytes_per_second": 1_000_000, "latency": { "p99_ns": 9_000_000 } },
            }]}]}},
        });
        trials += &format!("{trial}\n");
    }
    std::fs::write(folder.path().join("trials.jsonl"), trials).unwrap();
    match read(folder.path()).unwrap() {
        SurveyInput::Source(source) => *source,
        SurveyInput::Bundle(_) => panic!("it is no bundle"),
    }
}

#[test]
fn devices_of_one_name_on_two_boards_are_two() {
    for serial in ["", "0x76543210"] {
        let source = run_on_two_boards(serial);
        assert!(source.notes[0].starts_with("4 trials on other boards"), "{:?}", source.notes);
        assert!(source.results.iter().all(|result| result.value.count == 4), "{source:#?}");
    }
}
