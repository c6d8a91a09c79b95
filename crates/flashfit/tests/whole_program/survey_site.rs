//! `flashfit survey html`: pages of written runs and a probe.

use std::time::Duration;

use serde_json::json;

use crate::fixture::Place;
use crate::survey::{cid, run};

/// Five cards of one product, the last one slow, and a simulated one that was probed.
fn surveyed() -> Place {
    let place = Place::new();
    for number in 0..5u32 {
        let factor = if number == 4 { 0.5 } else { 1.0 };
        let name = format!("runs/{number}");
        run(&place, &name, &cid(0x7654_3210 + number), u64::from(number), factor);
    }
    let card = place.card();
    place.flashfit(&["probe", &card, "--output", "runs/probe.json"]).said(0, &[]);
    place.flashfit(&["survey", "add", "runs", "--with-serial"]).said(0, &[]);
    place
}

#[test]
fn pages_are_complete_or_absent_and_replace_nothing() {
    let place = surveyed();
    let html = ["survey", "html", "site"];
    let document = place.flashfit(&[&html[..], &["--json"]].concat());
    let document = document.document("flashfit.survey-site");
    let counts = ["products", "simulated_products", "cards", "marked_cards", "pages"];
    assert_eq!(counts.map(|name| document[name].clone()), [1, 1, 6, 1, 3].map(|n| json!(n)));
    let index = std::fs::read_to_string(place.path("site/index.html")).unwrap();
    assert!(index.contains("SL32G") && index.contains("id=\"simulated\""), "{index}");
    // Of the serial number, which the survey has.
    assert!(!index.contains("7654321") && !index.contains(&place.arg("")), "{index}");
    place.flashfit(&html).said(3, &["site exists", "does not exist"]);
    let ended = place.flashfit(&["survey", "html", "real", "--where", "simulated=false"]);
    ended.said(0, &[]);
    assert!(ended.stdout.contains("2 pages of 1 product, "), "{}", ended.stdout);
    let index = std::fs::read_to_string(place.path("real/index.html")).unwrap();
    assert!(
        !index.contains("id=\"simulated\"") && index.contains("1 card is marked with !"),
        "{index}"
    );
    place.flashfit(&["survey", "html", "x", "--where", "colour=red"]).said(2, &["`colour`"]);
    place
        .flashfit(&["survey", "html", "no/such/x"])
        .said(4, &["cannot write no/such/x.unfinished"]);
    assert!(!place.path("x").exists());
}

#[test]
fn what_a_kill_left_is_replaced_by_the_next_start() {
    let place = surveyed();
    let mut unfinished = 0;
    for wait_us in (0..30).map(|step| step * 1500) {
        let mut child = place.command(&["survey", "html", "site"]).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(wait_us));
        child.kill().unwrap();
        child.wait().unwrap();
        unfinished += usize::from(place.path("site.unfinished").exists());
        if place.path("site").exists() {
            assert!(place.path("site/index.html").exists(), "a page is missing");
            std::fs::remove_dir_all(place.path("site")).unwrap();
        }
    }
    eprintln!("kills that left something: {unfinished}");
    place.flashfit(&["survey", "html", "site"]).said(0, &[]);
    assert!(place.path("site/index.html").exists() && !place.path("site.unfinished").exists());
}
