//! Writing probes: only confirmed data is overwritten.

use std::path::Path;

use serde_json::Value;

use crate::fixture::{FAST_CARD, Place, skip_without_block_devices};
use crate::machine::PlainLoop;
use crate::terminal::Terminal;

use super::document;

const MIB: usize = 1 << 20;

/// Asserts that `work` does not change `file`.
#[track_caller]
fn unchanged(file: &Path, work: impl FnOnce()) {
    let before = std::fs::read(file).unwrap();
    work();
    assert!(before == std::fs::read(file).unwrap(), "{} was written to", file.display());
}

#[test]
fn without_confirmation_or_in_a_dry_run_nothing_is_written() {
    let place = Place::new();
    let image = place.image("card.img", 64);
    unchanged(&image, || {
        let ended = place.flashfit(&["probe", "card.img", "--write"]);
        ended.said(3, &["All data on", "Price of probing: ", "add --confirm card.img"]);
        assert!(!ended.stderr.contains("from byte"), "all of it: {}", ended.stderr);
        let wrong = ["probe", "card.img", "--write", "--confirm", "other"];
        place.flashfit(&wrong).said(3, &["`other` is not the name"]);
        let probe = ["probe", "card.img", "--write", "--dry-run"];
        let dry = place.flashfit(&probe);
        dry.said(0, &[]);
        assert!(dry.stdout.contains("Nothing was done."), "{}", dry.stdout);
        let only = "Only the capacity will be tested: this is a file";
        assert!(dry.stdout.contains(only), "{}", dry.stdout);
        let json = [&probe[..], &["--json"]].concat();
        let would = place.flashfit(&json).document("flashfit.would-probe");
        assert!(would["only_capacity"].is_string(), "{would}");
        assert!(would["price"]["written_bytes"][1].as_u64().unwrap() < 16 << 20, "{would}");
        // It ends at its limit and not before, whatever the reads promise.
        assert_eq!(would["price"]["time_ns"][1], 15 * 60 * 1_000_000_000_u64, "{would}");
        let limited = [&json[..], &["--max-time", "40s"]].concat();
        let would = place.flashfit(&limited).document("flashfit.would-probe");
        assert_eq!(would["price"]["time_ns"][1], 40_000_000_000_u64, "{would}");
        // Rates for a twin are measured, whatever is behind the file.
        let twin = ["--twin", "twin.toml"];
        let dry = place.flashfit(&[&probe[..], &twin].concat()).stdout.replace('\n', " ");
        assert!(dry.contains("Up to 2.1 GiB are for the probe and "), "{dry}");
        let would = place.flashfit(&[&json[..], &twin].concat()).document("flashfit.would-probe");
        let price = &would["price"];
        assert!(would["only_capacity"].is_null(), "{would}");
        let twin_bytes = would["twin_written_bytes"].as_u64().unwrap();
        let most = (64_u64 << 20) * 9 / 4 + (2 << 30) + twin_bytes;
        assert_eq!(price["written_bytes"][1], most, "{would}");
        assert!(price["time_ns"][0].as_u64() <= price["time_ns"][1].as_u64(), "{price}");
        assert_eq!(price["time_ns"][1], 25 * 60 * 1_000_000_000_u64, "{price}");
        assert!(price["wear"].is_null(), "a file has no erase blocks: {price}");
        assert!(would["lost"][0].as_str().unwrap().starts_with("All data on"), "{would}");
    });
}

#[test]
fn the_price_of_a_simulated_card_has_its_rated_life() {
    let place = Place::new();
    let dry = ["probe", "sim:sd-c4-block", "--write", "--dry-run"];
    let ended = place.flashfit(&dry);
    for part in ["nothing is lost", "erases of each erase block", "rated for", "device's life"] {
        let text = ended.stdout.replace('\n', " ");
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = place.flashfit(&[&dry[..], &["--json"]].concat()).document("flashfit.would-probe");
    let wear = &json["price"]["wear"];
    assert_eq!(wear["rated_is_assumed"], false, "{json}");
    assert!(wear["life_percent_thousandths"][1].as_u64().unwrap() > 0, "{json}");
}

#[test]
fn only_the_allowed_region_and_amount_are_written() {
    let place = Place::new();
    let image = place.image("card.img", 64);
    let before = std::fs::read(&image).unwrap();
    let args = [
        "probe",
        "card.img",
        "--write",
        "--confirm",
        "card.img",
        "--region",
        "16MiB+32MiB",
        "--max-write",
        "40MiB",
        "--json",
    ];
    let found = document(&place.flashfit(&args), 0);
    assert!(found["cost"]["written_bytes"].as_u64().unwrap() <= 40 << 20, "{}", found["cost"]);
    assert!(found["cost"]["written_bytes"].as_u64().unwrap() > 0);
    assert_ne!(found["erase_unit"]["verdict"], "found", "a file has none");
    let after = std::fs::read(&image).unwrap();
    assert!(before[..16 * MIB] == after[..16 * MIB], "before the region");
    assert!(before[48 * MIB..] == after[48 * MIB..], "behind the region");
    assert!(before[16 * MIB..48 * MIB] != after[16 * MIB..48 * MIB]);
}

/// A card that is worn out during the probe.
#[test]
fn a_device_that_fails_leaves_what_was_found() {
    let place = Place::new();
    let worn = [
        ("endurance_cycles = 1000", "endurance_cycles = 12"),
        ("[bus]", "[nand.wear_out]\nspread_thousandths = 300\nearly_thousandths = 200\n[bus]"),
    ];
    let text = worn.iter().fold(FAST_CARD.to_owned(), |text, (from, to)| text.replace(from, to));
    place.file("worn.toml", &text);
    let card = format!("sim:{}", place.arg("worn.toml"));
    let ended = place.flashfit(&["probe", &card, "--write", "--output", "worn.json", "--json"]);
    let found = document(&ended, 5);
    ended.said(5, &[&format!("{card}: the device is worn out"), "hint: "]);
    assert_eq!(found["capacity"]["verdict"], "found", "{ended:#?}");
    assert_eq!(found["errors"].as_array().unwrap().len(), 1, "{}", found["errors"]);
    assert_eq!((&found["interrupted"], &found["next"]["mkfs"]), (&true.into(), &Value::Null));
    assert!(found["cost"]["written_bytes"].as_u64().unwrap() > 160 << 20, "{}", found["cost"]);
    let saved = std::fs::read_to_string(place.path("worn.json")).unwrap();
    assert_eq!(saved, ended.stdout);
}

#[test]
fn a_time_in_which_little_can_be_found_is_announced() {
    let place = Place::new();
    let look = |time: &str| {
        let args = ["probe", "sim:sd-c4-block", "--write", "--dry-run", "--max-time", time];
        place.flashfit(&args).stdout.replace('\n', " ")
    };
    let (short, long) = (look("1s"), look("1h"));
    assert!(short.contains("0 B to ") && short.contains("too short to find anything"), "{short}");
    assert!(!long.contains("too short"), "{long}");
}

#[test]
fn a_device_in_use_is_refused_with_all_flags() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    unchanged(&image, || {
        let device = PlainLoop::attach(&image, 512, &[]);
        let _user = std::fs::File::open(&device.node).unwrap();
        let args = ["probe", &device.node, "--write", "--confirm", &device.name];
        place.flashfit(&args).said(3, &["is in use: ", "is open in process"]);
        // The image belongs to an attached device.
        let args = ["probe", "image", "--write", "--confirm", "image"];
        place.flashfit(&args).said(3, &["is in use"]);
    });
}

#[test]
fn probe_results_of_a_simulated_card_match_its_model() {
    let place = Place::new();
    let found = document(&place.flashfit(&["probe", &place.card(), "--write", "--json"]), 0);
    assert_eq!(found["mode"], "write");
    assert_eq!(found["capacity"]["verdict"], "found");
    assert_eq!(found["capacity"]["bytes"], 160 << 20);
    let most = (160 << 20) * 9 / 4 + (2 << 30);
    assert!(found["cost"]["written_bytes"].as_u64().unwrap() <= most);
    for sure in ["erase_unit", "write_unit"] {
        // Every result must be correct; the accuracy tests check how many results there are.
        if found[sure]["verdict"] == "found" {
            let truth = if sure == "erase_unit" { 1 << 20 } else { 16 << 10 };
            assert_eq!(found[sure]["bytes"], truth, "{}", found[sure]);
        }
    }
}

#[test]
fn what_was_not_tested_or_measured_is_said_with_its_reason() {
    let place = Place::new();
    let region = ["--region", "0+64MiB", "--max-write", "40MiB", "--json"];
    let found =
        document(&place.flashfit(&[&["probe", &place.card(), "--write"], &region[..]].concat()), 0);
    let capacity = &found["capacity"];
    assert_eq!((&capacity["verdict"], &capacity["bytes"]), (&"inconclusive".into(), &().into()));
    let reason = capacity["reason"].as_str().unwrap();
    assert!(reason.contains("the tested 64 MiB are there"), "{reason}");
    let nothing = ["probe", &place.card(), "--write", "--max-write", "0", "--json"];
    let found = document(&place.flashfit(&nothing), 0);
    for quantity in ["capacity", "write_unit", "erase_unit", "open_units_linear"] {
        let reason = found[quantity]["reason"].as_str().unwrap();
        assert!(reason.contains("the write budget was used up"), "{quantity}: {reason}");
    }
}

#[test]
fn sizes_that_cannot_be_probed_are_refused_before_consent() {
    let place = Place::new();
    place.file("small.img", &"x".repeat(4096));
    place.image("medium.img", 8);
    for image in ["small.img", "medium.img"] {
        for more in [&["--dry-run"][..], &[]] {
            let ended = place.flashfit(&[&["probe", image, "--write"], more].concat());
            ended.said(2, &["too few to probe", "hint: "]);
            assert!(!ended.stderr.contains("Price of probing"), "{}", ended.stderr);
        }
    }
    let odd = std::fs::File::create(place.path("odd.img")).unwrap();
    odd.set_len(20_000_001).unwrap();
    drop(odd);
    place.flashfit(&["probe", "odd.img"]).said(0, &[]);
    let write = ["probe", "odd.img", "--write", "--confirm", "odd.img", "--json"];
    let found = document(&place.flashfit(&write), 0);
    assert_eq!(found["region"], serde_json::json!([0, 20_000_001 / 512 * 512]));
}

#[test]
fn an_interrupt_at_the_question_for_more_time_keeps_the_result() {
    let place = Place::new();
    let region = ["--region", "0+64MiB", "--output", "geo.json"];
    let args = ["probe", "sim:sd-c4-block", "--write", "--max-time", "1s"];
    let mut terminal = Terminal::start(place.command(&[&args[..], &region].concat()));
    terminal.wait_for("Go on for as long again? [y/N] ");
    terminal.interrupts();
    terminal.ends().said(6, &["interrupted"]);
    let saved = std::fs::read_to_string(place.path("geo.json")).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    assert_eq!(saved["schema"], "flashfit.probe");
    assert_eq!(saved["interrupted"], true, "{saved}");
}

#[test]
fn a_file_that_cannot_be_written_does_not_stop_the_others() {
    let place = Place::new();
    let one = ["--svg", "./one", "--output", "one"];
    let probe = ["probe", &place.card(), "--write"];
    place.flashfit(&[&probe[..], &one].concat()).said(2, &["one is named for two", "hint: "]);
    if skip_without_block_devices() {
        return;
    }
    let script = format!(
        "cd {} && mkdir full && mount -t tmpfs -o size=4k tmpfs full || exit 99; \
         head -c 4096 /dev/zero > full/other; exec \"$FLASHFIT\" probe {} --write \
         --svg full/x.svg --output geo.json",
        place.folder().display(),
        place.card()
    );
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).env("FLASHFIT", crate::fixture::FLASHFIT);
    let ended = crate::fixture::Ended::new(command.output().unwrap());
    ended.said(4, &["no space left for full/x.svg", "hint: make room, or name a file elsewhere\n"]);
    assert!(ended.stdout.contains("erase block"), "{}", ended.stdout);
    assert!(place.path("geo.json").exists());
}

#[test]
fn too_few_bytes_for_a_twin_are_said_with_the_flag_that_helps() {
    let place = Place::new();
    let args = ["probe", "sim:sd-c10-log", "--write", "--max-write", "20MiB", "--twin", "t.toml"];
    let ended = place.flashfit(&args);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    let text = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("the 10 MiB that may be written for the twin are used up"), "{text}");
    assert!(text.contains("hint: give a larger --max-write SIZE"), "{text}");
    assert!(!place.path("t.toml").exists());
}
