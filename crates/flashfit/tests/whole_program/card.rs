//! `flashfit card`: serving, statistics, power cuts, saving, and all ways to end.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use flashfit_host::mount::Mounted;
use flashfit_host::{Program, Runner, SystemRunner};
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{Ended, FAST_CARD, FLASHFIT, Place, skip_without_cards, wait_until};
use crate::machine::{Server, signal, wait_for_no_traces};
use flashfit_test_support::{TestNeed, skip, skip_part};

const CACHE: &str = "[cache]\nbytes = \"1MiB\"\n";
/// A user without files.
const NOBODY: u32 = 65534;

/// A running `flashfit card serve` and its device; killed on drop.
pub struct Serving {
    pub child: Option<Child>,
    pub at: PathBuf,
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Serving {
    /// Starts the server and waits until it prints the device.
    pub fn new(place: &Place, more: &[&str]) -> Self {
        Self::of(place.command(&[&["card", "serve", &place.arg("card.toml")], more].concat()))
    }

    pub fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let output = child.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        if line.is_empty() {
            panic!("{:?}", Ended::of(child));
        }
        Self { child: Some(child), at: line.trim().into() }
    }

    pub fn arg(&self) -> &str {
        self.at.to_str().unwrap()
    }

    pub fn end(self, with: Signal) -> Ended {
        signal(self.child.as_ref().unwrap().id(), with);
        self.ended()
    }

    pub fn ended(mut self) -> Ended {
        Ended::of(self.child.take().unwrap())
    }

    /// The counters from `card stats --json`.
    fn stats(&self, place: &Place, more: &[&str]) -> Value {
        let args = [&["card", "stats", self.arg(), "--json"], more].concat();
        place.flashfit(&args).document("flashfit.card-counters")
    }
}

fn with_cache(place: &Place) {
    place.file("card.toml", &format!("{FAST_CARD}{CACHE}"));
}

fn open(device: &Path) -> std::fs::File {
    std::fs::File::options().read(true).write(true).open(device).unwrap()
}

pub fn write_all_synced(device: &Path, bytes: &[u8]) {
    let file = open(device);
    file.write_all_at(bytes, 0).unwrap();
    file.sync_all().unwrap();
}

fn write_synced(device: &Path, offset: u64, byte: u8) {
    let file = open(device);
    file.write_all_at(&[byte; 4096], offset).unwrap();
    file.sync_all().unwrap();
}

pub fn byte_at(device: &Path, offset: u64) -> u8 {
    let mut byte = [0];
    open(device).read_exact_at(&mut byte, offset).unwrap();
    byte[0]
}

#[test]
fn a_card_on_a_loop_device_has_counters_and_power_cuts() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    with_cache(&place);
    let serving = Serving::new(&place, &["--loop"]);
    write_synced(&serving.at, 0, 7);
    assert_eq!(serving.stats(&place, &[])["host_written_bytes"], 4096);
    assert_eq!(serving.stats(&place, &["--reset"])["host_written_bytes"], 4096);
    assert_eq!(serving.stats(&place, &[])["host_written_bytes"], 0);

    let forgets = ["card", "cut", serving.arg(), "--fault", "rollback=250", "--power-on"];
    let forgets = place.flashfit(&forgets);
    forgets.said(0, &[]);
    let hint = "did not happen: the card keeps no history\n\
                for a history: flashfit card serve CARD --history-ms 250\n";
    assert!(forgets.stdout.contains(hint), "{}", forgets.stdout);

    let image = place.arg("image");
    let cut = ["card", "cut", serving.arg(), "--json", "--image", &image];
    let report = place.flashfit(&cut).document("flashfit.card-cut");
    assert_eq!((&report["honest"], &report["powered_on"]), (&true.into(), &false.into()));
    assert_eq!(byte_at(Path::new(&image), 4095), 7);
    let file = open(&serving.at);
    let written = file.write_all_at(&[1; 4096], 1 << 20).and_then(|()| file.sync_all());
    assert!(written.is_err(), "a card without power was written to");
    drop(file);
    place.flashfit(&cut).said(3, &["already exists"]);
    let again = place.flashfit(&["card", "cut", serving.arg()]);
    again
        .said(2, &[&format!("hint: switch it on first: flashfit card power-on {}", serving.arg())]);
    place.flashfit(&["card", "power-on", serving.arg()]).said(0, &[]);
    write_synced(&serving.at, 8192, 9);
    let brick = place.flashfit(&["card", "cut", serving.arg(), "--fault", "brick", "--seed", "3"]);
    brick.said(0, &[]);
    assert!(brick.stdout.contains("seed 3") && brick.stdout.contains("brick: 1 card\n"));
    assert!(brick.stdout.contains("a fault of the device"), "{}", brick.stdout);
    assert!(brick.stdout.contains("never answers again"), "{}", brick.stdout);
    assert!(!brick.stdout.contains("power-on"), "{}", brick.stdout);
    let on = place.flashfit(&["card", "power-on", serving.arg()]);
    on.said(5, &["has bricked the card", "hint: end it and serve a new card"]);
    place.flashfit(&["card", "cut", serving.arg()]).said(5, &["has bricked the card"]);
    let ended = serving.end(Signal::INT);
    ended.said(0, &["simulated card attached", "write amplification"]);
    wait_for_no_traces(&place, None);
}

#[test]
fn a_saved_card_continues_where_it_ended() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    with_cache(&place);
    let state = ["--state", "card.state", "--keep-data", "."];
    for (round, ending) in [Signal::INT, Signal::TERM, Signal::KILL].into_iter().enumerate() {
        let serving = Serving::new(&place, &state);
        for earlier in 0..round as u8 {
            assert_eq!(byte_at(&serving.at, u64::from(earlier) * 4096), earlier + 1);
        }
        write_synced(&serving.at, round as u64 * 4096, round as u8 + 1);
        let ended = serving.end(ending);
        // The card's process saves it even if the command is killed.
        assert_eq!(ended.code, (ending != Signal::KILL).then_some(0), "{ended:?}");
        wait_for_no_traces(&place, None);
    }
    let serving = Serving::new(&place, &state);
    assert_eq!(byte_at(&serving.at, 8192), 3);
    serving.end(Signal::INT).said(0, &[]);
    place.file("card.toml", FAST_CARD);
    place.flashfit(&["card", "serve", "card.toml", "--state", "card.state"]).said(2, &["fast"]);
    place.file("card.state", "a user's data");
    let other = place.flashfit(&["card", "serve", "card.toml", "--state", "card.state"]);
    other.said(2, &["card.state", "not a saved card"]);
    wait_for_no_traces(&place, None);
}

#[test]
fn a_card_whose_process_is_killed_is_reported() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let serving = Serving::new(&place, &[]);
    let server = Server::of(&place);
    signal(server.process, Signal::KILL);
    serving.ended().said(5, &["the process of the simulated card", "hint: serve a new card"]);
    wait_for_no_traces(&place, Some(&server));
}

#[test]
fn any_user_can_serve_a_card_over_nbd() {
    let place = Place::new();
    std::fs::set_permissions(place.folder(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let as_nobody = |args: &[&str]| {
        let mut command = place.command(args);
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    };
    let refused = as_nobody(&["--version"]).output().err();
    if skip(refused.map(|error| TestNeed::User.missing(format!("{FLASHFIT}: {error}")))) {
        return;
    }
    let args = ["card", "serve", "card.toml", "--nbd", "socket", "--state", "card.state"];
    let serving = Serving::of(as_nobody(&args));
    assert_eq!(serving.at, place.path("socket").canonicalize().unwrap());
    place.flashfit(&args).said(3, &["card.state is in use"]);
    place.flashfit(&args[..5]).said(2, &["another process listens"]);
    if !skip_part(flashfit_test_support::program("nbdcopy")) {
        place.image("in", 160);
        let uri = format!("nbd+unix:///?socket={}", serving.arg());
        let copy = Program::new("nbdcopy").args([place.arg("in"), uri]);
        SystemRunner::default().run_checked(&copy).unwrap();
        let stats = as_nobody(&["card", "stats", serving.arg(), "--json"]).output().unwrap();
        let counters = Ended::new(stats).document("flashfit.card-counters");
        assert!(counters["host_written_bytes"].as_u64().unwrap() > 200_000, "{counters}");
    }
    let cut = as_nobody(&["card", "cut", serving.arg(), "--power-on"]).output().unwrap();
    let cut = Ended::new(cut);
    cut.said(0, &[]);
    assert!(cut.stdout.contains("only what a correct device may do"), "{}", cut.stdout);
    let ended = serving.end(Signal::INT);
    ended.said(0, &["simulated card served over NBD", "\n  nbd+unix:///?socket=/"]);
    ended.said(0, &["\n  host writes            "]);
    assert!(!place.path("socket").exists() && place.path("card.state").exists());
    wait_for_no_traces(&place, None);
}

/// Waits for the line of standard error that contains `what`, and returns the text before it too.
fn read_until(errors: &mut impl BufRead, what: &str) -> String {
    let mut text = String::new();
    while !text.contains(what) {
        let length = errors.read_line(&mut text).unwrap();
        assert!(length > 0, "{what} is not in {text}");
    }
    text
}

#[test]
fn processes_that_use_a_device_are_reported() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let mut serving = Serving::new(&place, &[]);
    let server = Server::of(&place);
    let file = open(&serving.at);
    let errors = serving.child.as_mut().unwrap().stderr.take().unwrap();
    signal(serving.child.as_ref().unwrap().id(), Signal::INT);
    let mut errors = BufReader::new(errors);
    let text = read_until(&mut errors, "pulled out");
    assert!(!text.contains("was still in use"), "{text}");
    let user = format!("{} is open in process {}", serving.arg(), std::process::id());
    assert!(text.contains(&user) && text.contains("waiting 10 s"), "{text}");
    let text = read_until(&mut errors, "hint: ");
    assert!(text.contains("was still in use"), "{text}");
    assert!(text.contains("hint: umount /dev/loop") && text.contains("fuser -v"), "{text}");
    assert_eq!(serving.ended().code, Some(5));
    drop(file);
    wait_until("the device is given back", || !server.device.is_there());
}

#[test]
fn a_mounted_card_is_waited_for_and_says_so() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let mut serving = Serving::new(&place, &["--stop-wait-s", "600"]);
    let runner = SystemRunner::default();
    let mkfs = Program::new("mkfs.ext4").args(["-q", "-F", serving.arg()]);
    runner.run_checked(&mkfs).unwrap();
    let point = place.path("m");
    std::fs::create_dir(&point).unwrap();
    let mounted = Mounted::new(&runner, &serving.at, "ext4", &point, &[]).unwrap();
    let mut errors = BufReader::new(serving.child.as_mut().unwrap().stderr.take().unwrap());
    signal(serving.child.as_ref().unwrap().id(), Signal::INT);
    let text = read_until(&mut errors, "pulled out");
    let at = format!("{} is mounted on {}: umount", serving.arg(), point.display());
    assert!(text.replace('\n', " ").contains(&at), "{text}");
    mounted.unmount().unwrap();
    assert_eq!(serving.ended().code, Some(0));
    wait_for_no_traces(&place, None);
}

#[test]
fn a_printed_card_file_describes_the_same_card() {
    let place = Place::new();
    let shown = |args: &[&str]| {
        let output = place.command(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let file = shown(&["card", "show", "emmc-5.1", "--file"]);
    std::fs::write(place.arg("mine.toml"), file).unwrap();
    let again = shown(&["card", "show", &place.arg("mine.toml"), "--json"]);
    assert_eq!(again, shown(&["card", "show", "emmc-5.1", "--json"]));
}

#[test]
fn a_benchmark_counts_only_what_it_measured() {
    let place = Place::new();
    let bench = |least: &str| place.flashfit(&["card", "bench", "card.toml", "--least", least]);
    bench("1").said(2, &["--least 1 B: the card has sectors of 512 B", "hint: use --least 512"]);
    let large = bench("512KiB");
    large.said(0, &[]);
    assert!(large.stdout.contains("linear not measured; random not measured"), "{large:?}");
    let small = bench("64KiB");
    assert!(!small.stdout.contains("not measured"), "{small:?}");
}

#[test]
fn devices_that_are_not_served_cards_are_refused() {
    let place = Place::new();
    for args in [&["card", "stats", "/dev/null"][..], &["card", "cut", "card.toml"]] {
        place.flashfit(args).said(2, &["is not a simulated card that is being served"]);
    }
    place.flashfit(&["card", "cut", "x", "--fault", "gnomes"]).said(2, &["gnomes"]);
    place.flashfit(&["card", "cut", "x", "--power-on", "--image", "y"]).said(2, &["--image"]);
    place.flashfit(&["card", "serve", "x", "--loop", "--nbd", "y"]).said(2, &["--nbd"]);
    place.file("socket", "a user's data");
    let refused = place.flashfit(&["card", "serve", "card.toml", "--nbd", "socket"]);
    refused.said(3, &["exists and is not a socket"]);
    let trace = ["card", "serve", "card.toml", "--nbd", "other", "--trace", "socket"];
    place.flashfit(&trace).said(3, &["socket exists; it was not changed"]);
}

#[test]
fn a_card_of_another_user_is_reported() {
    let place = Place::new();
    let is_root = rustix::process::geteuid().is_root();
    if skip((!is_root).then(|| TestNeed::Root.missing("the test needs two users".to_owned()))) {
        return;
    }
    std::fs::set_permissions(place.folder(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let as_nobody = |args: &[&str]| {
        let mut command = place.command(args);
        command.uid(NOBODY).gid(NOBODY);
        command
    };
    let refused = as_nobody(&["--version"]).output().err();
    if skip(refused.map(|error| TestNeed::User.missing(format!("{FLASHFIT}: {error}")))) {
        return;
    }
    let serving = Serving::of(place.command(&["card", "serve", "card.toml", "--nbd", "roots"]));
    for command in ["stats", "cut", "power-on"] {
        let asked = Ended::new(as_nobody(&["card", command, "roots"]).output().unwrap());
        asked.said(4, &["roots is served by another user (root)", "hint: run the same command"]);
    }
    serving.end(Signal::INT);
    let serving = Serving::of(as_nobody(&["card", "serve", "card.toml", "--nbd", "nobodys"]));
    place.flashfit(&["card", "stats", serving.arg()]).said(0, &[]);
    serving.end(Signal::INT);
}
