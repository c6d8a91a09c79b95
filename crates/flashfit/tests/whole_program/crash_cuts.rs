//! `flashfit crash cuts`: live power cuts of a virtual machine, their records and their end.

use std::process::Child;

use serde_json::Value;

use crate::fixture::{Place, skip, wait_until};
use crate::machine::children;
use crate::test_beds::vm::lacking;
use flashfit_test_support::programs;

fn without_machine() -> bool {
    skip(lacking(&["ext4"])) || flashfit_test_support::skip(programs(&["mkfs.ext4", "e2fsck"]))
}

fn setups(document: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(document).unwrap();
    assert_eq!(document["schema"], "flashfit.crash-cuts");
    document["data"]["setups"].as_array().unwrap().clone()
}

#[test]
fn a_machine_loses_its_power_and_keeps_what_was_synced() {
    if without_machine() {
        return;
    }
    let place = Place::new();
    let dir = place.arg("cuts");
    let ended = place.flashfit(&["crash", "cuts", "--cuts", "2", "--dir", &dir, "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let setups = setups(&ended.stdout);
    let number = |key: &str| setups[0][key].as_u64().unwrap();
    assert_eq!((number("states"), number("mounted"), number("broken_promises")), (2, 2, 0));
    assert!(setups[0]["upper_bound"].as_f64().unwrap() > 0.7);
    // All cuts were made, so nothing boots.
    let again = place.flashfit(&["crash", "cuts", "--resume", &dir, "--json"]);
    assert_eq!((again.code, again.stdout == ended.stdout), (Some(0), true), "{again:?}");
}

#[test]
fn wrong_power_cuts_are_refused() {
    let place = Place::new();
    for (args, message) in [
        (&["--fs", "ext5"][..], "ext5"),
        (&["--card-fault", "gnomes"], "gnomes"),
        (&["--cuts", "0"], "0"),
        (&["sim:nonesuch"], "nonesuch"),
        (&["--on", "moon"], "moon"),
        (&["--resume", "x", "--seed", "2"], "--seed"),
        (&["--resume", "x", "--on", "ssh:b"], "the command that began it and --dir x"),
    ] {
        let ended = place.flashfit(&[&["crash", "cuts"], args].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(message), "{ended:?}");
    }
}

#[test]
#[ignore = "full: a minute of power cuts"]
fn a_setup_without_barriers_and_a_card_that_undoes_writes_are_noticed() {
    if without_machine() {
        return;
    }
    let place = Place::new();
    let dir = place.arg("cuts");
    let args = ["crash", "cuts", "--with", "ext4:nobarrier", "--workload", "sqlite"];
    let ended = place.flashfit(&[&args[..], &["--cuts", "12", "--dir", &dir, "--json"]].concat());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let setups_found = setups(&ended.stdout);
    let broken = |at: usize| setups_found[at]["broken_promises"].as_u64().unwrap();
    // How many are broken depends on how busy the machine is.
    assert!(broken(0) == 0 && broken(1) > 0, "{}", ended.stdout);
    let id = setups_found[1]["examples"][0]["id"].as_str().unwrap();
    let kept = format!("ext4-nobarrier-{}.img", id.split('/').nth(1).unwrap());
    let image = std::path::Path::new(&dir).join("logs").join(kept);
    assert!(image.exists() && image.with_extension("json").exists());
    let replayed = place.flashfit(&["crash", "replay", &dir, id, "--json"]);
    let replayed = replayed.document("flashfit.crash-replay");
    assert_eq!(replayed["violations"], setups_found[1]["examples"][0]["violations"]);
    assert_eq!(replayed["as_recorded"], Value::Bool(true));
    let timeline = replayed["timeline"].as_array().unwrap();
    assert_eq!(timeline.last().unwrap()["kind"], "power-cut");
    let shrunk = place.flashfit(&["crash", "shrink", &dir, id]);
    assert!(shrunk.code == Some(2) && shrunk.stderr.contains("cannot be shortened"), "{shrunk:?}");

    let dir = place.arg("undone");
    let args = ["crash", "cuts", "--card-fault", "rollback=700", "--cuts", "4", "--json"];
    let ended = place.flashfit(&[&args[..], &["--dir", &dir]].concat());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let rollback = &setups(&ended.stdout)[0]["device_faults"]["rollback"];
    assert!(rollback["happened"].as_u64().unwrap() >= 3, "{}", ended.stdout);
    assert!(rollback["noticed"].as_u64().unwrap() >= 1, "{}", ended.stdout);
}

/// The processes that a campaign has started; there is a machine at any time but a moment.
fn machines_of(run: &Child) -> Vec<u32> {
    let mut found = Vec::new();
    wait_until("there is a machine", || {
        found = children(run.id());
        !found.is_empty()
    });
    found
}

fn is_running(id: u32) -> bool {
    std::path::Path::new("/proc").join(id.to_string()).exists()
}

#[test]
#[ignore = "full: boots virtual machines"]
fn an_interrupted_or_killed_campaign_continues_and_leaves_no_machine() {
    if without_machine() {
        return;
    }
    let place = Place::new();
    let dir = place.arg("cuts");
    let records = std::path::Path::new(&dir).join("records.jsonl");
    let count = || std::fs::read_to_string(&records).map_or(0, |text| text.lines().count());
    let mut run = place.command(&["crash", "cuts", "--cuts", "9", "--dir", &dir]).spawn().unwrap();
    wait_until("there are two records", || count() >= 2);
    let machines = machines_of(&run);
    run.kill().unwrap();
    wait_until("it has ended", || run.try_wait().unwrap().is_some());
    wait_until("its machines have ended", || !machines.iter().any(|id| is_running(*id)));
    let before = count();
    let resume = ["crash", "cuts", "--resume", &dir];
    let mut run = place.command(&resume).spawn().unwrap();
    wait_until("there are more records", || count() > before + 1);
    let machines = machines_of(&run);
    let id = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    wait_until("it has ended", || run.try_wait().unwrap().is_some());
    assert_eq!(run.wait().unwrap().code(), Some(6));
    wait_until("its machines have ended", || !machines.iter().any(|id| is_running(*id)));
    let ended = place.flashfit(&[&resume[..], &["--json"]].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(setups(&ended.stdout)[0]["states"].as_u64(), Some(9));
    assert_eq!(count(), 9);
}
