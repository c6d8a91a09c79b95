//! Trials in a virtual machine. Skipped without QEMU or a kernel.

use std::os::unix::fs::PermissionsExt;
use std::process::Child;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use flashfit_host::SystemRunner;
use flashfit_host::program::find;
use flashfit_test_support::{is_isolated, isolated_if_root_as, name_of};
use flashfit_vm::Kernel;
use rustix::process::Signal;

use crate::fixture::{Ended, Place, skip, skip_without_block_devices, wait_until};
use crate::machine::{PlainLoop, children, signal, traces, words};

/// What this machine lacks for a virtual machine with these kernel modules.
pub fn lacking(modules: &[&str]) -> Option<String> {
    let qemu = format!("qemu-system-{}", std::env::consts::ARCH);
    let missing = [qemu.as_str(), "busybox", "fio"].into_iter().find(|name| find(name).is_none());
    missing.map(|name| format!("there is no {name}")).or_else(|| {
        // A kernel is downloaded at most once.
        static FINDING: Mutex<()> = Mutex::new(());
        let _one = FINDING.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: Vec<String> = modules.iter().map(|name| (*name).to_owned()).collect();
        Kernel::find(&wanted, &SystemRunner::default()).err().map(|error| error.to_string())
    })
}

/// A machine boots in less, next to other tests.
const LONGEST_WAIT: Duration = Duration::from_secs(240);

/// Runs a test isolated in its own directory; skips it without virtual machines.
pub fn with_machine<F: FnOnce(Place)>(test: F) {
    let name = name_of(&test);
    if !is_isolated() {
        if skip(lacking(&["ext4", "f2fs"])) {
            return;
        }
        LazyLock::force(&CACHED);
    }
    isolated_if_root_as(name, || test(Place::new()));
}

/// Fills the caches once, so that tests that run at the same time do not each do it.
static CACHED: LazyLock<()> = LazyLock::new(|| {
    let place = Place::new();
    place.flashfit(&place.tune_args(&place.card(), &["--on", "vm", "--dry-run"])).said(0, &[]);
});

/// A run in a virtual machine on the fast card.
pub fn start(place: &Place, more: &[&str]) -> Child {
    let card = place.card();
    let args: Vec<&str> = ["--on", "vm"].into_iter().chain(more.iter().copied()).collect();
    place.command(&place.tune_args(&card, &args)).spawn().unwrap()
}

fn machine(run: &Child) -> u32 {
    let mut found = None;
    wait_until("the machine runs", || {
        let is_machine =
            |child: &u32| words(*child).iter().any(|word| word.contains("qemu-system"));
        found = children(run.id()).into_iter().find(is_machine);
        found.is_some()
    });
    found.unwrap()
}

#[track_caller]
fn wait_for_trials(place: &Place, count: usize) {
    let begun = std::time::Instant::now();
    while place.recorded().len() < count {
        assert!(begun.elapsed() < LONGEST_WAIT, "no {count} trials");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The same for a run that is given back; one that ends before, or makes none, is shown.
#[track_caller]
pub fn with_trials(mut run: Child, place: &Place, count: usize) -> Child {
    let begun = std::time::Instant::now();
    while place.recorded().len() < count {
        let is_late = begun.elapsed() >= LONGEST_WAIT;
        if is_late || run.try_wait().unwrap().is_some() {
            let _ = run.kill();
            panic!("no {count} trials: {:#?}", Ended::of(run));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    run
}

#[track_caller]
pub fn wait_for_nothing_left(place: &Place) {
    wait_until("nothing is left", || traces(place).is_empty());
}

#[test]
#[ignore = "full: boots virtual machines"]
fn file_systems_of_the_guests_kernel_can_be_tested() {
    with_machine(|place| {
        let ended =
            Ended::of(start(&place, &["--fs", "f2fs", "--strategy", "random", "--trials", "2"]));
        ended.said(0, &[]);
        assert_eq!(place.recorded().len(), 2, "{}", ended.stderr);
        let trial = &place.recorded()[0];
        assert!(trial.contains("\"f2fs\"") && trial.contains("\"completed\""), "{trial}");
        assert!(
            trial.contains("nand_programmed_bytes"),
            "the card's counters are read beside: {trial}"
        );
        let header = std::fs::read_to_string(place.path("run/run.json")).unwrap();
        assert!(header.contains("\"stand\": \"vm (QEMU "), "{header}");
        wait_for_nothing_left(&place);
    });
}

#[test]
#[ignore = "full: boots virtual machines"]
fn a_killed_machine_loses_only_the_current_trial() {
    with_machine(|place| {
        let run = start(&place, &["--repeats", "20"]);
        wait_for_trials(&place, 1);
        signal(machine(&run), Signal::KILL);
        Ended::of(run).said(5, &["the virtual machine", "--resume"]);
        wait_for_nothing_left(&place);
        let before = place.recorded();
        place.shorten_run(1);
        place.flashfit(&["tune", "--resume", "run"]).said(0, &[]);
        assert_eq!(place.recorded()[..before.len()], before[..], "no recorded trial is lost");
        wait_for_nothing_left(&place);
    });
}

#[test]
#[ignore = "full: boots virtual machines"]
fn a_run_that_is_interrupted_or_killed_leaves_no_machine() {
    with_machine(|place| {
        let run = start(&place, &["--repeats", "20"]);
        wait_for_trials(&place, 1);
        signal(run.id(), Signal::INT);
        Ended::of(run).said(6, &["interrupted"]);
        wait_for_nothing_left(&place);
        let mut resumed = place.command(&["tune", "--resume", "run"]);
        let resumed = resumed.spawn().unwrap();
        let before = place.recorded().len();
        wait_for_trials(&place, before + 1);
        signal(resumed.id(), Signal::KILL);
        assert_eq!(Ended::of(resumed).code, None);
        wait_for_nothing_left(&place);
    });
}

#[test]
fn an_image_is_a_disk_of_the_machine() {
    with_machine(|place| {
        let image = place.image("card.img", 64).display().to_string();
        let more = ["--on", "vm", "--strategy", "random", "--trials", "1"];
        place.tune(&image, &more).said(3, &["--confirm card.img"]);
        let more = [&more[..], &["--confirm", "card.img"]].concat();
        let ended = place.tune(&image, &more);
        ended.said(0, &[]);
        assert!(ended.stdout.contains("/dev/YOUR-CARD"), "{}", ended.stdout);
        assert!(!ended.stdout.contains("/dev/vd"), "the guest's node is nobody's here");
        let bytes = std::fs::read(&image).unwrap();
        assert!(!bytes.starts_with(b"a user's data"), "it was written to");
        assert_eq!(bytes.len(), 64 << 20);
        wait_for_nothing_left(&place);
    });
}

#[test]
#[ignore = "full: boots virtual machines"]
fn printed_commands_use_the_hosts_device_name() {
    with_machine(|place| {
        if skip_without_block_devices() {
            return;
        }
        let device = PlainLoop::attach(&place.image("card.img", 64), 512, &[]);
        let more =
            ["--on", "vm", "--strategy", "random", "--trials", "1", "--confirm", &device.name];
        let ended = place.tune(&device.node, &more);
        ended.said(0, &[]);
        let partition = format!("{}p1", device.node);
        assert!(ended.stdout.contains(&partition), "{}", ended.stdout);
        assert!(!ended.stdout.contains("vda"), "this machine may have one: {}", ended.stdout);
        drop(device);
        wait_for_nothing_left(&place);
    });
}

#[test]
fn missing_parts_of_a_machine_are_reported() {
    let place = Place::new();
    let mut command = place.command(&["doctor"]);
    // Simulates a machine without QEMU, busybox and ssh.
    command.env("PATH", "/nowhere").env("FLASHFIT_PATH", "/nowhere");
    let ended = Ended::new(command.output().unwrap());
    ended.said(0, &[]);
    for text in ["vm (a virtual machine; needs no root): not yet", "apt-get install"] {
        assert!(ended.stdout.contains(text), "{}", ended.stdout);
    }
    let document = place.flashfit(&["doctor", "--json"]).document("flashfit.stands");
    assert!(document["vm"]["can_start"].is_boolean(), "{document}");
    place
        .tune("sim:sd-c4-block", &["--on", "here", "--vm-speed-mips", "500"])
        .said(2, &["for a virtual machine only"]);
    let missing = place.tune("sim:sd-c4-block", &["--on", "vm", "--vm-kernel", "/no/such/kernel"]);
    missing.said(2, &["/no/such/kernel"]);
}

#[test]
#[ignore = "full: boots virtual machines"]
fn option_findings_of_a_machine_are_cached() {
    with_machine(|place| {
        let card = place.card();
        let dry = place.tune_args(&card, &["--on", "vm", "--dry-run"]);
        place.flashfit(&dry).said(0, &[]);
        // From here on, no machine can start.
        let qemu =
            place.file(&format!("qemu-system-{}", std::env::consts::ARCH), "#!/bin/sh\nexit 1\n");
        std::fs::set_permissions(&qemu, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::var("PATH").unwrap();
        let without = |args: &[&str]| {
            let mut command = place.command(args);
            let path = format!("{}:{path}", place.folder().display());
            command.env("PATH", &path).env("FLASHFIT_PATH", &path);
            Ended::new(command.output().unwrap())
        };
        let ended = without(&dry);
        ended.said(0, &[]);
        assert!(!ended.stdout.contains("was not found out"), "{}", ended.stdout);
        without(&place.tune_args(&card, &["--on", "vm"])).said(4, &["the virtual machine ended"]);
    });
}
