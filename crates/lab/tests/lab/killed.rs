//! Locks of a killed process are released by the next one, those of one that panics by itself.
//!
//! The suite does a few kills at random moments, `make kills` a hundred (`FLASHFIT_KILLS`).

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use flashfit_host::{SystemRunner, at_panic};
use flashfit_lab::{Lab, LabError, LabSettings};

use crate::rack::{Rack, wait_until};
use crate::{LIMIT, locked, tags};

const IN_THE_SUITE: u64 = 16;

/// Not a test: the process that the tests kill. It holds a place and a second reservation, or locks
/// and releases places in a loop.
#[test]
#[ignore = "run by other tests"]
fn holder() {
    let Ok(records) = std::env::var("FLASHFIT_TEST_LAB_RECORDS") else { return };
    let variable = |name| std::env::var(name).expect("set by the test");
    let mut settings = LabSettings::from_variables(records.into());
    settings.client = variable("FLASHFIT_TEST_LAB_CLIENT");
    let runner = || Arc::new(SystemRunner::default());
    let lab = Lab::open(settings, runner(), runner()).unwrap();
    let work = variable("FLASHFIT_TEST_LAB_WORK");
    if work != "again" {
        let _place = locked(&lab, "nr=1");
        let _queued = lab.reserve(&tags("nr=1")).unwrap();
        if work == "panic" {
            // As the program's panic hook, which does not unwind.
            at_panic::run();
            std::process::exit(70);
        }
        std::thread::sleep(LIMIT);
    }
    let marker = variable("FLASHFIT_TEST_LAB_LOCKED");
    loop {
        let place = locked(&lab, "pool=pf");
        std::fs::write(&marker, "").unwrap();
        drop(place);
        std::fs::remove_file(&marker).unwrap();
    }
}

/// This file exists while a holder has locked a place in its loop.
fn marker(rack: &Rack) -> PathBuf {
    rack.settings().records.with_extension("locked")
}

fn start_holder(rack: &Rack, work: &str) -> Child {
    let settings = rack.settings();
    Command::new(std::env::current_exe().expect("it runs"))
        .args(["--ignored", "--exact", "killed::holder"])
        .env("FLASHFIT_TEST_LAB_RECORDS", &settings.records)
        .env("FLASHFIT_TEST_LAB_CLIENT", &settings.client)
        .env("FLASHFIT_TEST_LAB_LOCKED", marker(rack))
        .env("FLASHFIT_TEST_LAB_WORK", work)
        .env("LG_COORDINATOR", &settings.coordinator)
        .env("LG_USERNAME", "alice")
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts")
}

#[test]
#[ignore = "full: runs a lab"]
fn locks_of_a_killed_process_are_released() {
    let Some(rack) = Rack::start() else { return };
    let mut holder = start_holder(&rack, "hold");
    wait_until("it holds a place and is queued", || {
        rack.client("desk", "bob", &["reservations"]).matches("owner: ").count() == 2
    });
    // The same user locks another place by hand.
    rack.client("desk", "alice", &["-p", "board2", "lock"]);
    // While the holder lives, its locks are not touched.
    let lab = rack.open();
    assert!(lab.recovered().is_empty() && lab.still_held().is_empty());
    let error = lab.lock_now("board1").unwrap_err();
    assert!(matches!(&error, LabError::Taken { owner, .. } if owner.contains(".flashfit-")));
    drop(lab);
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(rack.records(), 1);

    let lab = rack.open();
    assert_eq!(lab.recovered(), ["board1"]);
    assert_eq!(rack.records(), 0);
    let places = rack.client("desk", "bob", &["-v", "places"]);
    assert!(places.contains("acquired: desk/alice"), "{places}");
    drop(locked(&lab, "nr=1"));
    drop(lab);
    rack.client("desk", "alice", &["-p", "board2", "unlock"]);
    rack.assert_all_released();
}

#[test]
#[ignore = "full: runs a lab"]
fn locks_are_released_at_a_panic() {
    let Some(rack) = Rack::start() else { return };
    let ended = start_holder(&rack, "panic").wait().unwrap();
    assert_eq!(ended.code(), Some(70));
    rack.assert_all_released();
}

/// Even-numbered kills are at any moment of several rounds of locking and releasing, the others
/// while a place is locked.
#[test]
#[ignore = "full: kills for minutes"]
fn random_kills_leave_no_lock() {
    let Some(rack) = Rack::start() else { return };
    let count = std::env::var("FLASHFIT_KILLS").map_or(IN_THE_SUITE, |n| n.parse().unwrap());
    let mut places_left = 0;
    for kill in 0..count {
        let mut holder = start_holder(&rack, "again");
        if kill % 2 == 0 {
            std::thread::sleep(Duration::from_millis(kill * 7919 % 9000));
        } else {
            wait_until("it has locked a place", || marker(&rack).exists());
        }
        holder.kill().expect("it runs");
        holder.wait().expect("it was started");
        let _ = std::fs::remove_file(marker(&rack));
        let lab = rack.open();
        assert!(lab.still_held().is_empty());
        places_left += lab.recovered().len();
        drop(lab);
        rack.assert_all_released();
    }
    println!("{places_left} of {count} had a place locked when they were killed");
    assert!(places_left >= count as usize / 4, "few kills met a lock");
}
