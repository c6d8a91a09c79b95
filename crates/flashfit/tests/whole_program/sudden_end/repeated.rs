//! Signals that arrive twice, as senders repeat them, and a second request to end.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use flashfit_test_support::{TestNeed, skip};
use rustix::process::Signal;

use super::{goes_on, in_the_middle_of_a_trial, schedulers};
use crate::fixture::wait_until;
use crate::fixture::{Ended, FLASHFIT, Place, skip_without_block_devices, skip_without_cards};
use crate::machine::{PlainLoop, signal, wait_for_no_traces};

/// Longer than copies of a signal take to arrive.
const LATER: Duration = Duration::from_secs(3);

#[test]
fn a_signal_that_arrives_twice_ends_a_run_cleanly() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let device = PlainLoop::attach(&place.image("image", 64), 512, &[]);
    let (offered, default) = schedulers(&device);
    let Some(other) = offered.iter().find(|name| **name != default) else {
        let lacking = TestNeed::Kernel.missing(format!("there is only the scheduler {default}"));
        return assert!(skip(Some(lacking)));
    };
    let short = std::fs::read_to_string(place.path("short.toml")).unwrap();
    place.file("short.toml", &short.replace("[\"none\"]", &format!("[\"{other}\"]")));
    let args = ["--repeats", "20", "--confirm", &device.name];
    let args = place.tune_args(&device.node, &args);
    for by in [Signal::TERM, Signal::INT, Signal::HUP] {
        let run = place.command(&args).spawn().unwrap();
        place.wait_for_trials(1);
        wait_until("the scheduler is set", || schedulers(&device).1 == *other);
        signal(run.id(), by);
        std::thread::sleep(Duration::from_millis(50));
        // It may have ended.
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&run), by);
        Ended::of(run).said(6, &["interrupted", "flashfit tune --resume run"]);
        assert!(place.path("run/report.html").exists(), "no report after {by:?}");
        assert_eq!(schedulers(&device).1, default, "after {by:?}");
        std::fs::remove_dir_all(place.path("run")).unwrap();
    }
    drop(device);
    wait_for_no_traces(&place, None);
}

#[test]
fn a_run_under_timeout_ends_cleanly() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let card = place.card();
    let args = place.tune_args(&card, &["--repeats", "20"]);
    let mut timeout = place.command_of("timeout".as_ref(), &["--preserve-status", "-s", "INT"]);
    timeout.arg("6").arg(FLASHFIT).args(args);
    Ended::new(timeout.output().unwrap()).said(6, &["interrupted"]);
    wait_for_no_traces(&place, None);
    goes_on(&place, &place.recorded());
}

/// A run that blocks when it prints its answer, as nobody reads the second value.
fn stuck_run(place: &Place) -> (Child, UnixStream) {
    let (reader, output) = UnixStream::pair().unwrap();
    output.set_nonblocking(true).unwrap();
    while (&output).write(&[b' '; 4096]).is_ok() {}
    output.set_nonblocking(false).unwrap();
    let card = place.card();
    let mut command = place.command(&place.tune_args(&card, &["--repeats", "20"]));
    command.stdout(OwnedFd::from(output)).stderr(Stdio::null());
    (command.spawn().unwrap(), reader)
}

#[test]
fn a_later_second_interrupt_kills_a_run_that_does_not_end() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let (mut run, reader) = stuck_run(&place);
    place.wait_for_trials(1);
    signal(run.id(), Signal::INT);
    std::thread::sleep(LATER);
    signal(run.id(), Signal::HUP);
    std::thread::sleep(Duration::from_millis(200));
    assert!(run.try_wait().unwrap().is_none(), "it ended, or a SIGHUP killed it");
    signal(run.id(), Signal::INT);
    assert_eq!(run.wait().unwrap().code(), None);
    drop(reader);
    wait_for_no_traces(&place, None);
    goes_on(&place, &place.recorded());
}

#[test]
fn a_second_interrupt_during_a_trial_leaves_nothing_either() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let (child, server) = in_the_middle_of_a_trial(&place);
    signal(child.id(), Signal::INT);
    signal(child.id(), Signal::INT);
    Ended::of(child).said(6, &["interrupted"]);
    wait_for_no_traces(&place, Some(&server));
    goes_on(&place, &place.recorded());
}

#[test]
fn a_run_under_nohup_survives_the_end_of_its_session() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let card = place.card();
    let mut nohup = place.command_of("nohup".as_ref(), &[FLASHFIT]);
    let run = nohup.args(place.tune_args(&card, &[])).spawn().unwrap();
    wait_until("the run began", || place.path("run/run.json").exists());
    signal(run.id(), Signal::HUP);
    Ended::of(run).said(0, &[]);
}
