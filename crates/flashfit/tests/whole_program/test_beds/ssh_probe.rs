//! Probes of a board's device over ssh.

use std::fs::File;

use flashfit_test_support::{isolated_as, name_of};

use super::ssh::{agent, run_to_end, with_board};
use super::sshd::{BOARD, Sshd};
use crate::fixture::{Ended, Place, skip, skip_without_block_devices, wait_until};

/// Probes `target` on the board.
fn probe(place: &Place, sshd: &Sshd, target: &str, more: &[&str]) -> Ended {
    let args = [&["probe", target, "--on", BOARD], more].concat();
    run_to_end(sshd.command(place, &args))
}

#[test]
#[ignore = "full: starts a board"]
fn a_device_of_a_board_is_probed_there() {
    with_board(|place, sshd| {
        let card = place.card();
        let ended = probe(&place, &sshd, &card, &["--json", "--output", "geometry.json"]);
        ended.said(0, &[]);
        let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        assert!(document["erase_unit"]["verdict"].is_string(), "{document}");
        let kept = std::fs::read_to_string(place.path("geometry.json")).unwrap();
        assert!(kept.contains("flashfit.probe"), "the file is brought back");
        place.flashfit(&["probe", &card, "--on", "vm"]).said(2, &["not the device"]);
        wait_until("the board is clean", || agent().is_none());
    });
}

#[test]
#[ignore = "full: starts a board"]
fn files_of_a_probe_on_a_board_have_their_names_here() {
    with_board(|place, sshd| {
        std::fs::create_dir_all(place.path("own/cards")).unwrap();
        std::fs::copy(place.path("card.toml"), place.path("own/cards/fast.toml")).unwrap();
        // `1` is also the seed.
        let files = ["--write", "--catalog", "own", "--output", "1", "--twin", "twin.toml"];
        let ended = probe(&place, &sshd, "sim:fast", &files);
        ended.said(0, &[]);
        for text in ["sim:fast --geometry 1\n", "flashfit tune sim:./twin.toml "] {
            assert!(ended.stdout.contains(text), "no `{text}` in {}", ended.stdout);
        }
        let kept = std::fs::read_to_string(place.path("1")).unwrap();
        let document: serde_json::Value = serde_json::from_str(&kept).unwrap();
        assert_eq!(document["twin"]["file"], "twin.toml");
        assert!(!kept.contains("/tmp/flashfit"), "{kept}");
        assert!(place.path("twin.toml").exists());
        wait_until("the board is clean", || agent().is_none());
    });
}

#[test]
#[ignore = "full: starts a board"]
fn a_probe_on_a_board_shows_its_price_before_it_asks() {
    with_board(|place, sshd| {
        let image = place.image("card.img", 64).display().to_string();
        let lost = format!("All data on {image} will be lost");
        let refused = probe(&place, &sshd, &image, &["--write"]);
        refused.said(3, &["--confirm card.img", &lost, "Price of probing: "]);
        let written = probe(&place, &sshd, &image, &["--write", "--confirm", "card.img"]);
        written.said(0, &[]);
        assert_eq!(written.stderr.matches("Price of probing: ").count(), 1, "{}", written.stderr);
        wait_until("the board is clean", || agent().is_none());
    });
}

#[test]
#[ignore = "full: starts a board"]
fn what_to_do_after_a_probe_on_a_board_names_the_board() {
    with_board(|place, sshd| {
        let image = place.image("card.img", 64).display().to_string();
        let ended = probe(&place, &sshd, &image, &[]);
        ended.said(0, &[]);
        for text in ["ssh board 'mkfs.ext4 ", &format!("ssh board 'flashfit plan {image}'\n")] {
            assert!(ended.stdout.contains(text), "no `{text}` in {}", ended.stdout);
        }
        let held = File::open(place.path("card.img")).unwrap();
        let pid = std::process::id();
        let in_use = probe(&place, &sshd, &image, &["--write", "--confirm", "card.img"]);
        in_use.said(3, &[&format!("hint: on board: wait until process {pid} ends")]);
        drop(held);
        let missing = probe(&place, &sshd, "/dev/no-such-device", &[]);
        missing.said(2, &["/dev/no-such-device", "flashfit doctor --on ssh:board"]);
        wait_until("the board is clean", || agent().is_none());
    });
}

/// Gives a probe of an image an erase block, which no probe of an image has.
pub fn with_erase_block(place: &Place, document: &str) {
    let text = std::fs::read_to_string(place.path(document)).unwrap();
    let mut probe: serde_json::Value = serde_json::from_str(&text).unwrap();
    let found = r#"{"verdict": "found", "bytes": 4194304, "confidence": 1.0, "reason": "a test"}"#;
    probe["erase_unit"] = serde_json::from_str(found).unwrap();
    place.file(document, &probe.to_string());
}

#[test]
fn the_geometry_for_a_board_is_compared_with_the_device_of_the_board() {
    let test = the_geometry_for_a_board_is_compared_with_the_device_of_the_board;
    if skip_without_block_devices() || skip(Sshd::lacking()) {
        return;
    }
    isolated_as(name_of(&test), || {
        let place = Place::new();
        for (folder, mib) in [("board", 80), ("here", 64)] {
            std::fs::create_dir(place.path(folder)).unwrap();
            place.image(&format!("{folder}/card.img"), mib);
        }
        let mount = format!("mount --bind {} {}", place.arg("board"), place.arg("here"));
        let sshd = Sshd::with_mounts(&place, &mount);
        let target = place.arg("here/card.img");
        let dry_run = |document: &str| {
            let more = ["--on", BOARD, "--geometry", document, "--dry-run"];
            run_to_end(sshd.command(&place, &place.tune_args(&target, &more)))
        };
        probe(&place, &sshd, &target, &["--output", "board.json"]).said(0, &[]);
        place.flashfit(&["probe", &target, "--output", "here.json"]).said(0, &[]);
        for document in ["board.json", "here.json"] {
            with_erase_block(&place, document);
        }
        let other = ["here.json is of another device: its size was 64 MiB", "not 80 MiB"];
        let again = format!("flashfit probe {target} --on ssh:board --output FILE");
        dry_run("here.json").said(2, &[&other[..], &[&again]].concat());
        let taken = |what: &str| {
            let planned = dry_run("board.json");
            planned.said(0, &[]);
            assert!(planned.stdout.contains("4 MiB (probed)"), "{what}: {planned:#?}");
        };
        taken("another device of that name is here");
        std::fs::remove_file(place.path("here/card.img")).unwrap();
        taken("no device of that name is here");
        let more = ["--on", BOARD, "--geometry", "missing.json"];
        place.tune("card.img", &more).said(2, &["missing.json"]);
        let more = ["--on", BOARD, "--geometry", "here.json", "--confirm", "card.img"];
        let refused = run_to_end(sshd.command(&place, &place.tune_args(&target, &more)));
        refused.said(2, &other);
        assert!(!place.path("run").exists(), "refused after the run began");
        wait_until("the board is clean", || agent().is_none());
    });
}

#[cfg(feature = "survey")]
#[test]
#[ignore = "full: starts a board"]
fn a_survey_is_asked_about_a_device_of_a_board() {
    with_board(|place, sshd| {
        let image = place.image("card.img", 64).display().to_string();
        place.flashfit(&["probe", "card.img", "--output", "p.json"]).said(0, &[]);
        let survey = ["survey", "add", "p.json", "--db", "s.db"];
        place.flashfit(&survey).said(0, &[]);
        let ended = probe(&place, &sshd, &image, &["--survey", "s.db"]);
        ended.said(0, &["survey: "]);
    });
}
