//! `flashfit check` on a served card, and errors as documents for scripts.

use std::io::Read as _;
use std::time::{Duration, Instant};

use crate::card::Serving;
use crate::fixture::{Place, skip_without_cards};

/// What the documentation promises for the whole check.
const LONGEST: Duration = Duration::from_secs(5);

#[test]
fn a_check_measures_the_erase_block_and_proposes_what_follows() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let card = Serving::of(place.command(&["card", "serve", "sd-c4-block"]));
    let begin = Instant::now();
    let checked = place.flashfit(&["check", card.arg(), "--json"]).document("flashfit.check");
    // Other tests run at the same time; the check itself limits the time of its reads.
    assert!(begin.elapsed() < LONGEST * 4, "{:?}", begin.elapsed());
    assert_eq!(checked["reading"]["outcome"], "made");
    // On a busy computer it may be silent, but not wrong.
    let erase_block = &checked["reading"]["findings"]["erase_unit"];
    let is_found = erase_block["verdict"] == "found";
    assert!(!is_found || erase_block["bytes"] == 4 << 20, "{erase_block}");
    let commands = checked["next"]["commands"].as_array().unwrap();
    let lines: Vec<&str> = commands.iter().map(|next| next["line"].as_str().unwrap()).collect();
    assert_eq!(lines[0].contains("--erase-block 4MiB"), is_found, "{lines:?}");
    for next in commands {
        assert!(!next["price"].as_str().unwrap().is_empty());
        let erases = !next["line"].as_str().unwrap().starts_with("flashfit plan");
        assert_eq!(next["erases"], erases, "{next}");
    }
    let text = place.flashfit(&["check", card.arg()]).stdout;
    for part in ["How it is built", "fake (counterfeit)", "ERASES it", "Verdict: cannot tell"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    place.flashfit(&["check", card.arg(), "--strict"]).said(1, &["could not be determined"]);
}

#[test]
fn a_geometry_in_a_file_is_passed_on() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let card = Serving::of(place.command(&["card", "serve", "sd-c4-block"]));
    let target = card.arg();
    place.flashfit(&["probe", target, "--output", "g.json"]).said(0, &[]);
    // The computer may be too busy to find it.
    let text = std::fs::read_to_string(place.path("g.json")).unwrap();
    let mut found: serde_json::Value = serde_json::from_str(&text).unwrap();
    found["erase_unit"] = serde_json::json!({
        "verdict": "found", "bytes": 4 << 20, "confidence": 0.99, "reason": "a step",
    });
    place.file("g.json", &found.to_string());
    let args = ["check", target, "--geometry", "g.json", "--json"];
    let checked = place.flashfit(&args).document("flashfit.check");
    let line = |at: usize| checked["next"]["commands"][at]["line"].as_str().unwrap();
    assert_eq!(line(0), format!("flashfit plan {target} --geometry g.json"));
    assert_eq!(line(1), format!("flashfit tune {target} --geometry g.json --budget 30min"));
}

/// Its first bytes may still be in the page cache.
#[test]
fn a_device_that_cannot_be_read_is_not_said_to_be_empty_or_fine() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let card = Serving::of(place.command(&["card", "serve", "sd-c4-block"]));
    let mkfs = std::process::Command::new("mkfs.ext4").arg("-q").arg(card.arg()).status();
    assert!(mkfs.unwrap().success());
    let mut start = [0; 64 << 10];
    std::fs::File::open(card.arg()).unwrap().read_exact(&mut start).unwrap();
    place.flashfit(&["card", "cut", card.arg()]).said(0, &[]);
    // Without cached pages, even the record of an unfinished `apply` cannot be read.
    let flush = std::process::Command::new("blockdev").args(["--flushbufs", card.arg()]).status();
    assert!(flush.unwrap().success());
    for given in [&[][..], &["--erase-block", "4MiB"]] {
        let uncached = place.flashfit(&[&["check", card.arg()], given].concat());
        uncached.said(1, &["1 thing wrong"]);
    }
    let ended = place.flashfit(&["check", card.arg(), "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let checked: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let checked = &checked["data"];
    assert_eq!(checked["verdict"], "bad", "{checked:#}");
    assert_eq!(checked["findings"][0]["check"], "readable", "{checked:#}");
    assert_eq!(checked["next"]["commands"], serde_json::json!([]), "{checked:#}");
    let ended = place.flashfit(&["check", card.arg()]);
    ended.said(1, &[]);
    let text = ended.stdout.replace('\n', " ");
    assert!(text.contains("something is wrong") && text.contains("reads fail"), "{text}");
    assert!(!text.contains("no known file system") && !text.contains("Next:"), "{text}");
    // Where nothing is timed, the file system still cannot be read.
    let given = place.flashfit(&["check", card.arg(), "--erase-block", "4MiB"]).stdout;
    assert!(!given.contains("no known file system"), "{given}");
}

#[test]
fn a_search_reads_the_erase_block_of_its_device() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let card = Serving::of(place.command(&["card", "serve", "sd-c4-block"]));
    let tune = |more: &[&str]| {
        let args = [&["tune", card.arg(), "--fs", "ext4", "--dry-run"][..], more].concat();
        place.flashfit(&args).stdout
    };
    // On a busy computer the reads may show nothing, or be less sure and say so.
    let read = tune(&[]);
    let is_unsure = ["erase block is unknown", "(not certain,"].iter().any(|it| read.contains(it));
    assert!(is_unsure || read.contains("erase block 4 MiB ("), "{read}");
    assert!(!tune(&["--no-probe"]).contains("(probed)"));
    let args = ["tune", card.arg(), "--fs", "ext4", "--no-probe", "--dry-run", "--json"];
    let would = place.flashfit(&args).document("flashfit.would-tune");
    assert_eq!((&would["target"], &would["simulated"]), (&card.arg().into(), &false.into()));
    assert!(would["lost"][0].as_str().unwrap().contains("will be lost"), "{would}");
    assert!(would["setups"].as_array().unwrap().len() > 1);
    let written = &would["forecast"]["written_bytes"];
    assert!(written[0].as_u64().unwrap() < written[1].as_u64().unwrap(), "{would}");
}

#[test]
fn an_error_is_a_document_for_scripts() {
    let place = Place::new();
    for (args, code, class) in [
        (&["check", "no-such-image", "--json"][..], 2, "usage"),
        (&["inspect", "--no-such-flag", "--json"], 2, "usage"),
        (&["restore", "no-such-backup", "/dev/null", "--json"], 2, "usage"),
    ] {
        let ended = place.flashfit(args);
        ended.said(code, &[]);
        let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(document["schema"], "flashfit.error", "{args:?}");
        assert_eq!(document["error"]["class"], class, "{args:?}");
        assert!(!document["error"]["message"].as_str().unwrap().is_empty());
        assert!(document.get("data").is_none());
    }
    assert_eq!(place.flashfit(&["check", "no-such-image"]).stdout, "");
}

#[test]
fn a_bad_verdict_is_one_document() {
    let place = Place::new();
    place.image("image", 8);
    let ended = place.flashfit(&["check", "image", "--strict", "--json"]);
    ended.said(1, &["could not be determined"]);
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "flashfit.check");
    assert_eq!(document["data"]["reading"]["reason"], "is-file");
}
