//! Probes of a board's device over ssh.

use std::fs::File;

use super::ssh::{agent, run_to_end, with_board};
use super::sshd::{BOARD, Sshd};
use crate::fixture::{Ended, Place, wait_until};

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
