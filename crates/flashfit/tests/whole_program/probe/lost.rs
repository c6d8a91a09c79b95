//! Probes that do not finish: the card disappears, or the user interrupts.

use std::time::Duration;

use rustix::process::Signal;

use crate::card::Serving;
use crate::fixture::{Ended, Place, skip_without_cards, wait_until};
use crate::machine::{Server, signal};

use super::document;

/// A card on which a read-only probe takes some seconds.
const SLOW: &str = "sd-c4-block";

fn slow_card(place: &Place) {
    let text = place.flashfit(&["card", "show", SLOW, "--file"]).stdout;
    place.file("card.toml", &text);
}

/// Completed reads of a device (Documentation/block/stat.rst).
fn reads_of(device: &str) -> u64 {
    statistic(device, 0)
}

fn statistic(device: &str, column: usize) -> u64 {
    let name = device.trim_start_matches("/dev/");
    let text = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap_or_default();
    text.split_whitespace().nth(column).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Completed writes.
fn writes_of(device: &str) -> u64 {
    statistic(device, 4)
}

#[test]
fn a_card_that_disappears_is_an_error() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    slow_card(&place);
    let serving = Serving::new(&place, &[]);
    let server = Server::of(&place);
    let before = reads_of(serving.arg());
    let child = place.command(&["probe", serving.arg(), "--json"]).spawn().unwrap();
    wait_until("the probe reads", || reads_of(serving.arg()) > before + 100);
    signal(server.process, Signal::KILL);
    let ended = Ended::of(child);
    assert_eq!(ended.code, Some(5), "{ended:#?}");
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["error"]["class"], "io", "a verdict on a card that vanished");
    assert!(ended.stderr.contains("error"), "{}", ended.stderr);
}

#[test]
fn what_was_found_before_a_card_disappears_is_kept() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    slow_card(&place);
    let serving = Serving::new(&place, &[]);
    let server = Server::of(&place);
    let node = serving.arg();
    let confirm = ["--confirm", node.trim_start_matches("/dev/"), "--output", "found.json"];
    let probe = ["probe", node, "--write", "--json"];
    let child = place.command(&[&probe[..], &confirm].concat()).spawn().unwrap();
    // More than the capacity takes.
    wait_until("the probe writes", || writes_of(node) > 300);
    signal(server.process, Signal::KILL);
    let ended = Ended::of(child);
    ended.said(5, &[&format!("error: {node}: "), "hint: run `dmesg`"]);
    let found = document(&ended, 5);
    assert_eq!(found["capacity"]["verdict"], "found", "{ended:#?}");
    assert_eq!(found["next"]["commands"], serde_json::json!([]));
    assert!(place.path("found.json").exists());
}

#[test]
fn an_interrupted_probe_tells_what_it_knows_and_exits_with_6() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    slow_card(&place);
    let serving = Serving::new(&place, &[]);
    let before = reads_of(serving.arg());
    let child = place.command(&["probe", serving.arg(), "--json"]).spawn().unwrap();
    wait_until("the probe reads", || reads_of(serving.arg()) > before + 100);
    std::thread::sleep(Duration::from_millis(50));
    signal(child.id(), Signal::INT);
    let ended = Ended::of(child);
    let found = document(&ended, 6);
    assert_eq!(found["interrupted"], true);
    assert_ne!(found["erase_unit"]["verdict"], "found");
    assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
}
