//! `flashfit crash`: its verdict, its documents, and what it refuses.

mod campaign;

use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::Value;

use crate::crash_requests;
use crate::fixture::{FLASHFIT, Place, skip_without_cards, wait_until};
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{AttemptKind, attempted, programs, skip};

fn cannot_mount() -> bool {
    skip_without_cards() || skip(programs(&["mkfs.ext4", "e2fsck"]))
}

/// A thread that waited for a device that the process itself served would stop every `sync` of the
/// computer.
#[test]
fn a_killed_campaign_ends() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let dir = place.arg("crash");
    let args = ["crash", "states", "--fs", "ext4", "--states", "1000000", "--dir", &dir];
    for round in 0..4 {
        let mut run = place.command(&args).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(900 + 137 * round));
        assert!(run.try_wait().unwrap().is_none(), "it ended by itself");
        run.kill().unwrap();
        wait_until("it has ended", || run.try_wait().unwrap().is_some());
    }
}

/// No link in the directory of a campaign is followed, and nothing is put beside other files.
#[test]
fn a_campaign_writes_to_no_directory_of_somebody_else() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let theirs = place.file("theirs", "without a line's end");
    std::fs::create_dir(place.path("victim")).unwrap();
    let run = |dir: &str| {
        attempted(AttemptKind::ForeignRunDir, 1);
        place.flashfit(&["crash", "states", "--fs", "ext4", "--states", "2", "--dir", dir])
    };
    for (name, to) in [("campaign.json", "theirs"), ("records.jsonl", "theirs"), ("logs", "victim")]
    {
        run("dir").said(0, &[]);
        let own = place.path("dir").join(name);
        match own.is_dir() {
            true => std::fs::remove_dir_all(&own).unwrap(),
            false => std::fs::remove_file(&own).unwrap(),
        }
        symlink(place.path(to), &own).unwrap();
        let ended = run("dir");
        assert!(matches!(ended.code, Some(2 | 3)), "{name}: {ended:#?}");
        assert!(ended.stderr.contains("links are not followed"), "{name}: {}", ended.stderr);
        std::fs::remove_dir_all(place.path("dir")).unwrap();
    }
    run("dir").said(0, &[]);
    symlink(&theirs, place.path("dir/logs/ext4-9.crashlog")).unwrap();
    run("dir").said(2, &["ext4-9.crashlog: it is a symbolic link"]);
    symlink(place.path("victim"), place.path("link")).unwrap();
    run("link").said(2, &["link: not a directory"]);
    place.file("victim/thesis", "text");
    run("victim").said(2, &["it is not empty, and has no campaign"]);
    assert_eq!(std::fs::read_dir(place.path("victim")).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(theirs).unwrap(), "without a line's end");
    // Files that only have the names of a campaign's.
    std::fs::create_dir_all(place.path("mine/logs")).unwrap();
    let records = place.file("mine/records.jsonl", "{\"mine\":1}");
    let log = place.file("mine/logs/app.log", "x");
    run("mine").said(2, &["it is not empty, and has no campaign"]);
    std::fs::remove_file(&log).unwrap();
    std::fs::remove_dir(place.path("mine/logs")).unwrap();
    run("mine").said(2, &["it is not empty, and has no campaign"]);
    assert_eq!(std::fs::read_to_string(&records).unwrap(), "{\"mine\":1}");
}

#[test]
fn a_campaign_that_was_killed_while_it_began_begins_again() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.path("dir")).unwrap();
    place.file("dir/campaign.json.part", "{\"se");
    let args = ["crash", "states", "--fs", "ext4", "--states", "2", "--dir", "dir"];
    place.flashfit(&args).said(0, &[]);
    assert!(place.path("dir/campaign.json").exists());
    assert!(!place.path("dir/campaign.json.part").exists());
}

#[test]
fn an_unknown_setup_or_workload_is_named() {
    let place = Place::new();
    for (args, message) in [
        (&["--fs", "ext5"][..], "ext5"),
        (&["--with", "ext4:nobarier"], "nobarrier"),
        (&["--workload", "filez"], "filez"),
        (&["--states", "0"], "0"),
        (&["sim:nonesuch"], "nonesuch"),
    ] {
        let ended = place.flashfit(&[&["crash", "states"], args].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(message), "{ended:?}");
    }
}

#[test]
fn an_honest_setup_is_told_from_one_without_barriers_and_a_state_is_replayed() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let args = ["crash", "states", "--fs", "ext4", "--with", "ext4:nobarrier", "--states", "60"];
    let dir = place.arg("crash");
    let ended = place.flashfit(&[&args[..], &["--dir", &dir, "--json"]].concat());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "flashfit.crash-states");
    let setups = document["data"]["setups"].as_array().unwrap();
    let number = |setup: usize, key: &str| setups[setup][key].as_u64().unwrap();
    assert_eq!((number(0, "broken_promises"), number(0, "mismatched")), (0, 0), "{document}");
    assert!(number(1, "broken_promises") > 0, "{document}");
    assert_eq!(number(0, "mounted") + number(0, "equivalent"), number(0, "states"));
    assert!(setups[0]["upper_bound"].as_f64().unwrap() < 0.06, "{document}");
    // Each of the logs is one run of the work: 1 - 0.05^(1/n).
    let runs = 1.0 - 0.05_f64.powf(1.0 / number(0, "logs") as f64);
    let found = setups[0]["runs_upper_bound"].as_f64().unwrap();
    assert!((found - runs).abs() < 1e-6 && number(0, "broken_logs") == 0, "{document}");
    let example = &setups[1]["examples"][0];
    let id = example["id"].as_str().unwrap();
    let replayed = place.flashfit(&["crash", "replay", &dir, id, "--json"]);
    let replayed = replayed.document("flashfit.crash-replay");
    assert_eq!(replayed["violations"], example["violations"]);
    assert_eq!(replayed["as_recorded"], Value::Bool(true));
    let shrunk = place.flashfit(&["crash", "shrink", &dir, id, "--json"]);
    let shrunk = shrunk.document("flashfit.crash-shrink");
    assert!(!shrunk["violations"].as_array().unwrap().is_empty(), "{shrunk}");
    // Another plan does not continue in the same directory.
    let other =
        place.flashfit(&["crash", "states", "--seed", "2", "--states", "60", "--dir", &dir]);
    other.said(3, &["another campaign", "hint: repeat the command that began it"]);
    let unknown = place.flashfit(&["crash", "replay", &dir, "ext4/99/1"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
}

#[test]
fn a_program_that_acknowledges_nothing_is_refused() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let workload = place.arg("workload.toml");
    std::fs::write(&workload, "run = 'echo x > file'\ncheck = 'true'\n").unwrap();
    let dir = place.arg("crash");
    let args = ["crash", "states", "--workload", &workload, "--states", "5", "--dir", &dir];
    let ended = place.flashfit(&args);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("acknowledged nothing"), "{ended:?}");
}

#[test]
fn the_users_own_program_is_judged_by_its_check() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    for (sync, code) in [("sync file$i; sync .;", 0), ("", 1)] {
        let workload = place.arg("workload.toml");
        let text = format!(
            "run = 'for i in 1 2 3 4; do echo $i > file$i; {sync} echo $i; done; sync'\n\
             check = 'while read i; do [ \"$(cat file$i)\" = $i ] || exit 1; done'\n"
        );
        std::fs::write(&workload, text).unwrap();
        let dir = place.arg(&format!("crash-{code}"));
        let args = ["crash", "states", "--workload", &workload, "--states", "40", "--dir", &dir];
        let ended = place.flashfit(&args);
        assert_eq!(ended.code, Some(code), "{ended:?}");
    }
    // What only a directory names is not run again.
    let dir = place.arg("crash-1");
    let again = ["crash", "replay", dir.as_str(), "ext4/9/9"];
    place.flashfit(&again).said(3, &["names commands", "--workload FILE"]);
    let workload = place.arg("workload.toml");
    let named = [&again[..], &["--workload", &workload]].concat();
    place.flashfit(&named).said(2, &["ext4/9/9"]);
    std::fs::write(place.path("other.toml"), "run = 'touch x'\ncheck = 'true'\n").unwrap();
    let other = [&again[..], &["--workload", "other.toml"]].concat();
    place.flashfit(&other).said(3, &["not those that the directory recorded"]);
    // All of its work would run in every attempt, so that anything seemed to be the shortest.
    let shrink = ["crash", "shrink", dir.as_str(), "ext4/9/9", "--workload", &workload];
    let hint = format!("flashfit crash replay {dir} ext4/9/9 --workload FILE");
    place.flashfit(&shrink).said(2, &["which runs as a whole", &hint]);
}

/// The log is not begun where it has no room: what was checked could not be repeated.
#[test]
fn a_full_disk_is_noticed_before_recording() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let script = "mkdir disk && mount -t tmpfs -o size=4m tmpfs disk || exit 99\n\
                  \"$FLASHFIT\" crash states --states 20 --dir disk/crash";
    let program = Program::new("unshare")
        .args(["--mount", "sh", "-c", &format!("cd {} && {script}", place.folder().display())])
        .env("FLASHFIT", FLASHFIT);
    let ended = SystemRunner::default().run(&program).unwrap();
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stderr.contains("16 MiB are needed"), "{ended:?}");
    assert!(ended.stderr.contains("free space in disk/crash"), "{ended:?}");
}

#[test]
#[ignore = "full: a search and hundreds of states"]
fn the_recommendation_of_a_search_is_checked() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let card = place.card();
    let args = place.tune_args(&card, &["--trials", "4", "--crash-states", "100", "--json"]);
    let ended = place.flashfit(&args);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let tested = &document["data"]["crash_test"];
    assert!(tested["states"].as_u64().unwrap() >= 100, "{document}");
    let report = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(report.contains("at simulated power cuts"), "the report has the result");
    // A run that has ended is checked again without trials, and keeps the number of states. What
    // was checked is not checked again.
    let result = place.path("run/crash.json");
    let before = std::fs::metadata(&result).unwrap().modified().unwrap();
    place.flashfit(&["tune", "--resume", "run"]).said(0, &[]);
    assert_eq!(std::fs::metadata(&result).unwrap().modified().unwrap(), before);
    std::fs::remove_file(&result).unwrap();
    let again = place.flashfit(&["tune", "--resume", "run"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stdout.contains("at simulated power cuts"), "{again:?}");
}

/// What a faulty card does is part of the state: it happens again, and is counted.
#[test]
fn a_card_that_undoes_writes_is_noticed_and_a_state_of_it_replayed() {
    if cannot_mount() {
        return;
    }
    let place = Place::new();
    let dir = place.arg("crash");
    let args = ["crash", "states", "--card-fault", "rollback=50", "--states", "20", "--json"];
    let ended = place.flashfit(&[&args[..], &["--dir", &dir]].concat());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let setup = &document["data"]["setups"][0];
    let rollback = &setup["device_faults"]["rollback"];
    assert!(rollback["happened"].as_u64().unwrap() >= 15, "{document}");
    assert!(rollback["noticed"].as_u64().unwrap() >= 5, "{document}");
    let example = &setup["examples"][0];
    let id = example["id"].as_str().unwrap();
    let replay = ["crash", "replay", &dir, id, "--json", "--keep-image", "--dm-log"];
    let replayed = place.flashfit(&replay);
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    let replayed: Value = serde_json::from_str(&replayed.stdout).unwrap();
    assert_eq!(replayed["data"]["as_recorded"], Value::Bool(true), "{replayed}");
    let image = replayed["data"]["image"].as_str().unwrap();
    assert!(std::fs::metadata(image).unwrap().len() >= 64 << 20);
    let requests = std::fs::read(replayed["data"]["dm_log"].as_str().unwrap()).unwrap();
    assert_eq!(requests[..8], 0x006a_7366_7773_6872_u64.to_le_bytes(), "WRITE_LOG_MAGIC");
    crash_requests::check_export(&place, replayed["data"]["dm_log"].as_str().unwrap());
    let shrunk = place.flashfit(&["crash", "shrink", &dir, id]);
    assert_eq!(shrunk.code, Some(2), "{shrunk:?}");
    let both = ["crash", "states", "--card-fault", "brick", "--ignore-flush", "all"];
    assert_eq!(place.flashfit(&both).code, Some(2));
}
