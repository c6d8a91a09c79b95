//! `flashfit crash states --log`: requests that another program recorded.

use std::path::Path;
use std::process::{Child, Command};

use flashfit_test_support::{isolated, programs, skip};
use serde_json::Value;

use crate::fixture::{Place, skip_without_cards, wait_until};

/// The export of a log is read as that of another program: what mkfs wrote is there before.
pub fn check_export(place: &Place, log: &str) {
    let check = "run = 'exit 1'\ncheck = 'wc -l >&2; grep -q never && exit 1; exit 0'\n";
    let check = place.file("check.toml", check).display().to_string();
    let states_of = |log: &str, more: &[&str]| {
        let args = ["crash", "states", "--log", log, "--states", "150", "--json"];
        place.flashfit(&[&args[..], more].concat())
    };
    let states = |more: &[&str]| states_of(log, more);
    let dir = place.arg("imported");
    let ended = states(&["--dir", &dir, "--keep-logs"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let setup = &document["data"]["setups"][0];
    assert_eq!(setup["logs"], 1, "{document}");
    assert!(setup["states"].as_u64().unwrap() >= 150, "{document}");
    assert!(setup["mounted"].as_u64().unwrap() > 50, "{document}");
    assert_eq!(setup["by_promise"]["synced"]["examined"], Value::Bool(false));
    // The same again has nothing left to do, and one of its states can be looked at.
    assert_eq!(states(&["--dir", &dir, "--keep-logs"]).code, Some(0));
    let replayed = place.flashfit(&["crash", "replay", &dir, "ext4/0/7"]);
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    let other = states(&["--dir", &dir, "--log-start", "flashfit: made"]);
    assert_eq!(other.code, Some(3), "another start is another campaign: {other:?}");
    let checked = states(&["--dir", &place.arg("checked"), "--workload", &check]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let refused = |log: &str, more: &[&str], said: &str| {
        let ended = states_of(log, &[&["--dir", &place.arg("none")], more].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stdout.contains(said), "{said}: {ended:?}");
        assert!(!place.path("none").exists(), "a corrected command can use the directory");
    };
    refused(log, &["--log-start", "nothing"], "its marks are `flashfit: made`, ");
    refused(log, &["--fs", "ext4,xfs"], "those of one setup");
    refused(log, &["--fs", "btrfs"], "has no sound btrfs");
    refused(log, &["--workload", "sqlite"], "other work than sqlite");
    refused("/dev/zero", &[], "it is a character device");
    refused(&check, &[], "it is no log of dm-log-writes");
}

/// QEMU's own log of what this kernel's ext4 does, with what was on the device before.
#[test]
fn requests_that_qemu_recorded_are_checked() {
    let tools = programs(&["mkfs.ext4", "e2fsck", "qemu-storage-daemon", "mount"]);
    if skip_without_cards() || skip(tools) {
        return;
    }
    isolated(|| {
        let place = Place::new();
        let [card, base, log] = ["card.img", "base.img", "requests.log"].map(|n| place.path(n));
        std::fs::File::create(&card).unwrap().set_len(64 << 20).unwrap();
        run("mkfs.ext4", &["-q", card.to_str().unwrap()]);
        std::fs::copy(&card, &base).unwrap();
        record(&place, &log);
        let args = ["crash", "states", "--log", log.to_str().unwrap(), "--states", "200"];
        let with = |more: &[&str]| place.flashfit(&[&args[..], more].concat());
        let ended = with(&["--log-base", base.to_str().unwrap(), "--dir", "states", "--json"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let document: Value = serde_json::from_str(&ended.stdout).unwrap();
        let setup = &document["data"]["setups"][0];
        assert!(setup["mounted"].as_u64().unwrap() > 20, "{document}");
        let states = setup["states"].as_u64().unwrap();
        assert!(states > 40, "{document}");
        with(&["--dir", "none"]).said(2, &["no marks at all", "--log-base IMAGE"]);
        let other = with(&["--log-base", log.to_str().unwrap(), "--dir", "other"]);
        other.said(2, &["before the work, the device has no sound ext4"]);
    });
}

/// Works on the card behind QEMU, which records the requests.
fn record(place: &Place, log: &Path) {
    std::fs::write(log, "").unwrap();
    let (shown, root) = (place.path("shown"), place.path("root"));
    std::fs::write(&shown, "").unwrap();
    std::fs::create_dir(&root).unwrap();
    let file =
        |node: &str, path: &Path| format!("file,node-name={node},filename={}", path.display());
    let export = format!("fuse,id=shown,node-name=all,writable=on,mountpoint={}", shown.display());
    let mut daemon: Child = Command::new("qemu-storage-daemon")
        .args(["--blockdev", &file("card", &place.path("card.img"))])
        .args(["--blockdev", &file("log", log)])
        .args(["--blockdev", "blklogwrites,node-name=all,file=card,log=log,log-sector-size=512"])
        .args(["--export", &export])
        .spawn()
        .unwrap();
    wait_until("QEMU shows the card", || shown.metadata().is_ok_and(|it| it.len() == 64 << 20));
    let root = root.to_str().unwrap();
    run("mount", &["-o", "loop", shown.to_str().unwrap(), root]);
    let work =
        "for i in 1 2 3 4; do head -c 9000 /dev/urandom >f$i; sync f$i; done; mv f1 f2; sync";
    run("sh", &["-c", &format!("cd {root} && {work}")]);
    run("umount", &[root]);
    let pid = rustix::process::Pid::from_child(&daemon);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(daemon.wait().unwrap().success());
}

fn run(program: &str, args: &[&str]) {
    assert!(Command::new(program).args(args).status().unwrap().success(), "{program} {args:?}");
}
