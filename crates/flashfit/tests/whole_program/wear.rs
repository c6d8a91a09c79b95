//! `flashfit wear show` and `wear measure` on simulated cards and plain loop devices.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::card::Serving;
use crate::fixture::{
    Ended, FAST_CARD, Place, skip_without_block_devices, skip_without_cards, wait_until,
};
use crate::machine::{PlainLoop, processes, signal, words};

fn served() -> (Place, Serving) {
    let place = Place::new();
    place.file("card.toml", FAST_CARD);
    let serving = Serving::new(&place, &[]);
    (place, serving)
}

/// Writes this many blocks of 64 KiB to the start of a device.
fn writes<'a>(output: &'a str, count: &'a str) -> [&'a str; 8] {
    ["dd", "if=/dev/zero", output, "bs=64k", count, "oflag=direct", "conv=notrunc", "status=none"]
}

#[track_caller]
fn counter<'a>(data: &'a Value, id: &str) -> &'a Value {
    let counters = data["counters"].as_array().unwrap();
    counters.iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("no {id}: {data:#}"))
}

#[test]
fn a_simulated_card_is_shown_as_simulated() {
    if skip_without_cards() {
        return;
    }
    let (place, serving) = served();
    let data = place.flashfit(&["wear", "show", serving.arg(), "--json"]);
    let data = data.document("flashfit.wear-show");
    assert_eq!(counter(&data, "simulated.flash_written")["is_simulated"], true);
    assert_eq!(counter(&data, "kernel.written")["step"], 512);
    let text = place.flashfit(&["wear", "show", serving.arg()]);
    text.said(0, &[]);
    assert!(text.stdout.contains("figures of its model"), "{}", text.stdout);
}

#[test]
fn the_cost_of_a_command_is_measured() {
    if skip_without_cards() {
        return;
    }
    let (place, serving) = served();
    let output = format!("of={}", serving.arg());
    let args =
        [&["wear", "measure", serving.arg(), "--json", "--"], &writes(&output, "count=32")[..]];
    let data = place.flashfit(&args.concat()).document("flashfit.wear-measure");
    assert_eq!(data["end"], "resolved", "{data:#}");
    let runs = data["runs"].as_u64().unwrap();
    assert!(runs >= 3, "{data:#}");
    for id in ["kernel.written", "simulated.host_written"] {
        assert_eq!(counter(&data, id)["total"], runs * (2 << 20), "{id}: {data:#}");
    }
    let ratio = &data["write_amplification"];
    assert!(ratio["low"].as_f64().unwrap() <= 1.0 && ratio["high"].as_f64().unwrap() >= 1.0);
    assert_eq!(data["is_simulated"], true);
}

#[test]
fn a_counter_that_is_too_coarse_is_refused_with_the_volume() {
    if skip_without_cards() {
        return;
    }
    let (place, serving) = served();
    let marker = place.path("ran");
    let touch = ["--", "touch", marker.to_str().unwrap()];
    let coarse = ["--counter", "simulated.erases_most", "--max-write", "100MiB"];
    let args = [&["wear", "measure", serving.arg()], &coarse[..], &touch[..]].concat();
    place.flashfit(&args).said(3, &["too coarse", "1.7 GB", "--counter kernel.written"]);
    assert!(!marker.exists(), "nothing runs before the refusal");
    let args = ["wear", "measure", serving.arg(), "--counter", "x", "--", "true"];
    place.flashfit(&args).said(2, &["no counter `x`", "kernel.written"]);
}

#[test]
fn commands_that_measure_nothing_are_errors() {
    if skip_without_cards() {
        return;
    }
    let (place, serving) = served();
    let measure =
        |more: &[&str]| place.flashfit(&[&["wear", "measure", serving.arg()], more].concat());
    measure(&["--", "true"]).said(1, &["wrote nothing"]);
    measure(&["--", "sh", "-c", "exit 7"]).said(1, &["exit code 7"]);
    measure(&["--", "flashfit-no-such-program"]).said(4, &["was not found"]);
    measure(&[]).said(2, &["COMMAND"]);
    measure(&["--error", "0", "--", "true"]).said(2, &["--error"]);
    let output = format!("of={}", serving.arg());
    let few = [
        &["--counter", "simulated.erases", "--repeat", "2", "--"],
        &writes(&output, "count=1")[..],
    ];
    measure(&few.concat()).said(1, &["is not resolved", "--repeat"]);
    let volume = ["--counter", "kernel.written", "--max-write", "3MiB"];
    let once = [&volume[..], &["--"], &writes(&output, "count=32")[..]].concat();
    let ended = measure(&once);
    ended.said(1, &["takes at least 3 runs, not 1", "--max-write"]);
    assert!(ended.stdout.contains("so there is no interval"), "{}", ended.stdout);
    let script =
        format!("dd if=/dev/urandom of={} bs=64k count=$((8 + $RANDOM % 64))", serving.arg());
    let uneven = ["--counter", "kernel.written", "--repeat", "4", "--error", "1", "--"];
    measure(&[&uneven[..], &["bash", "-c", &script]].concat())
        .said(1, &["the runs differ by more"]);
}

#[test]
fn without_wear_counters_the_host_writes_are_measured() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let device = PlainLoop::attach(&place.image("image", 16), 512, &[]);
    let node = device.node.as_str();
    let output = format!("of={node}");
    let ended = place
        .flashfit(&[&["wear", "measure", node, "--"], &writes(&output, "count=16")[..]].concat());
    ended.said(0, &[]);
    assert!(ended.stdout.contains("reports nothing about the wear"), "{}", ended.stdout);
    assert!(ended.stdout.contains("1.0 MB"), "{}", ended.stdout);
}

/// A loop device that the measured command may give away: others can take the node at once.
struct ShortLived(Option<PlainLoop>, PathBuf);

impl ShortLived {
    fn attach(place: &Place) -> Self {
        let device = PlainLoop::attach(&place.image("image", 16), 512, &[]);
        Self(Some(device), place.folder().to_owned())
    }

    fn node(&self) -> String {
        self.0.as_ref().unwrap().node.clone()
    }
}

impl Drop for ShortLived {
    /// Detaches the device only if it is still one of this test's files.
    fn drop(&mut self) {
        let device = self.0.take().unwrap();
        let backing = format!("/sys/block/{}/loop/backing_file", device.name);
        let backing = std::fs::read_to_string(backing).unwrap_or_default();
        if !Path::new(backing.trim()).starts_with(&self.1) {
            std::mem::forget(device);
        }
    }
}

#[test]
fn a_device_that_vanishes_or_is_replaced_is_an_error() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let other = place.image("other", 16);
    for then in ["true".to_owned(), format!("losetup $node {} || true", other.display())] {
        let device = ShortLived::attach(&place);
        let script = format!("node={}; losetup -d $node && {then}", device.node());
        let ended = place.flashfit(&["wear", "measure", &device.node(), "--", "sh", "-c", &script]);
        ended.said(5, &["error: /dev/loop"]);
        let says = |text: &str| ended.stderr.contains(text);
        let is_replaced = says("is another device than before the command ran");
        assert!(is_replaced || says("vanished while the command ran"), "{}", ended.stderr);
    }
}

#[test]
fn an_interrupt_ends_the_command_and_its_children() {
    if skip_without_cards() {
        return;
    }
    let (place, serving) = served();
    let marker = format!("{}.25", 70_000 + std::process::id() % 1000);
    let sleeps = format!("sleep {marker} & sleep {marker}; wait");
    let child = place
        .command(&["wear", "measure", serving.arg(), "--", "sh", "-c", &sleeps])
        .spawn()
        .unwrap();
    let sleeping = || {
        let is_one = |process: &u32| words(*process).contains(&marker);
        processes().iter().filter(|process| is_one(process)).count()
    };
    // The shell has the number among its words too, as part of its script.
    wait_until("the command runs", || sleeping() == 2);
    signal(child.id(), Signal::INT);
    Ended::of(child).said(6, &["interrupted"]);
    wait_until("its children are gone", || sleeping() == 0);
    std::thread::sleep(Duration::from_millis(10));
}
