//! `apply --keep-data` after a kill: the same request continues, another one is refused, and a new
//! file system ends it.

use std::path::PathBuf;

use flashfit_test_support::{AttemptKind, attempted};
use serde_json::Value;

use super::cut_short::slow_program;
use super::keep_data::{assert_letter, fstab, superblock, uuid, with_a_letter};
use super::{command, flashfit, plan, read};
use crate::fixture::{Ended, Place, skip_without_block_devices, wait_until};
use crate::machine::wait_for_no_traces;

const CALL: [&str; 7] = ["apply", "--keep-data", "image", "--root", "root", "--confirm", "image"];
const NO_JOURNAL: [&str; 4] = ["--with", "ext4:nojournal", "--backup", "saved"];
const RESTORE: [&str; 5] = ["restore", "saved", "image", "--confirm", "image"];

fn call(more: &[&str]) -> Vec<&'static str> {
    let more = more.iter().map(|word| -> &'static str { word.to_string().leak() });
    CALL.into_iter().chain(more).collect()
}

/// Kills the change while `tune2fs` runs; it has made nothing then.
fn kill(place: &Place) {
    let path = slow_program(place, "tune2fs");
    let mut child = command(place, &call(&NO_JOURNAL)).env("FLASHFIT_PATH", path).spawn().unwrap();
    wait_until("tune2fs has begun", || place.path("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_file(place.path("slow/wait")).unwrap();
    attempted(AttemptKind::Kill, 1);
    wait_for_no_traces(place, None);
}

fn journal(place: &Place) -> Value {
    serde_json::from_str(&read(place.path("saved/improvement.json"))).unwrap()
}

/// The record of this machine that leads to the journal.
fn record(place: &Place) -> PathBuf {
    let mut entries = std::fs::read_dir(place.path("state/unfinished-improvements")).unwrap();
    entries.next().unwrap().unwrap().path()
}

fn checked(place: &Place) -> String {
    let ended = flashfit(place, &["check", "image"]);
    ended.stdout
}

#[test]
fn killed_between_any_two_steps_the_same_command_continues() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = &with_a_letter(&place);
    let fstab = fstab(&place, &format!("UUID={} /data ext4 defaults 0 2", uuid(image)));
    let (before, table) = (superblock(image), read(fstab.clone()));
    // As after a kill while the journal was first written.
    std::fs::create_dir(place.path("saved")).unwrap();
    place.file("saved/improvement.json.part", "{");
    kill(&place);
    let record = record(&place);
    let remembered = read(record.clone());
    let again = call(&NO_JOURNAL);
    flashfit(&place, &again).said(0, &["Continuing: an interrupted change"]);
    let all = journal(&place)["steps"].as_array().unwrap().len();
    assert!(all >= 3, "{all}");
    let rewind = |done: usize, then: &str| {
        let mut journal = journal(&place);
        journal["is_finished"] = false.into();
        for (index, step) in journal["steps"].as_array_mut().unwrap().iter_mut().enumerate() {
            step["state"] = match index {
                _ if index < done => "done",
                _ if index == done => then,
                _ => "planned",
            }
            .into();
        }
        std::fs::write(place.path("saved/improvement.json"), journal.to_string()).unwrap();
        std::fs::write(&record, &remembered).unwrap();
    };
    for done in 0..=all {
        for then in ["planned", "begun"] {
            rewind(done, then);
            let said = checked(&place);
            assert_eq!(said.contains("an interrupted change"), done < all, "{done}: {said}");
            let ended = flashfit(&place, &again);
            ended.said(0, &[]);
            assert!(ended.stdout.contains("flashfit restore"), "{done}: {ended:#?}");
            assert!(!checked(&place).contains("interrupted"), "{done}");
            assert_eq!(journal(&place)["is_finished"], true, "{done}");
            assert!(!record.exists(), "{done}");
            assert_eq!(superblock(image), (false, "-1".to_owned(), String::new()));
        }
    }
    // Complete, and something else is asked for.
    rewind(all, "done");
    let dry = flashfit(&place, &[&again[..], &["--dry-run"]].concat());
    assert!(dry.stdout.contains("Nothing is to be changed"), "{dry:#?}");
    assert!(record.exists(), "a dry run ended it");
    let other = call(&["--erase-block", "1MiB", "--backup", "saved-2"]);
    flashfit(&place, &other).said(0, &["No step of it is left", "flashfit restore"]);
    assert_eq!(superblock(image), (false, "-1".to_owned(), "1024".to_owned()));
    assert!(!checked(&place).contains("interrupted"));
    let back = ["restore", "saved-2", "image", "--confirm", "image"];
    flashfit(&place, &back).said(0, &[]);
    // A folder of one request is not that of another.
    rewind(all, "done");
    let other = call(&["--erase-block", "1MiB", "--backup", "saved"]);
    flashfit(&place, &other).said(2, &["saved is not empty"]);
    flashfit(&place, &RESTORE).said(0, &[]);
    assert_eq!((superblock(image), read(fstab)), (before, table));
    assert_letter(image);
    wait_for_no_traces(&place, None);
}

#[test]
fn another_request_does_not_continue_an_interrupted_one() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = &with_a_letter(&place);
    let before = superblock(image);
    let fstab = fstab(&place, &format!("UUID={} /data ext4 defaults 0 2", uuid(image)));
    kill(&place);
    let ways =
        ["continue with: flashfit apply --keep-data", "or restore it with: flashfit restore"];
    for other in [
        &["--with", "ext4:commit-60"][..],
        &["--with", "ext4:commit-60", "--backup", "saved"],
        &["--with", "ext4:nojournal", "--backup", "saved-2"],
        &["--backup", "saved-2"],
        &["--with", "ext4:nojournal", "--erase-block", "1MiB"],
    ] {
        let ended = flashfit(&place, &call(other));
        ended.said(3, &["an interrupted change has its journal in", ways[0], ways[1]]);
    }
    let elsewhere = ["apply", "--keep-data", "image", "--confirm", "image", "--root", "other"];
    flashfit(&place, &elsewhere).said(3, &["this is another request"]);
    assert_eq!(superblock(image), before);
    assert!(!place.path("saved-2").exists());
    // Also where this machine has no record that leads to the journal.
    let (record, state) = (record(&place), place.path("record"));
    std::fs::rename(&record, &state).unwrap();
    let other = call(&["--erase-block", "1MiB", "--backup", "saved"]);
    flashfit(&place, &other).said(2, &["saved is not empty"]);
    std::fs::rename(&state, &record).unwrap();
    // The command that is printed names no settings: what they risk is shown all the same.
    let journal = journal(&place);
    let printed = journal["resume_command"].as_str().unwrap();
    let words = printed.split(' ').skip(1).chain(["--confirm", "image"]).collect::<Vec<_>>();
    let ended: Ended = flashfit(&place, &words);
    ended.said(0, &["Continuing: ", "warning: tune2fs -O ^has_journal", "power cut"]);
    assert_eq!(superblock(image), (false, "-1".to_owned(), String::new()));
    assert!(read(fstab).contains("/data ext4 defaults,noatime 0 2"));
    assert!(!checked(&place).contains("interrupted"));
    wait_for_no_traces(&place, None);
}

#[test]
fn a_new_file_system_ends_an_interrupted_change_of_the_old_one() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = with_a_letter(&place);
    fstab(&place, &format!("UUID={} /data ext4 defaults 0 2", uuid(&image)));
    kill(&place);
    assert!(checked(&place).contains("an interrupted change"));
    plan(&place, "image", &["--fs", "ext4"]);
    let args = ["apply", "plan.json", "image", "--backup", "backup", "--confirm"];
    flashfit(&place, &[&args[..], &["other"]].concat()).said(3, &["is not the name"]);
    assert!(checked(&place).contains("an interrupted change"), "nobody agreed");
    let note = "It cannot be continued after this apply.";
    let applied = flashfit(&place, &[&args[..], &["image"]].concat());
    applied.said(0, &[]);
    let words = applied.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(note), "{words}");
    assert!(!checked(&place).contains("interrupted"), "{}", checked(&place));
    wait_for_no_traces(&place, None);
}
