//! What a campaign of `crash states` does with work that fails or does not end, with a check that
//! is wrong, with no result, and when it continues.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::cannot_mount;
use crate::fixture::{Place, wait_until};

fn campaign<'a>(workload: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = ["crash", "states", "--workload", workload, "--states", "40", "--workers", "1"];
    [&args[..], &["--dir", "dir"], more].concat()
}

#[test]
fn work_that_fails_is_an_error_with_its_output() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let text =
        "run = 'echo 1 >a; sync a; echo a; echo no such thing >&2; exit 3'\ncheck = 'true'\n";
    let workload = place.file("fails.toml", text).display().to_string();
    let ended = place.flashfit(&campaign(&workload, &[]));
    ended.said(2, &["its command ended with code 3 / no such thing", "hint: "]);
    // A corrected command can use the directory.
    assert!(!place.path("dir").exists());
}

#[test]
fn work_that_never_ends_is_stopped_with_its_children() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let text = "run = 'echo 1 >a; sync a; echo a; echo $$ >$PIDS; sleep 1000 & wait'\n\
         check = 'true'\n";
    let workload = place.file("endless.toml", text).display().to_string();
    let pids = place.path("pids");
    let start = Instant::now();
    let mut command = place.command(&campaign(&workload, &["--for", "10s"]));
    let ended = command.env("PIDS", &pids).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot tell: no state of ext4 was checked"), "{said}");
    assert!(said.contains("hint: "), "{said}");
    assert!(start.elapsed() < Duration::from_secs(120));
    let is_gone = || {
        // On a busy machine, the time may be over before the program has begun.
        let Ok(pid) = std::fs::read_to_string(&pids) else { return true };
        pid.trim().is_empty() || !std::path::Path::new("/proc").join(pid.trim()).exists()
    };
    assert!(is_gone());
    let _ = std::fs::remove_file(&pids);
    let mut run = place.command(&campaign(&workload, &[])).env("PIDS", &pids).spawn().unwrap();
    wait_until("it works", || std::fs::read_to_string(&pids).is_ok_and(|pid| !pid.is_empty()));
    let id = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    wait_until("it has ended", || run.try_wait().unwrap().is_some());
    assert_eq!(run.wait().unwrap().code(), Some(6));
    assert!(is_gone());
}

/// They would keep the file system mounted.
#[test]
fn what_left_the_process_group_of_a_program_or_its_check_is_ended() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let text = "run = 'echo 1 >a; sync a; sync .; echo a; setsid sleep 1000 & echo $! >>$PIDS'\n\
         check = 'setsid sleep 1000 & echo $! >>$PIDS; read name || exit 0; [ -e $name ]'\n";
    let workload = place.file("leaves.toml", text).display().to_string();
    let pids = place.path("pids");
    let mut command = place.command(&campaign(&workload, &[]));
    let ended = command.env("PIDS", &pids).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{said}");
    let pids = std::fs::read_to_string(&pids).unwrap();
    assert!(pids.lines().count() > 5, "{pids}");
    for pid in pids.lines() {
        assert!(!std::path::Path::new("/proc").join(pid).exists(), "{pid}");
    }
}

#[test]
fn an_interrupted_campaign_shows_what_is_known_and_how_to_continue() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let records = place.path("my dir/records.jsonl");
    let count = || std::fs::read_to_string(&records).map_or(0, |text| text.lines().count());
    let args = ["crash", "states", "--states", "99999", "--workers", "1", "--dir", "my dir"];
    let ended = |more: &[&str]| {
        let before = count();
        let mut command = place.command(&[&args[..], more].concat());
        let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("there is a record", || count() > before || run.try_wait().unwrap().is_some());
        let id = rustix::process::Pid::from_child(&run);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        let ended = run.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(6), "{said}");
        assert!(said.contains("error: interrupted; so far, 0 of "), "{said}");
        // A fair sample of the states: 20 at a time are in the order of their positions.
        for line in std::fs::read_to_string(&records).unwrap().lines() {
            let batch: Value = serde_json::from_str(line).unwrap();
            let is_fair = batch["ends_round"] == true || batch["to"].as_u64().unwrap() % 20 == 0;
            assert!(is_fair, "{line}");
        }
        (String::from_utf8(ended.stdout).unwrap(), said)
    };
    let (shown, said) = ended(&[]);
    assert!(shown.starts_with("Interrupted: these are the results so far.\n"), "{shown}");
    assert!(shown.contains("ext4: 0 of "), "{shown}");
    let typed = "flashfit crash states --states 99999 --workers 1 --dir 'my dir'";
    assert!(said.contains(&format!("hint: continue with: {typed}\n")), "{said}");
    // It continues, and a script gets no results that look like those of a whole campaign.
    let (document, _) = ended(&["--json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    let error = &document["error"];
    assert!(error["message"].as_str().unwrap().starts_with("interrupted; so far, "), "{document}");
    assert!(document["data"].is_null(), "{document}");
}

#[test]
fn the_time_of_earlier_commands_counts() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let args = ["crash", "states", "--for", "10s", "--workers", "1", "--dir", "dir", "--json"];
    let first = place.flashfit(&args);
    assert_eq!(first.code, Some(0), "{first:?}");
    // As if its last record had come at the end.
    let records = place.path("dir/records.jsonl");
    let text = std::fs::read_to_string(&records).unwrap();
    let mut batches: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let spent: u64 = batches.iter().map(|batch| batch["elapsed_ns"].as_u64().unwrap()).sum();
    assert!((100_000_000..60_000_000_000).contains(&spent), "{spent}");
    batches[0]["elapsed_ns"] = Value::from(10_000_000_000_u64);
    let lines = batches.iter().map(|batch| format!("{batch}\n"));
    std::fs::write(&records, lines.collect::<String>()).unwrap();
    let again = place.flashfit(&args);
    assert_eq!((again.code, again.stdout == first.stdout), (Some(0), true), "{again:?}");
    let other = place.flashfit(&[&args[..], &["--seed", "2"]].concat());
    other.said(3, &["dir has another campaign: seed 1, not 2"]);
}

/// Its counts would be of two different setups.
#[test]
fn a_campaign_is_not_continued_with_another_catalog() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let args = ["crash", "states", "--fs", "ext4:noatime", "--states", "2", "--dir", "dir"];
    place.flashfit(&[&args[..], &["--keep-logs"]].concat()).said(0, &[]);
    let catalog = place.path("catalog/filesystems");
    std::fs::create_dir_all(&catalog).unwrap();
    let ext4 = include_str!("../../../../../catalog/filesystems/ext4.toml");
    let changed = ext4.replace("\"noatime\"]", "\"nobarrier\"]");
    assert_ne!(changed, ext4);
    std::fs::write(catalog.join("ext4.toml"), changed).unwrap();
    let other = ["the catalog defines ext4:noatime otherwise", "noatime", "nobarrier", "hint: use"];
    place.flashfit(&[&args[..], &["--catalog", "catalog"]].concat()).said(3, &other);
    let replay = ["crash", "replay", "dir", "ext4:noatime/0/0"];
    place.flashfit(&replay).said(0, &[]);
    place.flashfit(&[&replay[..], &["--catalog", "catalog"]].concat()).said(3, &other);
    let ignored = place.flashfit(&[&args[..], &["--ignore-flush", "all"]].concat());
    ignored.said(3, &["dir has another campaign: ignored flushes none, not all"]);
}

/// It has a card and a kernel, as one of power cuts has.
#[test]
fn a_campaign_of_states_is_not_continued_by_power_cuts() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let args = ["crash", "states", "--card-fault", "torn-sector", "--states", "2", "--dir", "dir"];
    let ended = place.flashfit(&args);
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    let path = place.path("dir/campaign.json");
    let mut plan: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    plan["kernel"] = Value::from("6.1");
    std::fs::write(&path, plan.to_string()).unwrap();
    let resumed = place.flashfit(&["crash", "cuts", "--resume", "dir"]);
    resumed.said(3, &["another campaign: it is not one of power cuts of a virtual machine"]);
    place.flashfit(&["crash", "cuts", "--resume", "none"]).said(4, &["hint: name the directory"]);
    std::fs::create_dir(place.path("mine")).unwrap();
    place.file("mine/thesis", "text");
    let foreign = place.flashfit(&["crash", "states", "--dir", "mine"]);
    foreign.said(2, &["has no campaign", "hint: name another directory with --dir"]);
}

/// It would be counted as a broken promise in every state.
#[test]
fn a_check_that_fails_without_a_power_cut_is_a_broken_check() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let text = "run = 'echo 1 >a; sync a; sync .; echo a'\ncheck = 'echo never >&2; exit 1'\n";
    let workload = place.file("wrong.toml", text).display().to_string();
    let ended = place.flashfit(&campaign(&workload, &[]));
    ended.said(2, &["the check of the workload fails on ext4 without a power cut", "never"]);
    assert!(!place.path("dir").exists());
}

#[test]
fn the_log_of_a_violation_is_kept_by_a_campaign_that_continues() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let args = ["crash", "states", "--fs", "ext4", "--states", "15", "--seed", "7"];
    let args = [&args[..], &["--workers", "1", "--dir", "dir", "--json"]].concat();
    let ended = place.flashfit(&[&args[..], &["--keep-logs"]].concat());
    let document = ended.document("flashfit.crash-states");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(document["kernel"], document["plan"]["start"]["host_kernel"]);
    assert!(document["kernel"].is_string(), "{document}");
    // As if it had been ended before the last state, after one with a violation.
    let records = place.path("dir/records.jsonl");
    let text = std::fs::read_to_string(&records).unwrap();
    let mut batch: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let to = batch["to"].as_u64().unwrap();
    (batch["to"], batch["ends_round"]) = (Value::from(to - 1), Value::from(false));
    batch["counts"]["states"] = Value::from(to - 1);
    let violation = serde_json::json!({ "oracle": "synced-name", "detail": "f is missing" });
    let state = serde_json::json!({ "position": 1 });
    batch["broken"] = serde_json::json!([
        { "id": "ext4/0/1", "state": state, "violations": [violation] }
    ]);
    std::fs::write(&records, format!("{batch}\n")).unwrap();
    let ended = place.flashfit(&args);
    assert_eq!(ended.code, Some(0), "its counts have no broken promise: {ended:?}");
    for _ in 0..2 {
        let replay = ["crash", "replay", "dir", "ext4/0/1", "--keep-image", "--dm-log"];
        let replayed = place.flashfit(&replay);
        assert_eq!(replayed.code, Some(0), "{replayed:?}");
    }
    let left: Vec<String> = std::fs::read_dir(place.path("dir"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(left.iter().any(|name| name == "ext4-0-1.img"), "{left:?}");
    assert!(!left.iter().any(|name| name.contains("part")), "{left:?}");
}

/// Of two setups, the records of one are left, and there is no time for the other.
#[test]
fn a_setup_without_a_checked_state_does_not_hide_what_was_found_of_another() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let args = ["crash", "states", "--fs", "ext4", "--with", "ext4:noatime", "--states", "15"];
    let args = [&args[..], &["--seed", "7", "--workers", "1", "--dir", "dir"]].concat();
    assert_eq!(place.flashfit(&args).code, Some(0));
    let records = place.path("dir/records.jsonl");
    let text = std::fs::read_to_string(&records).unwrap();
    let all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let without_time = [&args[..], &["--for", "1us"]].concat();
    for (broken, code) in [(0, 2), (1, 1)] {
        let of_one = all.iter().filter(|batch| batch["setup"] == "ext4").map(|batch| {
            let mut batch = batch.clone();
            batch["counts"]["broken"] = Value::from(broken);
            format!("{batch}\n")
        });
        std::fs::write(&records, of_one.collect::<String>()).unwrap();
        let ended = place.flashfit(&without_time);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.stdout.contains("ext4:noatime: no state was checked"), "{ended:?}");
        let said = match broken {
            0 => "cannot tell: no state of ext4:noatime was checked",
            _ => "power cuts broke promises of ext4",
        };
        assert!(ended.stderr.contains(said), "{ended:?}");
        let document = place.flashfit(&[&without_time[..], &["--json"]].concat());
        assert!(document.stdout.contains("flashfit.crash-states"), "{document:?}");
    }
    // States of a version that chose others are not mixed with those of this one.
    let plan = place.path("dir/campaign.json");
    let text = std::fs::read_to_string(&plan).unwrap();
    let mut other: Value = serde_json::from_str(&text).unwrap();
    other["start"]["enumeration"] = Value::from(1);
    std::fs::write(&plan, other.to_string()).unwrap();
    place.flashfit(&args).said(3, &["another version of flashfit", "hint: name another directory"]);
}
