//! Interrupted and killed runs: they leave nothing on the machine, keep all recorded trials, and
//! can be resumed.

mod repeated;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use flashfit_test_support::{AttemptKind, TestNeed, attempted, skip};
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{Ended, Place, skip_without_block_devices, skip_without_cards, wait_until};
use crate::machine::{PlainLoop, Server, is_mounted, signal, wait_for_no_traces};

/// The key of each record, which must be unique in the run.
#[track_caller]
fn keys(recorded: &[String]) -> BTreeSet<String> {
    let parsed = |line: &String| serde_json::from_str::<Value>(line).unwrap();
    let records: Vec<Value> = recorded.iter().map(parsed).collect();
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record["number"], index + 1, "numbers count up");
    }
    let keys: BTreeSet<String> = records.iter().map(|record| record["key"].to_string()).collect();
    assert_eq!(keys.len(), records.len(), "a trial was repeated");
    keys
}

/// Resumes the run in `place` to its end and checks that earlier records are kept.
#[track_caller]
fn goes_on(place: &Place, before: &[String]) {
    place.shorten_run(2);
    let resumed = place.flashfit(&["tune", "--resume", "run", "--progress", "never"]);
    resumed.said(0, &[&format!("resuming run: {} trial", before.len())]);
    let after = place.recorded();
    assert!(after.starts_with(before), "what was recorded has changed");
    assert!(after.len() > before.len(), "nothing was left to do");
    keys(&after);
    assert!(place.path("run/report.html").exists());
    wait_for_no_traces(place, None);
}

/// Starts a run and waits until it is in the middle of a trial.
fn in_the_middle_of_a_trial(place: &Place) -> (std::process::Child, Server) {
    let child = place.start_long_run();
    let server = Server::of(place);
    place.wait_for_trials(1);
    let point = place.path("run/mnt");
    wait_until("a trial's file system is mounted", || is_mounted(child.id(), &point));
    (child, server)
}

#[test]
fn a_run_killed_during_a_trial_can_be_resumed() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let (mut child, server) = in_the_middle_of_a_trial(&place);
    child.kill().unwrap();
    attempted(AttemptKind::Kill, 1);
    child.wait().unwrap();
    wait_for_no_traces(&place, Some(&server));
    let before = place.recorded();
    let mut file =
        std::fs::File::options().append(true).open(place.path("run/trials.jsonl")).unwrap();
    // The state after a kill while a line was written.
    file.write_all(br#"{"version":1,"number":2,"key":{"purp"#).unwrap();
    place.flashfit(&["analyze", "run"]).said(0, &[]);
    goes_on(&place, &before);
}

#[test]
fn a_resumed_run_refuses_other_options() {
    let place = Place::new();
    // Those that only add something are allowed.
    for choice in
        [["--strategy", "greedy"], ["--profile", "quick"], ["--dir", "other"], ["--seed", "2"]]
    {
        let args = [&["tune", "--resume", "run"][..], &choice].concat();
        place.flashfit(&args).said(2, &["cannot be used with", choice[0]]);
    }
}

#[test]
fn a_run_without_a_working_setup_fails_each_time() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    place.image("image", 64);
    let more = ["--workload", "linear-write", "--data-size", "256MiB", "--runtime-ms", "20000"];
    let args = [&["--confirm", "image"][..], &more].concat();
    let nothing = ["no setup worked", "the device is full"];
    place.tune("image", &args).said(1, &nothing);
    let before = place.recorded();
    let resume = ["tune", "--resume", "run", "--confirm", "image"];
    place.flashfit(&resume).said(1, &nothing);
    assert_eq!(place.recorded(), before);
    place.flashfit(&["report", "run"]).said(0, &[]);
    place.flashfit(&["analyze", "run"]).said(0, &[]);
}

#[test]
fn a_run_killed_before_its_first_trial_can_be_resumed() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let mut child = place.start_long_run();
    let server = Server::of(&place);
    child.kill().unwrap();
    attempted(AttemptKind::Kill, 1);
    child.wait().unwrap();
    wait_for_no_traces(&place, Some(&server));
    // What is left of the directory can be resumed, or does not prevent a new run.
    if place.path("run/run.json").exists() {
        goes_on(&place, &[]);
    } else {
        place.flashfit(&["tune", "--resume", "run"]).said(2, &["does not contain a run"]);
        place.tune(&place.card(), &[]).said(0, &[]);
    }
}

#[test]
fn a_run_interrupted_before_its_first_trial_leaves_nothing() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let child = place.start_long_run();
    let server = Server::of(&place);
    signal(child.id(), Signal::INT);
    Ended::of(child).said(6, &["interrupted"]);
    wait_for_no_traces(&place, Some(&server));
    if place.path("run/run.json").exists() {
        goes_on(&place, &[]);
    } else {
        assert!(!place.path("run").exists(), "a folder without a run is left");
    }
}

#[test]
fn a_run_killed_on_an_image_can_be_resumed() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    place.image("image", 64);
    let args = place.tune_args("image", &["--repeats", "20", "--confirm", "image"]);
    let mut child = place.command(&args).spawn().unwrap();
    place.wait_for_trials(1);
    child.kill().unwrap();
    attempted(AttemptKind::Kill, 1);
    child.wait().unwrap();
    wait_for_no_traces(&place, None);
    let before = place.recorded();
    place.shorten_run(2);
    place.flashfit(&["tune", "--resume", "run"]).said(3, &["--confirm image"]);
    let resumed = place.flashfit(&["tune", "--resume", "run", "--confirm", "image"]);
    resumed.said(0, &[]);
    assert!(place.recorded().starts_with(&before));
    keys(&place.recorded());
}

#[test]
fn a_keyboard_interrupt_ends_a_run_cleanly() {
    ends_when_asked(Signal::INT);
}

#[test]
fn a_termination_signal_ends_a_run_cleanly() {
    ends_when_asked(Signal::TERM);
}

fn ends_when_asked(by: Signal) {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let (child, server) = in_the_middle_of_a_trial(&place);
    signal(child.id(), by);
    let ended = Ended::of(child);
    ended.said(6, &["interrupted", "flashfit tune --resume run"]);
    wait_for_no_traces(&place, Some(&server));
    for folder in ["run/mnt", "run/.flashfit-scratch"] {
        assert!(!place.path(folder).exists(), "{folder} is left: {}", ended.stderr);
    }
    let before = place.recorded();
    keys(&before);
    goes_on(&place, &before);
}

#[test]
fn resuming_a_complete_run_prints_its_report() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.tune(&place.card(), &[]).said(0, &[]);
    let before = place.recorded();
    std::fs::remove_file(place.path("run/report.html")).unwrap();
    place.flashfit(&["tune", "--resume", "run", "--progress", "never"]).said(0, &[]);
    assert_eq!(place.recorded(), before);
    assert!(place.path("run/report.html").exists());
}

/// The schedulers of a queue, and the selected one.
fn schedulers(device: &PlainLoop) -> (Vec<String>, String) {
    let file = format!("/sys/block/{}/queue/scheduler", device.name);
    let text = std::fs::read_to_string(file).unwrap();
    let words = || text.split_whitespace();
    let used = words().find_map(|word| word.strip_prefix('[')?.strip_suffix(']')).unwrap();
    let offered = words().map(|word| word.trim_matches(['[', ']']).to_owned());
    (offered.collect(), used.to_owned())
}

#[test]
fn the_scheduler_is_restored_after_a_killed_run() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let device = PlainLoop::attach(&image, 512, &[]);
    let (offered, default) = schedulers(&device);
    let Some(other) = offered.iter().find(|name| **name != default) else {
        let lacking = TestNeed::Kernel.missing(format!("there is only the scheduler {default}"));
        return assert!(skip(Some(lacking)));
    };
    let short = std::fs::read_to_string(place.path("short.toml")).unwrap();
    let tried = short.replace("[\"none\"]", &format!("[\"{other}\"]"));
    assert_ne!(short, tried);
    place.file("short.toml", &tried);
    let args = ["--repeats", "20", "--confirm", &device.name];
    let args = place.tune_args(&device.node, &args);
    let mut run = place.command(&args).spawn().unwrap();
    place.wait_for_trials(1);
    // Trials under both alternate: a kill at the beginning of one, not at its end.
    wait_until("a trial has the default", || schedulers(&device).1 == default);
    wait_until("the scheduler is set", || schedulers(&device).1 == *other);
    run.kill().unwrap();
    attempted(AttemptKind::Kill, 1);
    run.wait().unwrap();
    assert_eq!(schedulers(&device).1, *other, "a kill puts nothing back");
    place.shorten_run(1);
    let resume = ["tune", "--resume", "run", "--progress", "never", "--confirm", &device.name];
    wait_until("the dead run's children are gone", || {
        let ended = place.flashfit(&resume);
        assert!(ended.code == Some(0) || ended.stderr.contains("in use"), "{ended:#?}");
        ended.code == Some(0)
    });
    assert_eq!(schedulers(&device).1, default, "the changed one was taken for the default");
    drop(device);
    wait_for_no_traces(&place, None);
}

#[test]
fn a_knob_is_restored_after_a_killed_run() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let device = PlainLoop::attach(&image, 512, &[]);
    let knob = format!("/sys/block/{}/queue/read_ahead_kb", device.name);
    let value = || std::fs::read_to_string(&knob).unwrap().trim().to_owned();
    std::fs::write(&knob, "2560").unwrap();
    let more = ["--with", "ext4:readahead-1m", "--repeats", "20", "--confirm", &device.name];
    let mut run = place.command(&place.tune_args(&device.node, &more)).spawn().unwrap();
    wait_until("the knob is set", || value() == "1024");
    run.kill().unwrap();
    attempted(AttemptKind::Kill, 1);
    run.wait().unwrap();
    assert_eq!(value(), "1024", "a kill puts nothing back");
    place.shorten_run(1);
    let resume = ["tune", "--resume", "run", "--progress", "never", "--confirm", &device.name];
    wait_until("the dead run's children are gone", || {
        let ended = place.flashfit(&resume);
        assert!(ended.code == Some(0) || ended.stderr.contains("in use"), "{ended:#?}");
        ended.code == Some(0)
    });
    assert_eq!(value(), "2560", "the changed one was taken for the original");
    drop(device);
    wait_for_no_traces(&place, None);
}

/// The system refuses threads, which the program does not expect: it panics, as a bug would.
#[test]
fn a_bug_ends_the_program_with_a_message_and_its_exit_code() {
    let place = Place::new();
    if skip(flashfit_test_support::programs(&["strace"])) {
        return;
    }
    let inject = ["-f", "-qq", "-o", "trace", "-e", "inject=clone,clone3:error=EAGAIN"];
    // A card model is fitted by several threads; nothing before needs one.
    let probe =
        ["probe", "sim:sd-c4-block", "--write", "--confirm", "sd-c4-block", "--twin", "twin"];
    let all = [&inject[..], &[env!("CARGO_BIN_EXE_flashfit")], &probe].concat();
    let ended = place.command_of(Path::new("strace"), &all).output();
    let ended = Ended::new(ended.unwrap());
    ended.said(70, &["panicked at", "failed to spawn thread"]);
    assert_eq!(ended.stdout, "");
}
