//! Interrupted and killed commands: the device is recognized, and the same command continues.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use flashfit_host::program::find;
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{AttemptKind, attempted};
use rustix::process::Signal;
use serde_json::Value;

use super::{apply, command, ends, flashfit, plan, start};
use crate::fixture::{Ended, Place, skip_without_block_devices, wait_until};
use crate::machine::{PlainLoop, signal, wait_for_no_traces};

/// A `mkfs.ext4` that reports its start, waits, and then runs the real one.
fn slow_mkfs(place: &Place) -> String {
    slow_program(place, "mkfs.ext4")
}

/// The same of any program, but not when it is asked for its version.
pub fn slow_program(place: &Place, name: &str) -> String {
    let real = find(name).unwrap();
    let script = format!(
        "#!/bin/sh\ncase $1 in -V | -*version) exec {1} \"$@\" ;; esac\ntouch {0}/begun\n\
         while [ -e {0}/slow/wait ]; do sleep 0.01; done\nexec {1} \"$@\"\n",
        place.folder().display(),
        real.display()
    );
    let path = program_of(place, name, &script);
    place.file("slow/wait", "");
    path
}

/// A search path in which this script takes the place of a program.
pub fn program_of(place: &Place, name: &str, script: &str) -> String {
    std::fs::create_dir(place.path("slow")).unwrap();
    let program = place.file(&format!("slow/{name}"), script);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", place.arg("slow"), std::env::var("PATH").unwrap())
}

#[test]
fn an_interrupt_during_mkfs_can_be_continued() {
    if skip_without_block_devices() {
        return;
    }
    for by in [Signal::INT, Signal::TERM] {
        let place = Place::in_memory();
        let image = place.image("image", 64);
        let before = ends(&image);
        plan(&place, "image", &["--fs", "ext4"]);
        let path = slow_mkfs(&place);
        let args = ["apply", "plan.json", "image", "--confirm", "image", "--backup", "saved"];
        let child = command(&place, &args).env("FLASHFIT_PATH", path).spawn().unwrap();
        wait_until("mkfs has begun", || place.path("begun").exists());
        signal(child.id(), by);
        let ended = Ended::of(child);
        let go_on = format!("flashfit apply {} {}", place.arg("plan.json"), image.display());
        ended.said(6, &["the device is unfinished, while making the file system", &go_on]);
        wait_for_no_traces(&place, None);
        let checked = flashfit(&place, &["check", "image"]);
        assert_eq!(checked.code, Some(1), "{checked:#?}");
        assert!(checked.stdout.contains("unfinished"), "{}", checked.stdout);
        // Another backup directory would save the unfinished state.
        let elsewhere = ["apply", "plan.json", "image", "--confirm", "image", "--backup", "other"];
        flashfit(&place, &elsewhere).said(3, &["an interrupted apply has its backup in", &go_on]);
        let words = ["apply", "plan.json", "image", "--confirm", "image"];
        flashfit(&place, &words).said(0, &["continuing an interrupted apply"]);
        assert!(!flashfit(&place, &["check", "image"]).stdout.contains("unfinished"));
        let back = ["restore", "saved", "image", "--confirm", "image"];
        flashfit(&place, &back).said(0, &[]);
        assert!(ends(&image) == before, "the backup is not of what there was first");
    }
}

/// Attaches 64 MiB of one byte as the loop device of this number and unlinks the file. Like a card
/// in a reader, it has no identity.
fn put_in(place: &Place, node: &str, byte: u8) {
    let file = place.path("card");
    std::fs::write(&file, vec![byte; 64 << 20]).unwrap();
    let losetup = Program::new("losetup").args([node, &file.display().to_string()]);
    // The kernel shows that a card has gone a moment before the device is free.
    let attach = || SystemRunner::default().run_checked(&losetup).is_ok();
    wait_until("the reader takes the card", attach);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn another_card_in_the_same_reader_is_refused() {
    if skip_without_block_devices() {
        return;
    }
    // A number that losetup does not choose by itself.
    let (name, node) = ("loop200", "/dev/loop200");
    if !Path::new(node).exists() {
        let mknod = Program::new("mknod").args([node, "b", "7", "200"]);
        SystemRunner::default().run_checked(&mknod).unwrap();
    }
    let place = Place::in_memory();
    put_in(&place, node, b'A');
    let reader = PlainLoop { node: node.to_owned(), name: name.to_owned() };
    plan(&place, node, &["--fs", "ext4", "--scheduler", "none", "--table", "none"]);
    let path = slow_mkfs(&place);
    let args = ["apply", "plan.json", node, "--confirm", name, "--backup"];
    let in_saved = [&args[..], &["saved"]].concat();
    let mut child = command(&place, &in_saved).env("FLASHFIT_PATH", path).spawn().unwrap();
    wait_until("mkfs has begun", || place.path("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    drop(reader);
    wait_until("it is detached", || !Path::new("/sys/block/loop200/loop").exists());
    put_in(&place, node, b'B');
    let _reader = PlainLoop { node: node.to_owned(), name: name.to_owned() };
    flashfit(&place, &in_saved).said(3, &["it may be another device", "flashfit restore"]);
    assert_eq!(&std::fs::read(node).unwrap()[..4], b"BBBB", "it was written to");
    flashfit(&place, &[&args[..], &["other"]].concat()).said(0, &[]);
    assert_eq!(&std::fs::read(place.path("saved/first.img")).unwrap()[..4], b"AAAA");
    assert_eq!(&std::fs::read(place.path("other/first.img")).unwrap()[..4], b"BBBB");
}

#[test]
fn a_kill_at_any_moment_can_be_continued() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    let before = ends(&image);
    plan(&place, "image", &["--fs", "ext4"]);
    let args = ["apply", "plan.json", "image", "--confirm", "image", "--backup", "saved"];
    let began = Instant::now();
    apply(&place, &[]).said(0, &[]);
    let whole = began.elapsed();
    let back = ["restore", "saved", "image", "--confirm", "image"];
    for quarter in 1..4 {
        flashfit(&place, &back).said(0, &[]);
        assert!(ends(&image) == before);
        std::fs::remove_dir_all(place.path("saved")).unwrap();
        let mut child = start(&place, &args);
        std::thread::sleep(whole * quarter / 4 + Duration::from_millis(2));
        // It may have ended already.
        let _ = child.kill();
        attempted(AttemptKind::Kill, 1);
        child.wait().unwrap();
        wait_for_no_traces(&place, None);
        let journal = std::fs::read(place.path("saved/apply.json")).unwrap_or_default();
        let journal: Value = serde_json::from_slice(&journal).unwrap_or_default();
        let stages = journal["stages"].as_array().cloned().unwrap_or_default();
        let last = stages.last().map_or(Value::Null, |begun| begun["stage"].clone());
        let checked = flashfit(&place, &["check", "image"]);
        let named = checked.stdout.contains("unfinished");
        if last.is_null() || last == "saving" {
            assert!(ends(&image) == before, "it was written to before it was saved");
            assert!(!named, "{checked:#?}");
        } else {
            assert_eq!(named, last != "done", "{last}: {checked:#?}");
        }
        if last == "done" {
            continue;
        }
        apply(&place, &[]).said(0, &[]);
    }
}
