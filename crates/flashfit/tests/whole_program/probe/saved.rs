//! Use of probe results by `plan` and `tune`.

use crate::fixture::{FAST_CARD, Place};

use super::card_that_shows_its_units;

#[test]
fn a_plan_uses_probe_results() {
    let place = Place::new();
    let card = card_that_shows_its_units(&place);
    place.flashfit(&["probe", &card, "--output", "geometry.json"]).said(0, &[]);
    let args = ["plan", &card, "--geometry", "geometry.json", "--fs", "ext4", "--json"];
    let plans = place.flashfit(&args).document("flashfit.plans");
    let used = &plans["plans"][0]["geometry"];
    assert_eq!(used["given"]["erase_unit"]["bytes"], 4 << 20);
    assert_eq!(used["given"]["erase_unit"]["source"], "probed");
    let dry = ["tune", &card, "--geometry", "geometry.json", "--dry-run", "--config", "short.toml"];
    let ended = place.flashfit(&dry);
    ended.said(0, &[]);
    assert!(ended.stdout.contains("erase block 4 MiB (probed)"), "{}", ended.stdout);
}

#[test]
fn conflicting_probed_and_declared_values_are_resolved_safely() {
    let place = Place::new();
    let card = card_that_shows_its_units(&place);
    place.flashfit(&["probe", &card, "--output", "geometry.json"]).said(0, &[]);
    // The same card with a changed model.
    let text = std::fs::read_to_string(place.path("shows.toml")).unwrap();
    place.file("shows.toml", &text.replace("erase_unit = \"4MiB\"", "erase_unit = \"3MiB\""));
    let args = ["plan", &card, "--geometry", "geometry.json", "--fs", "ext4"];
    let ended = place.flashfit(&args);
    ended.said(0, &[]);
    let text = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("12 MiB is used, a common multiple, which is safe for both"), "{text}");
}

#[test]
fn probe_files_of_other_devices_are_refused() {
    let place = Place::new();
    let card = card_that_shows_its_units(&place);
    place.flashfit(&["probe", &card, "--output", "geometry.json"]).said(0, &[]);
    let plan = |target: &str, file: &str| {
        place.flashfit(&["plan", target, "--geometry", file, "--fs", "ext4"])
    };
    plan("sim:sd-c4-block", "geometry.json").said(2, &["of another device", "flashfit probe"]);
    place.file("other.json", "{\"schema\": \"flashfit.plan\"}");
    plan(&card, "other.json").said(2, &["is not the result of a probe"]);
    plan(&card, "none.json").said(2, &["cannot read none.json"]);
    let tune = ["tune", "sim:sd-c4-block", "--geometry", "geometry.json", "--dry-run"];
    place.flashfit(&tune).said(2, &["of another device"]);
}

/// A fake card loses files, whatever is made of it.
#[test]
fn the_probe_of_a_fake_is_not_used() {
    let place = Place::new();
    let real = "[fake]\nreal_capacity = \"64MiB\"\nbeyond = \"lost\"\n";
    place.file("fake.toml", &format!("{FAST_CARD}{real}"));
    let card = format!("sim:{}", place.arg("fake.toml"));
    let fake = "has 64 MiB, not 160 MiB: it is a fake";
    let probed = place.flashfit(&["probe", &card, "--write", "--output", "fake.json"]);
    probed.said(1, &[fake]);
    assert!(!probed.stdout.contains("What to do next"), "{}", probed.stdout);
    let text = std::fs::read_to_string(place.path("fake.json")).unwrap();
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    let next = &found["next"];
    assert!(next["mkfs"].is_null() && next["partition_start_bytes"].is_null(), "{next}");
    assert_eq!(next["commands"], serde_json::json!([]), "{next}");
    // The same device loses data within what it has.
    let mut lossy = found.clone();
    let capacity = serde_json::json!({
        "verdict": "inconclusive",
        "reason": "the device does not keep what is written at offset 4096",
        "candidates": [],
    });
    lossy["capacity"] = capacity;
    let message = "4096 bytes written at offset 4096 were not read back";
    lossy["errors"] =
        serde_json::json!([{ "offset": 4096, "length_bytes": 4096, "message": message }]);
    place.file("lossy.json", &lossy.to_string());
    place.image("image", 160);
    for (file, says, seen) in [
        ("fake.json", format!("fake.json: {card} {fake}"), "64 MiB, not 160 MiB"),
        ("lossy.json", "does not keep what is written".to_owned(), "does not keep what is"),
    ] {
        let geometry = ["--geometry", file];
        let refused = [&says[..], "hint: "];
        place.flashfit(&[&["plan", &card], &geometry[..]].concat()).said(1, &refused);
        let tune = ["tune", &card, "--dry-run", "--config", "short.toml"];
        place.flashfit(&[&tune[..], &geometry].concat()).said(1, &refused);
        let checked = place.flashfit(&[&["check", "image", "--json"], &geometry[..]].concat());
        assert_eq!(checked.code, Some(1), "{checked:#?}");
        let checked: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
        let (worst, next) = (&checked["data"]["findings"][0], &checked["data"]["next"]);
        assert_eq!((&worst["check"], &worst["severity"]), (&"capacity".into(), &"bad".into()));
        assert!(worst["evidence"].as_str().unwrap().contains(seen), "{worst}");
        assert_eq!(next["commands"], serde_json::json!([]), "{next}");
    }
}

/// A probe that wrote tested the capacity.
#[test]
fn a_check_takes_the_capacity_from_the_file() {
    let place = Place::new();
    let card = place.card();
    place.flashfit(&["probe", &card, "--write", "--output", "geometry.json"]).said(0, &[]);
    place.image("image", 160);
    let checked = place.flashfit(&["check", "image", "--geometry", "geometry.json", "--json"]);
    let checked = checked.document("flashfit.check");
    let findings = checked["findings"].as_array().unwrap();
    let tested = findings.iter().find(|finding| finding["check"] == "capacity").unwrap();
    assert_eq!(tested["severity"], "fine", "{tested}");
}

#[test]
fn sizes_of_a_probe_file_have_the_limits_of_the_flags() {
    let place = Place::new();
    let card = card_that_shows_its_units(&place);
    place.flashfit(&["probe", &card, "--output", "geometry.json"]).said(0, &[]);
    let text = std::fs::read_to_string(place.path("geometry.json")).unwrap();
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mib = found["medium"]["capacity_bytes"].as_u64().unwrap() >> 20;
    place.image("image", mib);
    for (bytes, why) in [(1_u64 << 40, "larger than the device"), (1000, "not made of sectors")] {
        let mut wrong = found.clone();
        wrong["erase_unit"]["bytes"] = bytes.into();
        place.file("wrong.json", &wrong.to_string());
        for command in [&["plan", &card][..], &["plan", "image"], &["check", "image"]] {
            let ended = place.flashfit(&[command, &["--geometry", "wrong.json"]].concat());
            ended.said(2, &["wrong.json: an erase block of", why, "hint: probe this device"]);
        }
    }
}

#[test]
fn plans_start_where_the_first_erase_block_starts() {
    let place = Place::new();
    let card = card_that_shows_its_units(&place);
    place.flashfit(&["probe", &card, "--output", "geometry.json"]).said(0, &[]);
    let text = std::fs::read_to_string(place.path("geometry.json")).unwrap();
    let mut found: serde_json::Value = serde_json::from_str(&text).unwrap();
    let offset = |bytes: u64| serde_json::json!({"verdict": "found", "bytes": bytes, "confidence": 0.99, "reason": "x"});
    found["erase_unit_offset"] = offset(2 << 20);
    place.file("later.json", &found.to_string());
    let args = ["plan", &card, "--geometry", "later.json", "--fs", "ext4"];
    let plans = place.flashfit(&[&args[..], &["--json"]].concat()).document("flashfit.plans");
    let plan = &plans["plans"][0];
    assert_eq!(plan["geometry"]["used"]["erase_block_offset_bytes"], 2 << 20);
    assert_eq!(plan["place"]["start_bytes"], 2 << 20, "{plan}");
    let ended = place.flashfit(&[&args[..], &["--start", "6MiB"]].concat());
    ended.said(0, &[]);
    let text = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = "the first erase block starts 2097152 bytes after the start of the disk";
    assert!(text.contains(first) && text.contains("on a boundary"), "{text}");
    // Of a partition, the position counts from its start.
    found["medium"]["partition_start_bytes"] = (2 << 20).into();
    place.file("part.json", &found.to_string());
    let args = ["plan", &card, "--geometry", "part.json", "--fs", "ext4"];
    let ended = place.flashfit(&args);
    ended.said(0, &[]);
    assert!(!ended.stdout.contains("first erase block"), "{}", ended.stdout);
    found["erase_unit_offset"] = offset(513);
    place.file("odd.json", &found.to_string());
    let ended = place.flashfit(&["plan", &card, "--geometry", "odd.json"]);
    ended.said(2, &["odd.json: `erase_unit_offset`: 513 bytes", "hint: probe the device again"]);
}

/// An image has no serial number, and says nothing of the device that was probed.
#[test]
fn a_probe_file_that_may_be_of_another_device_is_in_doubt() {
    let place = Place::new();
    let card = card_that_shows_its_units(&place);
    place.flashfit(&["probe", &card, "--output", "geometry.json"]).said(0, &[]);
    let text = std::fs::read_to_string(place.path("geometry.json")).unwrap();
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    place.image("image", found["medium"]["capacity_bytes"].as_u64().unwrap() >> 20);
    let of = |target: &str| {
        let ended = place.flashfit(&["check", target, "--geometry", "geometry.json"]);
        ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let doubt = "the probe in geometry.json may be of another device: its kind was";
    let text = of("image");
    assert!(text.contains(doubt), "{text}");
    assert!(!text.contains("To be sure"), "another probe of an image says no more: {text}");
    let copy = std::fs::read_to_string(place.path(card.trim_start_matches("sim:"))).unwrap();
    place.file("copy.toml", &copy);
    let copy = format!("sim:{}", place.path("copy.toml").display());
    let planned = place.flashfit(&["plan", &copy, "--geometry", "geometry.json", "--fs", "ext4"]);
    let text = planned.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("it was sim:") && text.contains("To be sure"), "{text}");
    let plan = ["plan", &card, "--geometry", "geometry.json", "--fs", "ext4"];
    let planned = place.flashfit(&plan);
    assert!(!planned.stdout.contains("another device"), "{}", planned.stdout);
}
