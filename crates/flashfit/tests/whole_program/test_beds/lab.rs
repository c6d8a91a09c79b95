//! Runs on the boards of a lab, with labgrid's coordinator, exporter and client on loopback. The
//! boards are this machine twice, with one image each, or two virtual machines.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flashfit_test_support::{isolated_as, name_of};
use rustix::process::Signal;
use serde_json::Value;

use super::rack::board::Board;
use super::rack::{Rack, SecondSwitch};
use super::ssh_probe::with_erase_block;
use super::vm_board::{MEDIUM, VmBoard};
use crate::fixture::{Ended, FLASHFIT, Place, skip, skip_without_block_devices, wait_until};
use crate::machine::{processes, signal, wait_for_no_traces, words};

const ON: &str = "lab:pool=pf";
const CONFIRM: &str = "board1:card.img,board2:card.img";
const CONFIRM_MACHINES: &str = "board1:vda,board2:vda";

/// How long it may take until both boards have run trials of the search.
const START_LIMIT: Duration = Duration::from_secs(240);

/// Runs a test isolated with a lab of two boards; skips it without labgrid.
fn with_boards<F: FnOnce(Lab)>(test: F) {
    let name = name_of(&test);
    if !skip_without_block_devices() && !skip(Rack::lacking()) {
        isolated_as(name, || test(Lab::start()));
    }
}

/// The same with virtual machines.
fn with_machines<F: FnOnce(Lab, [Arc<VmBoard>; 2])>(test: F) {
    with_machines_and(SecondSwitch::Command, name_of(&test), Rack::lacking(), test);
}

fn with_machines_and(
    second: SecondSwitch,
    name: &str,
    lacking: Option<String>,
    test: impl FnOnce(Lab, [Arc<VmBoard>; 2]),
) {
    if !skip(lacking.or_else(VmBoard::lacking)) {
        VmBoard::prepare();
        isolated_as(name, || {
            let (lab, machines) = Lab::with_machines(second);
            test(lab, machines);
        });
    }
}

/// The test lab and the command's configuration for it.
struct Lab {
    place: Place,
    rack: Rack,
    ssh: PathBuf,
    flashfit: PathBuf,
    /// The name of each board's device.
    device: &'static str,
    confirm: &'static str,
}

impl Lab {
    /// Two boards, each with its own device as `card.img`.
    fn start() -> Self {
        let place = Place::new();
        let rack = Rack::start().expect("what it lacks was asked");
        let mut ssh = String::from("Host *\n  IdentitiesOnly yes\n");
        for (number, mib) in [(1, 64), (2, 96)] {
            let folder = folder_of(&rack, number).unwrap();
            let image = std::fs::File::create(folder.join("card.img")).unwrap();
            image.set_len(mib << 20).unwrap();
            // Processes on this board see its own image.
            let config = folder.join("sshd_config");
            let text = std::fs::read_to_string(&config).unwrap();
            let here = folder.display();
            let command = format!("ForceCommand cd {here} && eval \"$SSH_ORIGINAL_COMMAND\"\n");
            std::fs::write(&config, text + &command).unwrap();
            rack.board(number).switch(false);
            rack.board(number).switch(true);
            ssh.push_str(&format!("  IdentityFile {here}/user\n"));
        }
        let ssh = place.file("ssh_config", &ssh);
        let (flashfit, device, confirm) = (PathBuf::from(FLASHFIT), "card.img", CONFIRM);
        Self { place, rack, ssh, flashfit, device, confirm }
    }

    /// Two virtual machines, initially off.
    fn with_machines(second: SecondSwitch) -> (Self, [Arc<VmBoard>; 2]) {
        let place = Place::new();
        let machines = [("card1.img", 80), ("card2.img", 96)]
            .map(|(name, mib)| Arc::new(VmBoard::new(&place.image(name, mib))));
        let key = machines[0].key();
        let ssh = format!("Host *\n  IdentitiesOnly yes\n  IdentityFile {}\n", key.display());
        let ssh = place.file("ssh_config", &ssh);
        let boards = machines.each_ref().map(|one| Arc::clone(one) as Arc<dyn Board>);
        let rack = Rack::with(boards, second);
        let (flashfit, confirm) = (VmBoard::flashfit(), CONFIRM_MACHINES);
        (Self { place, rack, ssh, flashfit, device: MEDIUM, confirm }, machines)
    }

    fn command(&self, args: &[&str]) -> Command {
        let settings = self.rack.settings();
        let programs = Path::new(&settings.client).parent().unwrap().display().to_string();
        let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
        let mut command = self.place.command_of(&self.flashfit, args);
        command
            .env("PATH", &path)
            .env("FLASHFIT_PATH", &path)
            .env("LG_COORDINATOR", &settings.coordinator)
            .env("LG_ENV", settings.environment.unwrap())
            .env("FLASHFIT_SSH_CONFIG", &self.ssh)
            .env("FLASHFIT_STATE_DIR", self.place.path("state"));
        command
    }

    /// A run in the directory `run`.
    fn tune(&self, more: &[&str]) -> Child {
        let all = [&["--on", ON, "--confirm", self.confirm], more].concat();
        self.command(&self.place.tune_args(self.device, &all)).spawn().unwrap()
    }

    fn resume(&self) -> Ended {
        let mut command = self.command(&["tune", "--resume", "run", "--confirm", self.confirm]);
        Ended::new(command.output().unwrap())
    }

    fn records(&self) -> Vec<Value> {
        self.place.recorded().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until nothing is locked, recorded or running.
    #[track_caller]
    fn wait_until_all_is_given_back(&self) {
        self.rack.assert_all_released();
        let records = std::fs::read_dir(self.place.path("state/lab")).unwrap().flatten();
        let left: Vec<PathBuf> = records.map(|entry| entry.path()).collect();
        assert!(!left.iter().any(|path| path.extension().is_some_and(|e| e == "json")), "{left:?}");
        wait_until("no agent is left", || self.agents().is_empty());
    }

    /// The agents, with the numbers of their boards.
    fn agents(&self) -> Vec<(usize, u32)> {
        let listens = |process: &u32| words(*process).iter().any(|word| word == "--listen");
        let board = |process: u32| {
            let at = std::fs::read_link(format!("/proc/{process}/cwd")).ok()?;
            let number =
                (1..=2).find(|number| folder_of(&self.rack, *number).as_ref() == Some(&at))?;
            Some((number, process))
        };
        processes().into_iter().filter(listens).filter_map(board).collect()
    }

    /// Kills a board's agent and cleans up after it.
    fn kill_agent(&self, board: usize) {
        let found = self.agents().into_iter().find(|(number, _)| *number == board);
        let (_, agent) = found.expect("it has an agent");
        let folder = words(agent).into_iter().skip_while(|word| word != "--listen").nth(1).unwrap();
        signal(agent, Signal::KILL);
        assert!(folder.starts_with("/tmp/flashfit-"), "{folder}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Waits until both boards have run trials of the search.
    fn wait_for_both(&self) {
        let both = || {
            let made: BTreeSet<String> = self.records().iter().filter_map(searched_on).collect();
            made.len() == 2
        };
        // Locking and reaching two boards takes long on a busy machine.
        let began = Instant::now();
        while !both() {
            assert!(began.elapsed() < START_LIMIT, "both boards have made trials");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A board's directory; `None` for virtual machines.
fn folder_of(rack: &Rack, number: usize) -> Option<PathBuf> {
    rack.folder_of(number).canonicalize().ok()
}

fn board(record: &Value) -> String {
    record["made_on"]["board"].as_str().unwrap().to_owned()
}

fn searched_on(record: &Value) -> Option<String> {
    (record["key"]["purpose"] != "overlap").then(|| board(record))
}

#[test]
#[ignore = "full: runs a lab"]
fn a_run_uses_all_boards_and_releases_them() {
    with_boards(|lab| {
        let ended = Ended::of(lab.tune(&["--repeats", "4", "--confirm-rounds", "3"]));
        ended.said(0, &[]);
        let records = lab.records();
        let of_search: BTreeSet<String> = records.iter().filter_map(searched_on).collect();
        assert_eq!(of_search.len(), 2, "{records:#?}");
        // The baseline comes first on each board.
        let is_overlap = |record: &&Value| record["key"]["purpose"] == "overlap";
        assert_eq!(records.iter().filter(is_overlap).count(), 4);
        assert!(records[..4].iter().all(|record| is_overlap(&record)), "{records:#?}");
        // A confirmation round runs on one board.
        let mut rounds: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        for record in records.iter().filter(|record| record["key"]["purpose"] == "confirm") {
            let round = record["key"]["repeat"].as_u64().unwrap();
            rounds.entry(round).or_default().insert(board(record));
        }
        assert!(rounds.values().all(|boards| boards.len() == 1), "{rounds:?}");
        let header = std::fs::read_to_string(lab.place.path("run/run.json")).unwrap();
        assert!(header.contains("\"stand\": \"lab:pool=pf\""), "{header}");
        let report = std::fs::read_to_string(lab.place.path("run/report.html")).unwrap();
        assert!(report.contains("Devices of this run"));
        lab.place.flashfit(&["analyze", "run"]).said(0, &["several devices"]);
        lab.place.flashfit(&["tune", "--replay", "run"]).said(0, &["2 devices were measured"]);
        lab.wait_until_all_is_given_back();
    });
}

#[test]
#[ignore = "full: runs a lab"]
fn trials_of_a_dead_board_move_to_the_other() {
    with_machines(|lab, machines| {
        // The lab switches them on, and they boot.
        let run = lab.tune(&["--repeats", "5"]);
        lab.wait_for_both();
        let killed = machines[0].process();
        signal(killed, Signal::KILL);
        let ended = Ended::of(run);
        ended.said(0, &["lost vda flashfit0 on board1"]);
        let records = lab.records();
        let last = records.iter().rposition(|record| board(record) == "board1").unwrap();
        assert!(records[last..].iter().filter(|record| board(record) == "board2").count() > 2);
        let keys: BTreeSet<String> =
            records.iter().map(|record| record["key"].to_string()).collect();
        assert_eq!(keys.len(), records.len(), "no trial was made twice");
        assert!(lab.place.path("run/report.html").exists());
        lab.wait_until_all_is_given_back();
        // The dead board was switched off. The other's switch cannot report its state, so it stays
        // on.
        assert!(!machines[0].has_power() && machines[1].has_power());
        wait_until("board2 is clean", || machines[1].traces().is_empty());
        let Lab { place, rack, .. } = lab;
        drop(rack);
        assert!(!machines[1].has_power());
        wait_for_no_traces(&place, None);
    });
}

/// Power that the lab switches over HTTP, with labgrid's model `rest`.
#[test]
#[ignore = "full: runs a lab"]
fn the_switch_of_a_lab_cuts_the_power_of_one_board() {
    with_machines(|lab, machines| cut_the_power(&lab, &machines, 1));
}

/// Power that a daemon of the lab switches.
#[test]
#[ignore = "full: runs a lab"]
fn pdudaemon_cuts_the_power_of_one_board() {
    let name = name_of(&pdudaemon_cuts_the_power_of_one_board);
    let second = SecondSwitch::pdudaemon();
    with_machines_and(second, name, Rack::lacking_pdudaemon(), |lab, machines| {
        cut_the_power(&lab, &machines, 2);
        let log = lab.rack.log();
        assert!(log.contains("Processing job for PDU shelf: (off 2)"), "{log}");
        assert!(log.contains("Processing job for PDU shelf: (on 2)"), "{log}");
    });
}

#[test]
#[ignore = "full: runs a lab"]
fn a_device_is_not_erased_on_a_board_that_was_not_named() {
    with_boards(|lab| {
        let card = folder_of(&lab.rack, 1).unwrap().join("card.img");
        // Room for a file system and the table of partitions.
        std::fs::File::options().write(true).open(&card).unwrap().set_len(96 << 20).unwrap();
        let before = std::fs::read(&card).unwrap();
        let card_name = card.display().to_string();
        let refused = |confirm: &[&str], code: i32, texts: &[&str]| {
            let cuts = ["crash", "cuts", &card_name, "--on", "lab:pool=pf,nr=1", "--cuts", "1"];
            let ended = Ended::new(lab.command(&[&cuts[..], confirm].concat()).output().unwrap());
            ended.said(code, texts);
            lab.wait_until_all_is_given_back();
        };
        lab.rack.board(1).switch(false);
        let hint = "hint: add --confirm board1:card.img";
        refused(&[], 3, &["board: board1", "error: board1: all data on", hint]);
        assert!(!lab.rack.board(1).has_power(), "it was off before");
        refused(&["--confirm", "board1:sda"], 3, &["error: board1: `sda` is not the name", hint]);
        let other = ["you agreed for board2, but the lab gave board1", "add name=board2"];
        refused(&["--confirm", "board2:card.img"], 3, &other);
        assert!(!lab.rack.board(1).has_power(), "it was off before");
        refused(&["--confirm", "card.img"], 2, &["`card.img` does not name a board"]);
        lab.rack.board(1).switch(true);
        refused(&[], 3, &[hint]);
        assert!(lab.rack.board(1).has_power(), "it was on before");
        assert!(std::fs::read(&card).unwrap() == before, "the card was written");
    });
}

/// Two power cuts of one board; the other is not switched on.
fn cut_the_power(lab: &Lab, machines: &[Arc<VmBoard>; 2], number: usize) {
    let on = format!("lab:name=board{number}");
    let confirm = format!("board{number}:vda");
    let args = ["crash", "cuts", MEDIUM, "--on", &on, "--confirm", &confirm];
    let more = ["--cuts", "2", "--off-time", "1s", "--json", "--dir", "cuts"];
    let ended = Ended::new(lab.command(&[&args[..], &more].concat()).output().unwrap());
    ended.said(0, &["board: Linux"]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let setup = &document["data"]["setups"][0];
    assert_eq!((&setup["states"], &setup["broken_promises"]), (&2.into(), &0.into()));
    // The switch of board 1 can report that it was off before.
    match number {
        1 => assert!(!machines[0].has_power(), "it was off before"),
        _ => assert_eq!(machines[number - 1].traces(), ""),
    }
    assert!(!machines[2 - number].has_power(), "it is not the board that was asked for");
    lab.wait_until_all_is_given_back();
}

#[test]
#[ignore = "full: runs a lab"]
fn a_run_that_lost_all_boards_can_be_resumed() {
    with_boards(|lab| {
        let run = lab.tune(&["--repeats", "30"]);
        lab.wait_for_both();
        lab.kill_agent(1);
        lab.kill_agent(2);
        Ended::of(run).said(5, &["no board is left", "--resume run"]);
        let before = lab.place.recorded();
        // They were switched off if possible; the lab switches them on again.
        assert!(!lab.rack.board(1).has_power());
        assert!(!lab.rack.board(2).has_power());
        lab.wait_until_all_is_given_back();
        lab.place.shorten_run(4);
        lab.resume().said(0, &[]);
        assert_eq!(lab.place.recorded()[..before.len()], before[..], "no recorded trial is lost");
        lab.wait_until_all_is_given_back();
    });
}

#[test]
#[ignore = "full: runs a lab"]
fn an_interrupt_releases_the_boards() {
    with_boards(|lab| {
        let run = lab.tune(&["--repeats", "30"]);
        lab.wait_for_both();
        signal(run.id(), Signal::INT);
        Ended::of(run).said(6, &["interrupted"]);
        lab.wait_until_all_is_given_back();
    });
}

#[test]
#[ignore = "full: runs a lab"]
fn a_killed_run_can_be_resumed_and_releases_its_boards() {
    with_boards(|lab| {
        let run = lab.tune(&["--repeats", "30"]);
        lab.wait_for_both();
        signal(run.id(), Signal::KILL);
        assert_eq!(Ended::of(run).code, None);
        let before = lab.place.recorded();
        lab.place.shorten_run(4);
        lab.resume().said(0, &["released boards of an earlier run: board1, board2"]);
        assert_eq!(lab.place.recorded()[..before.len()], before[..], "no recorded trial is lost");
        lab.wait_until_all_is_given_back();
    });
}

#[test]
#[ignore = "full: runs a lab"]
fn a_run_survives_a_restart_of_the_coordinator() {
    with_boards(|mut lab| {
        let run = lab.tune(&["--repeats", "40"]);
        lab.wait_for_both();
        lab.rack.kill_coordinator();
        lab.rack.start_coordinator();
        let ended = Ended::of(run);
        ended.said(0, &["the lab had lost the lock; locked again"]);
        lab.wait_until_all_is_given_back();
    });
}

#[test]
#[ignore = "full: runs a lab"]
fn boards_in_use_are_omitted_and_none_free_is_reported() {
    with_boards(|lab| {
        lab.rack.client("desk", "bob", &["-p", "board1", "lock"]);
        let ended = Ended::of(lab.tune(&["--dry-run"]));
        ended.said(0, &["left out: board1 is locked by desk/bob"]);
        lab.rack.client("desk", "bob", &["-p", "board1", "unlock"]);
        lab.rack.board(1).switch(false);
        let ended = Ended::of(lab.tune(&["--dry-run"]));
        ended.said(0, &["left out: board1: it is off, and a dry run does not switch it on"]);
        assert!(!lab.rack.board(1).has_power());
        lab.rack.board(1).switch(true);
        lab.rack.client("desk", "bob", &["-p", "board1", "lock"]);
        lab.rack.client("desk", "bob", &["-p", "board2", "lock"]);
        let ended = Ended::of(lab.tune(&["--lab-wait", "2s"]));
        ended.said(4, &["no board with pool=pf is free", "board2 is locked by desk/bob", "hint: "]);
        for board in ["board1", "board2"] {
            lab.rack.client("desk", "bob", &["-p", board, "unlock"]);
        }
        // The device of board 2 was not confirmed.
        let args = ["--on", ON, "--confirm", "board1:card.jpg"];
        let ended =
            Ended::new(lab.command(&lab.place.tune_args("card.img", &args)).output().unwrap());
        ended.said(3, &["left out: board1", "left out: board2", "board2:card.img"]);
        lab.wait_until_all_is_given_back();
    });
}

#[test]
#[ignore = "full: runs a lab"]
fn a_board_with_another_device_than_the_probed_one_is_left_out() {
    with_boards(|lab| {
        lab.place.image("card.img", 64);
        lab.place.flashfit(&["probe", "card.img", "--output", "p.json"]).said(0, &[]);
        with_erase_block(&lab.place, "p.json");
        // Images are of this machine, and the boards have their own.
        std::fs::remove_file(lab.place.path("card.img")).unwrap();
        let ended = Ended::of(lab.tune(&["--dry-run", "--geometry", "p.json"]));
        ended.said(0, &["left out: board2: p.json is of another device", "not 96 MiB"]);
        assert!(ended.stdout.contains("4 MiB (probed)"), "{ended:#?}");
        lab.wait_until_all_is_given_back();
    });
}
