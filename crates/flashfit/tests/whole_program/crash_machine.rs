//! `flashfit crash states --on vm`: the kernel of a virtual machine mounts the states.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fixture::{Place, skip, skip_without_cards, wait_until};
use crate::machine::children;
use crate::test_beds::vm::lacking;
use flashfit_test_support::programs;

fn cannot_mount() -> bool {
    let tools = programs(&["mkfs.ext4", "e2fsck", "mkfs.f2fs", "fsck.f2fs"]);
    skip_without_cards() || skip(lacking(&["ext4", "f2fs"])) || flashfit_test_support::skip(tools)
}

#[test]
fn another_kernel_mounts_the_states_of_f2fs_and_one_is_replayed() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let dir = place.arg("crash");
    let args = ["crash", "states", "--on", "vm", "--fs", "f2fs", "--states", "60", "--dir", &dir];
    let ended = place.flashfit(&[&args[..], &["--workers", "1", "--json"]].concat());
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let document = &document["data"];
    let setup = &document["setups"][0];
    let number = |key: &str| setup[key].as_u64().unwrap();
    // The first fsync after a checkpoint may be lost (docs/power-loss.md).
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    let consistent = &setup["by_promise"]["consistent"]["broken"];
    assert_eq!((consistent.as_u64().unwrap_or(0), number("mismatched")), (0, 0), "{document}");
    assert!(number("states") >= 60 && number("mounted") > 5, "{document}");
    assert!(document["plan"]["kernel"].is_string(), "{document}");
    // It replaces files without a promise, so there are examples.
    let example = &setup["examples"][0];
    let id = example["id"].as_str().unwrap();
    let replayed = place.flashfit(&["crash", "replay", &dir, id, "--json"]);
    let replayed = replayed.document("flashfit.crash-replay");
    assert_eq!(replayed["violations"], example["violations"]);
    // The same command without the machine is another campaign.
    let here =
        place.flashfit(&["crash", "states", "--fs", "ext4", "--states", "60", "--dir", &dir]);
    assert_eq!(here.code, Some(3), "{here:?}");
}

#[test]
#[ignore = "full: boots several virtual machines"]
fn a_setup_without_barriers_is_noticed_and_an_interrupt_leaves_no_machine() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let dir = place.arg("crash");
    let setups = ["--fs", "ext4", "--with", "ext4:nobarrier"];
    let args = [&["crash", "states", "--on", "vm"], &setups[..], &["--dir", &dir]].concat();
    let with_states = [&args[..], &["--states", "400", "--json"]].concat();
    let mut run = place.command(&with_states).spawn().unwrap();
    let records = std::path::Path::new(&dir).join("records.jsonl");
    let count = || std::fs::read_to_string(&records).map_or(0, |text| text.lines().count());
    // On a busy computer each of them takes its time.
    wait_until("a machine boots", || !children(run.id()).is_empty());
    let logs = std::path::Path::new(&dir).join("logs");
    let are_logs = || std::fs::read_dir(&logs).is_ok_and(|mut logs| logs.next().is_some());
    wait_until("the work is recorded", are_logs);
    wait_until("there is a record", || count() > 0);
    let machines = children(run.id());
    assert!(!machines.is_empty());
    let id = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    wait_until("it has ended", || run.try_wait().unwrap().is_some());
    assert_eq!(run.wait().unwrap().code(), Some(6));
    let is_running = |id: &u32| std::path::Path::new("/proc").join(id.to_string()).exists();
    wait_until("its machines have ended", || !machines.iter().any(is_running));
    let ended = place.flashfit(&with_states);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let broken = |setup: usize| &document["data"]["setups"][setup]["broken_promises"];
    assert_eq!(broken(0), 0, "{document}");
    assert!(broken(1).as_u64().unwrap() > 0, "{document}");
}

#[test]
fn a_kernel_that_does_not_exist_is_named() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let args = ["crash", "states", "--on", "vm", "--vm-kernel", "/nonesuch", "--states", "5"];
    let ended = place.flashfit(&args);
    assert!(ended.code != Some(0) && ended.stderr.contains("/nonesuch"), "{ended:?}");
    assert!(!place.path("crash-run").exists());
}

/// States that this check fails in, by their names, for a log.
fn failing(place: &Place, log: &str, check: &str, dir: &str, more: &[&str]) -> BTreeSet<String> {
    let args = ["crash", "states", "--log", log, "--workload", check, "--states", "80"];
    let ended = place.flashfit(&[&args[..], &["--dir", dir], more].concat());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let records = std::fs::read_to_string(place.path(dir).join("records.jsonl")).unwrap();
    let lines = records.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let broken = lines.flat_map(|batch| batch["broken"].as_array().cloned().unwrap_or_default());
    // Only this machine gets second power cuts, whose names end with a letter.
    let names = broken.map(|state| state["id"].as_str().unwrap().to_owned());
    names.filter(|name| !name.ends_with('r')).collect()
}

/// A log decides its states, and two kernels recover the same from them.
#[test]
fn the_same_requests_get_the_same_verdicts_from_another_kernel() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    // The second line is printed too early.
    let check = "run = 'echo 1 >a; sync a; sync .; echo one; mv a b; echo two'\n\
         check = 'while read l; do [ -s b ] || { [ $l = one ] && [ -s a ]; } || exit 1; done'\n";
    let check = place.file("check.toml", check).display().to_string();
    let args = ["crash", "states", "--workload", &check, "--states", "40", "--dir", "recorded"];
    assert_eq!(place.flashfit(&args).code, Some(1));
    let args = ["crash", "replay", "recorded", "ext4/0/1", "--workload", &check, "--dm-log"];
    let replayed = place.flashfit(&[&args[..], &["--json"]].concat());
    let log = replayed.document("flashfit.crash-replay")["dm_log"].as_str().unwrap().to_owned();
    let here = failing(&place, &log, &check, "here", &[]);
    assert!(!here.is_empty());
    assert_eq!(failing(&place, &log, &check, "machine", &["--on", "vm"]), here);
}
