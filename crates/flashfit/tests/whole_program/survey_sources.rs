//! `flashfit survey` on documents of wear counters and power cuts, without a device or root.

use serde_json::{Value, json};

use crate::fixture::{Ended, Place};
use crate::survey::cid;

fn device(serial: u32) -> Value {
    json!({
        "kind": "sd-card", "capacity_bytes": 32u64 << 30, "partition_start_bytes": null,
        "identity": { "vendor": null, "model": "SL32G", "serial": null, "cid": cid(serial),
            "firmware": null, "disk_sequence": null },
        "declared": { "capacity": [], "erase_unit": [], "write_unit": [], "cache": [], "facts": [],
            "refused": [] },
    })
}

fn document(name: &str, data: &Value) -> String {
    // As commands print it: the schema comes first.
    format!(
        "{{\"schema\": \"flashfit.{name}\", \"schema_version\": 1, \
         \"tool_version\": \"0.2.0\", \"data\": {data}}}"
    )
}

/// What a card reported on a day.
fn reading(serial: u32, day: u64, life: u64, written: u64) -> String {
    let counter = |id: &str, measures: &str, value: u64, unit: &str| {
        json!({ "id": id, "measures": measures, "value": value, "unit": unit, "step": 1,
            "since": "made", "source": "test", "is_saturated": false, "is_simulated": false })
    };
    document(
        "wear-show",
        &json!({
            "device": "/dev/mmcblk0", "kind": "sd-card", "facts": [], "asked": [],
            "counters": [
                counter("sd.life_used", "life_used", life, "percent"),
                counter("sd.host_written", "host_written", written, "bytes"),
            ],
            "measured_device": device(serial), "created_unix_s": 1_795_000_000 + day * 86_400,
        }),
    )
}

fn cuts(serial: u32) -> String {
    document(
        "crash-cuts",
        &json!({
            "plan": { "setups": ["ext4"], "workload": "files", "seed": 1, "states": 20,
                "board": { "on": "ssh:pi", "target": "/dev/mmcblk0", "device": "SL32G" } },
            "dir": "/tmp/cuts", "kernel": "6.12.0", "created_unix_s": 1_795_000_000,
            "measured_device": device(serial),
            "setups": [{ "setup": "ext4", "states": 20, "broken_promises": 2,
                "by_promise": { "synced": { "examined": true, "broken": 2 } },
                "by_oracle": { "synced-data": 2 }, "longest_recovery_ms": 5 }],
        }),
    )
}

fn survey(place: &Place, more: &[&str]) -> Ended {
    place.flashfit(&[&["survey"], more].concat())
}

#[test]
fn wear_over_time_and_power_cuts_are_of_one_card() {
    let place = Place::new();
    std::fs::create_dir(place.path("docs")).unwrap();
    // Added in another order than they were read.
    place.file("docs/a.json", &reading(0x7654_3210, 200, 30, 9 << 40));
    place.file("docs/b.json", &reading(0x7654_3210, 0, 10, 1 << 40));
    place.file("docs/c.json", &reading(0x7654_3211, 0, 0, 1 << 30));
    place.file("docs/cuts.json", &cuts(0x7654_3210));
    for added in [4, 0] {
        let ended = survey(&place, &["add", "docs"]);
        ended.said(0, &[]);
        assert!(ended.stdout.contains(&format!("{added} added")), "{}", ended.stdout);
        assert!(ended.stdout.contains("4 sources of 2 cards"), "{}", ended.stdout);
    }
    let listed = survey(&place, &["list", "--json", "--where", "life_used_percent>=20"]);
    let listed = listed.document("flashfit.survey-cards");
    let [card] = &listed["results"].as_array().unwrap()[..] else { panic!("{listed:#}") };
    assert_eq!((&card["wear_readings"], &card["power_cut_campaigns"]), (&json!(2), &json!(1)));
    assert_eq!(card["life_used_percent"], 30.0);
    let text = survey(&place, &["list"]).stdout;
    assert!(text.contains("WORN") && text.contains("30 %"), "{text}");
    crate::terminal::fits(place.command(&["survey", "list"]));

    let key = card["card"].as_str().unwrap();
    let text = survey(&place, &["show", key]).stdout;
    let days: Vec<&str> = text.lines().filter(|line| line.starts_with("20")).collect();
    assert_eq!(days.len(), 2, "{text}");
    assert!(days[0].starts_with("2026-11-18") && days[0].contains("10 %"), "{text}");
    assert!(days[1].starts_with("2027-06-06") && days[1].contains("30 %"), "{text}");
    let only = ["show", key, "--json", "--where", "metric=broken-promises"];
    let shown = survey(&place, &only).document("flashfit.survey-card");
    let rows = shown["results"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[1]["point"]), (2, &json!("synced")), "{shown:#}");
    assert_eq!((&rows[1]["value"], &rows[1]["count"]), (&json!(0.1), &json!(20)));
    assert!(rows[1]["low"].as_f64() < Some(0.1) && rows[1]["high"].as_f64() > Some(0.1));
}

#[test]
fn one_bad_argument_does_not_stop_the_rest() {
    let place = Place::new();
    place.file("a.json", &reading(0x7654_3210, 0, 0, 1));
    std::fs::create_dir(place.path("empty")).unwrap();
    let ended = survey(&place, &["add", "none.json", "empty", "a.json"]);
    ended.said(2, &["none.json", "it is not a run"]);
    assert!(ended.stdout.contains("1 added, 2 refused"), "{}", ended.stdout);
    assert!(ended.stdout.contains("1 source of 1 card"), "{}", ended.stdout);
}

#[test]
fn unused_cards_are_compared_with_worn_ones() {
    let place = Place::new();
    let documents = [
        reading(0x7654_3210, 0, 10, 1 << 30),
        reading(0x7654_3210, 9, 20, 2 << 30),
        reading(0x7654_3211, 0, 0, 0),
        reading(0x7654_3212, 0, 5, 1 << 20),
    ];
    for (number, document) in documents.iter().enumerate() {
        place.file(&format!("{number}.json"), document);
    }
    survey(&place, &["add", "0.json", "1.json", "2.json", "3.json"]).said(0, &[]);
    let only = ["compare", "--where", "metric=life-used", "--json"];
    let rows = survey(&place, &only).document("flashfit.survey-products");
    let [row] = &rows["results"].as_array().unwrap()[..] else { panic!("{rows:#}") };
    assert_eq!((&row["cards"], &row["sources"]), (&json!(3), &json!(3)));
    assert!((row["value"].as_f64().unwrap() - 25.0 / 3.0).abs() < 1e-9, "{row:#}");
    assert_eq!((&row["low"], &row["least"]), (&json!(0.0), &json!(0.0)), "{row:#}");
    let text = survey(&place, &only[..3]).stdout;
    assert!(text.contains("8.33 %"), "{text}");
}

#[test]
fn documents_without_a_card_are_refused() {
    let place = Place::new();
    let mut older: Value = serde_json::from_str(&reading(1, 0, 1, 1)).unwrap();
    older["data"].as_object_mut().unwrap().remove("measured_device");
    place.file("older.json", &older.to_string());
    place.file("states.json", &cuts(1).replace("crash-cuts", "crash-states"));
    survey(&place, &["add", "older.json"]).said(2, &["does not say which card"]);
    survey(&place, &["add", "states.json"]).said(2, &["about a file system"]);
    let listed = survey(&place, &["list", "--json"]).document("flashfit.survey-cards");
    assert_eq!(listed["results"], json!([]));
}
