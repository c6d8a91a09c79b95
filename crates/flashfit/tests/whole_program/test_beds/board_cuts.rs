//! `flashfit crash cuts --on ssh:BOARD`: a virtual machine as a board, killed by the commands that
//! the user gives for its power.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flashfit_device::Bytes;
use rustix::process::Signal;
use serde_json::Value;

use super::rack::board::Board;
use super::ssh::with_board;
use super::sshd::{BOARD, client_config};
use super::vm_board::{MEDIUM, MEDIUM_NAME, VmBoard};
use crate::fixture::{Ended, Place, skip, wait_until};
use crate::machine::{PlainLoop, signal, traces};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A shell command that asks the test for something by a file, and waits until it is done.
fn ask(place: &Place, word: &str) -> String {
    let file = place.arg(word);
    format!("touch {file}; while [ -e {file} ]; do sleep 0.02; done")
}

/// Switches the board as the files tell, until the end.
fn serve(place: &Place, board: &VmBoard, is_over: &AtomicBool) {
    while !is_over.load(Ordering::SeqCst) {
        for (word, on) in [("off", false), ("on", true)] {
            let file = place.path(word);
            if file.exists() {
                board.switch(on);
                std::fs::remove_file(file).unwrap();
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Power cuts of the board with this command that switches it on.
fn cuts(place: &Place, client: &Path, on: &str, more: &[&str]) -> Command {
    let off = ask(place, "off");
    let args = [
        &["crash", "cuts", MEDIUM, "--on", BOARD, "--power-off", &off, "--power-on", on][..],
        &["--off-time", "1s", "--json", "--dir"],
        more,
    ];
    let mut command = place.command_of(&VmBoard::flashfit(), &args.concat());
    command.env("FLASHFIT_SSH_CONFIG", client);
    command
}

#[test]
#[ignore = "full: boots a virtual machine several times"]
fn the_power_of_a_board_is_cut_by_commands() {
    if skip(VmBoard::lacking()) {
        return;
    }
    VmBoard::prepare();
    let place = Place::in_memory();
    let image = place.image("card.img", 128);
    let before = std::fs::read(&image).unwrap();
    let board = VmBoard::new(&image);
    board.boot();
    let client = client_config(&place, board.port(), &board.key());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&place, &board, &is_over));
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let on = ask(&place, "on");
            let agree = ["--confirm", MEDIUM_NAME, "--cuts", "2"];
            // Nobody agreed, so nothing is written.
            let mut run = cuts(&place, &client, &on, &["none"]);
            Ended::new(run.output().unwrap()).said(3, &["vda"]);
            assert!(std::fs::read(&image).unwrap() == before, "the card was written");

            let dir = place.arg("cuts");
            let mut run = cuts(&place, &client, &on, &[&[dir.as_str()], &agree[..]].concat());
            let ended = Ended::new(run.output().unwrap());
            ended.said(0, &["board: Linux"]);
            let document: Value = serde_json::from_str(&ended.stdout).unwrap();
            let setup = &document["data"]["setups"][0];
            assert_eq!((&setup["states"], &setup["broken_promises"]), (&2.into(), &0.into()));
            // The document says which device it was, so a survey takes it.
            let device = &document["data"]["measured_device"];
            assert_eq!(device["capacity_bytes"], 128u64 << 20, "{device:#}");
            place.file("cuts.json", &ended.stdout);
            place.flashfit(&["survey", "add", "cuts.json"]).said(0, &[]);
            let wanted = ["survey", "list", "--where", "power_cut_campaigns=1", "--json"];
            let listed = place.flashfit(&wanted).document("flashfit.survey-cards");
            assert_eq!(listed["results"].as_array().unwrap().len(), 1, "{listed:#}");

            let records = std::fs::read_to_string(place.path("cuts/records.jsonl")).unwrap();
            for line in records.lines() {
                let record: Value = serde_json::from_str(line).unwrap();
                assert!(record["cut"]["time_ms"].as_u64().unwrap() > 1_700_000_000_000);
            }
            assert!(board.has_power());
            assert_eq!(board.traces(), "", "something is left on the board");

            // Another card is in the slot when the power comes back.
            let exchanged = format!("truncate --size 160M {}; {on}", image.display());
            let dir = place.arg("exchanged");
            let more = [&[dir.as_str()], &agree[..]].concat();
            let mut run = cuts(&place, &client, &exchanged, &more);
            Ended::new(run.output().unwrap()).said(3, &["another device than before"]);
            assert!(board.has_power());
        }));
        is_over.store(true, Ordering::SeqCst);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
#[ignore = "full: boots a virtual machine several times"]
fn a_board_whose_card_loses_its_cache_shows_what_no_barriers_cost() {
    if skip(VmBoard::lacking()) {
        return;
    }
    VmBoard::prepare();
    let place = Place::in_memory();
    let model = flashfit_card::catalog::load("usd-a2-cq", None).unwrap();
    let model = flashfit_wear::replica::scaled(&model, Bytes::mib(256)).unwrap();
    let board = VmBoard::with_card(&model, &place.path("card.socket"));
    board.boot();
    let client = client_config(&place, board.port(), &board.key());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&place, &board, &is_over));
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let on = ask(&place, "on");
            let setups = ["--fs", "ext4", "--with", "ext4:nobarrier", "--confirm", MEDIUM_NAME];
            let ends = ["--cuts", "10", "--max-broken", "1"];
            let more = [&["cuts"], &setups[..], &ends].concat();
            let mut run = cuts(&place, &client, &on, &more);
            let ended = Ended::new(run.output().unwrap());
            ended.said(1, &["board: Linux"]);
            let document: Value = serde_json::from_str(&ended.stdout).unwrap();
            let setups = &document["data"]["setups"];
            assert_eq!(
                (&setups[0]["setup"], &setups[0]["broken_promises"]),
                (&"ext4".into(), &0.into())
            );
            assert_eq!(setups[1]["broken_promises"], 1, "{setups}");
        }));
        is_over.store(true, Ordering::SeqCst);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
}

/// This machine as a board: everything is as on a real one, except that it keeps its power.
#[test]
fn a_power_cut_that_did_not_happen_is_an_error_and_no_result() {
    with_board(|place, sshd| {
        let device = PlainLoop::attach(&place.image("card.img", 128), 512, &[]);
        let (node, name) = (&device.node, &device.name);
        let switched = place.arg("switched");
        let (off, on) = (format!("echo off >>{switched}"), format!("echo on >>{switched}"));
        let args = ["crash", "cuts", node, "--on", BOARD, "--off-time", "50ms", "--cuts", "2"];
        let power = ["--power-off", &off, "--power-on", &on, "--confirm", name, "--dir", "cuts"];
        let run = sshd.command(&place, &[&args[..], &power].concat()).output().unwrap();
        Ended::new(run).said(4, &["did not cut it: the board went on", "by hand"]);
        assert_eq!(std::fs::read_to_string(switched).unwrap(), "off\non\n", "it has power");
        assert!(!place.path("cuts").exists(), "nothing was recorded");
        drop(device);
        wait_until("the board is clean", || {
            traces(&place).into_iter().all(|trace| trace.contains("sshd"))
        });
    });
}

#[test]
fn a_board_that_is_off_at_an_interrupt_gets_its_power_back() {
    with_board(|place, sshd| {
        let device = PlainLoop::attach(&place.image("card.img", 128), 512, &[]);
        let (node, name) = (&device.node, &device.name);
        let switched = place.arg("switched");
        let (off, on) = (format!("echo off >>{switched}"), format!("echo on >>{switched}"));
        let args = ["crash", "cuts", node, "--on", BOARD, "--off-time", "1h", "--cuts", "1"];
        let power = ["--power-off", &off, "--power-on", &on, "--confirm", name, "--dir", "cuts"];
        let run = sshd.command(&place, &[&args[..], &power].concat()).spawn().unwrap();
        wait_until("the board is off", || place.path("switched").exists());
        signal(run.id(), Signal::INT);
        Ended::of(run).said(6, &["interrupted"]);
        assert_eq!(std::fs::read_to_string(switched).unwrap(), "off\non\n");
    });
}

#[test]
fn a_board_needs_a_device_and_a_switch() {
    let place = Place::new();
    for (args, message) in [
        (&["--on", "ssh:board"][..], "the device on the board is missing"),
        (&["sim:usd-a2-cq", "--on", "ssh:board"], "the device on the board is missing"),
        (&["/dev/mmcblk0", "--on", "ssh:board"], "--power-off"),
        (&["/dev/mmcblk0", "--on", "ssh:board", "--power-off", "x"], "--power-on"),
        (&["--power-off", "x", "--power-on", "y"], "needs no command"),
        (&["/dev/mmcblk0", "--on", "here"], "this machine would lose its power"),
    ] {
        let ended = place.flashfit(&[&["crash", "cuts"], args].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(message), "{ended:?}");
    }
}
