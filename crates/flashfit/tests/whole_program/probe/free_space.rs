//! `probe --capacity --keep-data` on genuine and fake simulated cards that are mounted.

use std::path::{Path, PathBuf};
use std::process::Child;

use flashfit_host::SystemRunner;
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::mount::Mounted;
use flashfit_test_support::programs;
use rustix::process::Signal;
use serde_json::Value;

use crate::card::Serving;
use crate::fixture::{Ended, FAST_CARD, Place, skip_without_cards, wait_until};
use crate::machine::signal;

const FOLDER: &str = ".flashfit-capacity-test";
const NOTE: &str = "a file of the user";

/// A served card with a file system and a file on it.
struct MountedCard {
    // Dropped in this order.
    mounted: Option<Mounted>,
    serving: Serving,
    point: PathBuf,
    place: Place,
}

impl MountedCard {
    /// With `more` at the end of the card file.
    fn new(kind: &str, more: &str) -> Self {
        let place = Place::new();
        place.file("card.toml", &format!("{FAST_CARD}{more}"));
        Self::of(place, kind)
    }

    fn of(place: Place, kind: &str) -> Self {
        let serving = Serving::new(&place, &["--loop"]);
        let mkfs = std::process::Command::new(format!("mkfs.{kind}")).arg(&serving.at).output();
        assert!(mkfs.unwrap().status.success());
        let point = place.path("point");
        std::fs::create_dir(&point).unwrap();
        let runner = SystemRunner::default();
        let mounted = Mounted::new(&runner, &serving.at, kind, &point, &[]).unwrap();
        std::fs::write(point.join("note.txt"), NOTE).unwrap();
        std::fs::File::open(point.join("note.txt")).unwrap().sync_all().unwrap();
        Self { mounted: Some(mounted), serving, point, place }
    }

    fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let all = ["probe", self.serving.arg(), "--capacity", "--keep-data"];
        all.iter().chain(more).copied().collect()
    }

    fn name(&self) -> String {
        self.serving.at.file_name().unwrap().to_str().unwrap().to_owned()
    }

    fn test(&self, code: i32) -> Value {
        let name = self.name();
        let ended = self.place.flashfit(&self.args(&["--confirm", &name, "--json"]));
        assert_eq!(ended.code, Some(code), "{ended:#?}");
        let document: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(document["schema"], "flashfit.free-space");
        document["data"].clone()
    }

    /// A test that takes long enough to be ended.
    fn start(&self) -> Child {
        let name = self.name();
        let child = self.place.command(&self.args(&["--confirm", &name])).spawn().unwrap();
        wait_until("a file is written", || self.folder().join("000000").exists());
        child
    }

    fn folder(&self) -> PathBuf {
        self.point.join(FOLDER)
    }

    fn is_as_before(&self) {
        let names = std::fs::read_dir(&self.point).unwrap();
        let names: Vec<String> =
            names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
        let own = |name: &&String| *name != "lost+found";
        assert_eq!(names.iter().filter(own).collect::<Vec<_>>(), ["note.txt"]);
        assert_eq!(std::fs::read_to_string(self.point.join("note.txt")).unwrap(), NOTE);
    }
}

impl Drop for MountedCard {
    fn drop(&mut self) {
        // A fake card may have damaged the file system.
        let _ = self.mounted.take().map(Mounted::unmount);
    }
}

fn cannot_test() -> bool {
    skip_without_cards() || flashfit_test_support::skip(programs(&["mkfs.ext4"]))
}

#[test]
fn free_space_of_a_genuine_card_is_tested_and_its_files_are_kept() {
    if cannot_test() {
        return;
    }
    let card = MountedCard::new("ext4", "");
    let would = card.place.flashfit(&card.args(&["--dry-run", "--json"]));
    let would = would.document("flashfit.would-test-free-space");
    assert!(would["price"]["time_ns"][1].as_u64().unwrap() > 0, "{would:#}");
    let planned = would["places"][0]["written_bytes"].as_u64().unwrap();
    assert!(planned > 64 << 20 && planned < 144 << 20, "{would:#}");
    card.place.flashfit(&card.args(&[])).said(3, &["confirmation is missing", "--confirm"]);
    card.place.flashfit(&card.args(&["--confirm", "sda"])).said(3, &["is not the name"]);
    card.is_as_before();
    let found = card.test(0);
    assert_eq!((&found["verdict"], &found["wrong_bytes"]), (&"as-written".into(), &0.into()));
    let tested = found["tested_bytes"].as_u64().unwrap();
    assert!(tested.abs_diff(planned) <= 4 << 20, "{found:#}");
    assert_eq!(found["written_bytes"], found["tested_bytes"]);
    card.is_as_before();
    let text = card.place.flashfit(&card.args(&["--confirm", &card.name()]));
    assert!(text.stdout.contains("Free space only: "), "{text:#?}");
    assert!(text.stdout.contains("the rest is not known"), "{text:#?}");
    assert!(text.stderr.contains("Price of the test: "), "{text:#?}");
    let lines = text.stdout.lines().chain(text.stderr.lines());
    assert!(lines.clone().all(|line| line.chars().count() <= 80), "{text:#?}");
    let checked = card.place.flashfit(&["check", card.serving.arg()]);
    assert!(checked.stdout.contains("--capacity --keep-data"), "{checked:#?}");
}

#[test]
fn fake_capacity_is_found_in_free_space() {
    if cannot_test() {
        return;
    }
    for (beyond, kind, words) in
        [("wraps", "other-place", "addresses wrap"), ("lost", "empty", "drops the rest")]
    {
        let fake = format!("[fake]\nreal_capacity = \"96MiB\"\nbeyond = \"{beyond}\"\n");
        let card = MountedCard::new("ext4", &fake);
        let found = card.test(1);
        assert_eq!(found["verdict"], "wrong", "{found:#}");
        assert_eq!(found["wrong"]["kind"], kind, "{found:#}");
        assert!(found["wrong_bytes"].as_u64().unwrap() > 16 << 20, "{found:#}");
        // What such a card loses may be the directory, which cannot be removed then.
        let left = found["volumes"][0]["not_removed"].as_str();
        assert_eq!(left.is_some(), card.folder().exists(), "{found:#}");
        // The first test has damaged the file system, as any use would.
        let card = MountedCard::new("ext4", &fake);
        let text = card.place.flashfit(&card.args(&["--confirm", &card.name()]));
        text.said(1, &[words, "stop using it"]);
    }
}

/// A card that takes seconds to be filled.
const SLOW: (&str, &str) = ("bytes_per_second = 1_000_000_000", "bytes_per_second = 20_000_000");

fn slow_card() -> MountedCard {
    let place = Place::new();
    place.file("card.toml", &FAST_CARD.replace(SLOW.0, SLOW.1));
    MountedCard::of(place, "ext4")
}

#[test]
fn an_ended_test_leaves_nothing_and_a_killed_one_is_cleared_by_the_next() {
    if cannot_test() {
        return;
    }
    let card = slow_card();
    let child = card.start();
    signal(child.id(), Signal::INT);
    Ended::of(child).said(6, &["interrupted", "its files are removed"]);
    card.is_as_before();
    let mut child = card.start();
    // A second test does not disturb the first.
    let name = card.name();
    let second = card.place.flashfit(&card.args(&["--confirm", &name]));
    second.said(3, &["another test is under way"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(card.folder().join("000000").exists());
    let found = card.test(0);
    assert_eq!(found["volumes"][0]["leftover_files_removed"], 1, "{found:#}");
    card.is_as_before();
}

/// A btrfs shows another device number than the one that its mount has.
#[test]
fn a_btrfs_is_tested() {
    if cannot_test() {
        return;
    }
    let place = Place::new();
    let image = place.image("card.img", 256);
    let device = LoopDevice::attach(&image, LoopOptions::default()).unwrap();
    let node = device.node();
    let mkfs = std::process::Command::new("mkfs.btrfs").arg("-q").arg(node).status();
    assert!(mkfs.unwrap().success());
    let point = place.path("point");
    std::fs::create_dir(&point).unwrap();
    let runner = SystemRunner::default();
    let mounted = Mounted::new(&runner, node, "btrfs", &point, &[]).unwrap();
    let node = node.to_str().unwrap();
    let args = ["probe", node, "--capacity", "--keep-data", "--dry-run", "--json"];
    let would = place.flashfit(&args).document("flashfit.would-test-free-space");
    assert_eq!(would["places"].as_array().unwrap().len(), 1, "{would:#}");
    drop(mounted);
}

#[test]
fn what_cannot_be_tested_is_refused() {
    if cannot_test() {
        return;
    }
    let card = MountedCard::new("ext4", "");
    let name = card.name();
    let remount = |how: &str| {
        let args = ["-o", &format!("remount,{how}"), card.point.to_str().unwrap()];
        assert!(std::process::Command::new("mount").args(args).status().unwrap().success());
    };
    remount("ro");
    let confirmed = card.args(&["--confirm", &name]);
    card.place.flashfit(&confirmed).said(3, &["is mounted read-only", "remount,rw"]);
    remount("rw");
    // What hides it is not tested in its place.
    let runner = SystemRunner::default();
    let hiding = Mounted::new(&runner, Path::new("none"), "tmpfs", &card.point, &[]).unwrap();
    card.place.flashfit(&confirmed).said(3, &["another file system", "findmnt"]);
    assert!(!card.folder().exists());
    drop(hiding);
    // A link in place of the directory is not followed.
    let elsewhere = card.place.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, card.folder()).unwrap();
    card.place.flashfit(&confirmed).said(3, &["flashfit did not make it"]);
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    std::fs::remove_file(card.folder()).unwrap();
    full(&card.point);
    card.place.flashfit(&confirmed).said(2, &["too little free space"]);
    let image = card.place.image("card.img", 64);
    let image = image.to_str().unwrap();
    let unmounted = ["probe", image, "--capacity", "--keep-data", "--confirm", "card.img"];
    card.place.flashfit(&unmounted).said(2, &["no file system", "mount it"]);
    card.place.flashfit(&["probe", image, "--capacity"]).said(2, &["--keep-data"]);
    let both = ["probe", image, "--capacity", "--keep-data", "--write"];
    card.place.flashfit(&both).said(2, &["cannot be used with"]);
}

fn full(point: &Path) {
    let file = std::fs::File::create(point.join("full")).unwrap();
    let chunk = vec![1; 1 << 20];
    while std::io::Write::write_all(&mut &file, &chunk).is_ok() {}
}
