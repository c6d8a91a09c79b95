//! Trials on a board over ssh: on this machine through an sshd, and in a virtual machine.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Child;

use flashfit_test_support::{isolated, isolated_as, name_of};
use rustix::process::Signal;

use super::rack::board::Board;
use super::sshd::{BOARD, Sshd, client_config};
use super::vm_board::{MEDIUM, MEDIUM_NAME, VmBoard};
use crate::commands::{hangs, is_running, own_workload};
use crate::fixture::{Ended, Place, skip, skip_without_block_devices, wait_until};
use crate::machine::{children, signal, traces, wait_for_no_traces, words};

/// Runs a test isolated with a directory and a board; skips it without sshd.
pub fn with_board<F: FnOnce(Place, Sshd)>(test: F) {
    let name = name_of(&test);
    if skip_without_block_devices() || skip(Sshd::lacking()) {
        return;
    }
    isolated_as(name, || {
        let place = Place::new();
        let sshd = Sshd::start(&place);
        test(place, sshd);
    });
}

/// Starts a run on an image as the board's device.
fn start(place: &Place, sshd: &Sshd, repeats: &str) -> Child {
    let image = place.image("card.img", 64);
    let image = image.display().to_string();
    let more = ["--on", BOARD, "--confirm", "card.img", "--repeats", repeats];
    sshd.command(place, &place.tune_args(&image, &more)).spawn().unwrap()
}

/// Resumes the run of [`start`] to its end.
fn resume(place: &Place, sshd: &Sshd) -> Ended {
    run_to_end(
        sshd.command(place, &["tune", "--resume", "run", "--on", BOARD, "--confirm", "card.img"]),
    )
}

/// The agent's process and directory.
pub fn agent() -> Option<(u32, String)> {
    crate::machine::processes().into_iter().find_map(|process| {
        let words = words(process);
        let folder = words.iter().position(|word| word == "--listen")? + 1;
        Some((process, words.get(folder)?.clone()))
    })
}

/// Everything that is left on a board.
#[track_caller]
fn wait_for_a_clean_board(place: &Place, folder: &str) {
    wait_until("the board is clean", || {
        let ours = traces(place).into_iter().filter(|trace| !trace.contains("sshd"));
        ours.count() == 0 && !std::path::Path::new(folder).exists() && agent().is_none()
    });
}

#[test]
fn trials_run_on_a_board() {
    with_board(|place, sshd| {
        let run = start(&place, &sshd, "1");
        wait_until("the agent runs", || agent().is_some());
        let (_, folder) = agent().unwrap();
        let ended = Ended::of(run);
        ended.said(0, &[]);
        assert!(!place.recorded().is_empty());
        let header = std::fs::read_to_string(place.path("run/run.json")).unwrap();
        assert!(header.contains("\"stand\": \"ssh:board\""), "{header}");
        wait_for_a_clean_board(&place, &folder);
    });
}

#[test]
fn a_board_may_print_something_at_login() {
    if skip_without_block_devices() || skip(Sshd::lacking()) {
        return;
    }
    isolated_as(name_of(&a_board_may_print_something_at_login), || {
        let place = Place::new();
        let sshd = Sshd::with_greeting(&place);
        Ended::of(start(&place, &sshd, "1")).said(0, &[]);
        assert!(!place.recorded().is_empty());
        drop(sshd);
        let place = Place::new();
        let sshd = Sshd::without_shell(&place);
        let refused = ["printed `This account is not available.`", "hint: ", "POSIX shell"];
        Ended::of(start(&place, &sshd, "1")).said(4, &refused);
    });
}

/// Starts a run of the user's own workload on the board.
fn start_own(place: &Place, sshd: &Sshd, stage: &str) -> Child {
    own_workload(place, stage);
    let image = place.image("card.img", 64).display().to_string();
    let words = ["tune", &image, "--on", BOARD, "--confirm", "card.img", "--catalog", "own"];
    let more = ["--config", "short.toml", "--dir", "run", "--workload", "mine"];
    sshd.command(place, &[&words[..], &more].concat()).spawn().unwrap()
}

#[test]
fn an_own_command_runs_on_a_board() {
    with_board(|place, sshd| {
        let victim = place.arg("victim");
        let stage = format!(
            "prepare = \"seq 1000 > numbers\"\n\
             command = \"sleep 0.2; sort -rn numbers > sorted; ! echo x > '{victim}'\"\n\
             cleanup = \"test $(head -n 1 sorted) = 1000\"\ncache = \"cold\"\nsync = true"
        );
        let run = start_own(&place, &sshd, &stage);
        wait_until("the agent runs", || agent().is_some());
        let (_, folder) = agent().unwrap();
        Ended::of(run).said(0, &["mine runs, from own/workloads/mine.toml:"]);
        let records = place.recorded();
        assert!(!records.is_empty());
        for line in records {
            let record: serde_json::Value = serde_json::from_str(&line).unwrap();
            let stage = &record["outcome"]["completed"]["points"][0]["stages"][0];
            let ns = stage["write"]["runtime_ns"].as_u64().unwrap();
            assert!(ns >= 200_000_000, "{line}");
        }
        assert!(!place.path("victim").exists(), "it wrote outside of its file system");
        wait_for_a_clean_board(&place, &folder);
    });
}

#[test]
fn an_interrupt_ends_an_own_command_on_a_board_with_its_children() {
    with_board(|place, sshd| {
        let marker = format!("{}.875", 84_000 + std::process::id() % 1000);
        let run = start_own(&place, &sshd, &hangs(&marker, 600));
        wait_until("the command runs", || is_running(&marker));
        let (_, folder) = agent().unwrap();
        signal(run.id(), Signal::INT);
        Ended::of(run).said(6, &["interrupted", "tune --resume run"]);
        wait_until("the command has ended", || !is_running(&marker));
        wait_for_a_clean_board(&place, &folder);
    });
}

#[test]
#[ignore = "full: boots virtual machines"]
fn trials_run_on_another_machine_despite_a_lost_connection() {
    if skip(VmBoard::lacking()) {
        return;
    }
    VmBoard::prepare();
    isolated(|| {
        lose_connection_to_machine();
    });
}

fn lose_connection_to_machine() {
    let place = Place::new();
    let board = VmBoard::new(&place.image("card.img", 64));
    board.boot();
    let config = client_config(&place, board.port(), &board.key());
    let more = ["--on", BOARD, "--confirm", MEDIUM_NAME, "--repeats", "1"];
    let mut tune = place.command_of(&VmBoard::flashfit(), &place.tune_args(MEDIUM, &more));
    let run = tune.env("FLASHFIT_SSH_CONFIG", config).spawn().unwrap();
    let run = super::vm::with_trials(run, &place, 1);
    cut_connection(&run);
    let ended = Ended::of(run);
    ended.said(0, &[]);
    assert_all_trials_once(&place);
    let header = std::fs::read_to_string(place.path("run/run.json")).unwrap();
    let (_, release) = board.run("uname -r");
    assert!(header.contains(release.trim()), "no {release} in {header}");
    wait_until("the board is clean", || board.traces().is_empty());
    let bytes = std::fs::read(place.path("card.img")).unwrap();
    assert!(!bytes.starts_with(b"a user's data"), "the device was not written to");
    drop(board);
    wait_for_no_traces(&place, None);
}

#[test]
#[ignore = "full: starts a board"]
fn a_lost_connection_loses_no_trial() {
    with_board(|place, sshd| {
        let run = start(&place, &sshd, "4");
        for count in [1, 3] {
            place.wait_for_trials(count);
            cut_connection(&run);
        }
        let (_, folder) = agent().unwrap();
        let ended = Ended::of(run);
        ended.said(0, &[]);
        assert_all_trials_once(&place);
        wait_for_a_clean_board(&place, &folder);
    });
}

fn cut_connection(run: &Child) {
    let client = children(run.id()).into_iter().find(|child| words(*child)[0].ends_with("ssh"));
    signal(client.unwrap(), Signal::KILL);
}

#[track_caller]
fn assert_all_trials_once(place: &Place) {
    let numbers: Vec<u64> = place.recorded().iter().map(|line| number(line)).collect();
    let expected: Vec<u64> = (1..=u64::try_from(numbers.len()).unwrap()).collect();
    assert_eq!(numbers, expected, "none is missing, none came twice");
}

fn number(line: &str) -> u64 {
    let record: serde_json::Value = serde_json::from_str(line).unwrap();
    record["number"].as_u64().unwrap()
}

/// Kills the agent and waits for its successor.
fn kill_agent() -> (u32, String) {
    let (process, folder) = agent().unwrap();
    signal(process, Signal::KILL);
    (process, folder)
}

#[test]
#[ignore = "full: starts a board"]
fn a_killed_agent_is_restarted_once() {
    with_board(|place, sshd| {
        let run = start(&place, &sshd, "20");
        place.wait_for_trials(1);
        let (first, _) = kill_agent();
        wait_until("another agent follows", || agent().is_some_and(|(other, _)| other != first));
        let before = place.recorded().len();
        place.wait_for_trials(before + 2);
        let again = "the agent died during this trial";
        let noted = place.recorded().iter().filter(|line| line.contains(again)).count();
        assert_eq!(noted, 1, "the trial that was made again says so");
        let (_, folder) = kill_agent();
        let ended = Ended::of(run);
        ended.said(5, &["the agent on board was lost", "--resume"]);
        place.shorten_run(1);
        resume(&place, &sshd).said(0, &[]);
        wait_for_a_clean_board(&place, &folder);
    });
}

#[test]
#[ignore = "full: starts a board"]
fn a_directory_of_another_user_is_not_used() {
    with_board(|place, sshd| {
        let run = start(&place, &sshd, "20");
        place.wait_for_trials(1);
        let (_, folder) = agent().unwrap();
        signal(run.id(), Signal::INT);
        Ended::of(run).said(6, &["interrupted"]);
        wait_for_a_clean_board(&place, &folder);
        // Another user saw the name and created the directory with a program in it.
        let trap = format!("#!/bin/sh\ntouch {}\n", place.arg("sprung"));
        std::fs::create_dir(&folder).unwrap();
        let program = format!("{folder}/flashfit");
        std::fs::write(&program, trap).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let socket = UnixListener::bind(format!("{folder}/agent.socket")).unwrap();
        std::os::unix::fs::chown(&folder, Some(65534), Some(65534)).unwrap();
        let ended = resume(&place, &sshd);
        drop(socket);
        std::fs::remove_dir_all(&folder).unwrap();
        ended.said(4, &[&folder, "belongs to another user", "hint: check what is there"]);
        assert!(!place.path("sprung").exists(), "a stranger's program was run");
        place.shorten_run(1);
        resume(&place, &sshd).said(0, &[]);
        wait_for_a_clean_board(&place, &folder);
    });
}

#[test]
#[ignore = "full: starts a board"]
fn a_board_is_described() {
    with_board(|place, sshd| {
        let doctor = ["doctor", "--on", BOARD];
        let ended = run_to_end(sshd.command(&place, &doctor));
        ended.said(0, &[]);
        for text in [
            "board: kernel ",
            "Trials can be made there",
            "mkfs.ext4",
            "Its storage devices:",
            "DEVICE",
        ] {
            assert!(ended.stdout.contains(text), "no `{text}` in {}", ended.stdout);
        }
        let json = [&doctor[..], &["--json"]].concat();
        let document = run_to_end(sshd.command(&place, &json)).document("flashfit.board");
        assert!(document["media"].is_array() && document["kernel"].is_string(), "{document}");
        place.flashfit(&["doctor", "--on", "lab:a=b"]).said(2, &["--on ssh:HOST"]);
        wait_until("the board is clean", || agent().is_none());
    });
}

#[test]
#[ignore = "full: starts a board"]
fn a_killed_client_can_resume_with_its_agent() {
    with_board(|place, sshd| {
        let run = start(&place, &sshd, "20");
        place.wait_for_trials(2);
        let (_, folder) = agent().unwrap();
        signal(run.id(), Signal::KILL);
        assert_eq!(Ended::of(run).code, None);
        let before = place.recorded();
        place.shorten_run(1);
        resume(&place, &sshd).said(0, &[]);
        assert_eq!(place.recorded()[..before.len()], before[..], "no recorded trial is lost");
        wait_for_a_clean_board(&place, &folder);
    });
}

#[test]
#[ignore = "full: starts a board"]
fn an_interrupt_ends_the_agent_too() {
    with_board(|place, sshd| {
        let run = start(&place, &sshd, "20");
        place.wait_for_trials(1);
        let (_, folder) = agent().unwrap();
        signal(run.id(), Signal::INT);
        Ended::of(run).said(6, &["interrupted"]);
        wait_for_a_clean_board(&place, &folder);
    });
}

#[test]
fn an_unreachable_board_is_reported() {
    if skip(Sshd::lacking()) {
        return;
    }
    let place = Place::new();
    let ended = place.tune("/dev/mmcblk9", &["--on", "ssh:board.invalid"]);
    ended
        .said(4, &["board.invalid", "hint: ssh board.invalid must work without a password prompt"]);
    place
        .tune("card.img", &["--on", "ssh:-oProxyCommand=x"])
        .said(2, &["`ssh:-oProxyCommand=x`: a host does not begin with a dash"]);
}

pub fn run_to_end(mut command: std::process::Command) -> Ended {
    Ended::new(command.output().unwrap())
}
