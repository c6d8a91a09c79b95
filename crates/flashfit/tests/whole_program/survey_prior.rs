//! `flashfit tune --survey`: a search that begins with results of similar devices.

use serde_json::Value;

use crate::fixture::{Place, skip_without_cards};
use crate::survey::{cid, run};

#[test]
fn a_replay_begins_with_other_cards_of_the_product_and_never_with_itself() {
    let place = Place::new();
    run(&place, "a", &cid(0x7654_3210), 1, 1.0);
    run(&place, "b", &cid(0x7654_3211), 2, 0.9);
    let other = "1b534d534433324780765432100012b0".replace("0012b0", "1012b0");
    run(&place, "other", &other, 3, 1.0);
    place.flashfit(&["survey", "add", "a", "--db", "one.db"]).said(0, &[]);
    let replay = |run: &str| {
        place.flashfit(&["tune", "--replay", run, "--survey", "one.db", "--trials", "6"])
    };
    replay("b").said(0, &["2 results of a device of this product, from 1 run, are known"]);
    replay("a").said(0, &["one.db has no similar device"]);
    replay("other").said(0, &["one.db has no similar device"]);
    // The same card, measured before.
    run(&place, "a-later", &cid(0x7654_3210), 4, 1.0);
    replay("a-later").said(0, &["2 results of this device, from 1 run"]);
    let ended = place.flashfit(&["tune", "--replay", "b", "--survey", "none.db", "--trials", "6"]);
    ended.said(2, &["none.db", "flashfit survey add"]);
}

#[test]
fn a_run_keeps_what_it_began_with() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let card = place.card();
    place.tune(&card, &["--trials", "8"]).said(0, &[]);
    std::fs::rename(place.path("run"), place.path("first")).unwrap();
    place.flashfit(&["survey", "add", "first", "--db", "cards.db"]).said(0, &[]);
    let dry = place.tune(&card, &["--survey", "cards.db", "--dry-run"]);
    dry.said(0, &["of a device of this product"]);
    assert!(!place.path("run").exists());
    place.tune(&card, &["--survey", "cards.db", "--trials", "8"]).said(0, &[]);
    let text = std::fs::read_to_string(place.path("run/run.json")).unwrap();
    let header: Value = serde_json::from_str(&text).unwrap();
    let source = &header["spec"]["prior"]["sources"][0];
    assert_eq!(source["likeness"], "same-product");
    assert!(!source["results"].as_array().unwrap().is_empty());
    let report = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(report.contains("were known before the first trial"));
    // It goes on without the survey.
    std::fs::remove_file(place.path("cards.db")).unwrap();
    let resumed = place.flashfit(&["tune", "--resume", "run", "--trials", "10"]);
    resumed.said(0, &[]);
    let after = std::fs::read_to_string(place.path("run/run.json")).unwrap();
    let after: Value = serde_json::from_str(&after).unwrap();
    assert_eq!(after["spec"]["prior"], header["spec"]["prior"]);
    assert_eq!(after["extensions"][0]["before"].get("prior"), None);
}
