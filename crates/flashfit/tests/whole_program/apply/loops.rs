//! Loop devices over different parts of one file are different devices.

use std::path::{Path, PathBuf};

use flashfit_host::{Program, Runner, SystemRunner};

use super::cut_short::slow_program;
use super::{command, ends, flashfit, plan};
use crate::fixture::{Ended, Place, skip_without_block_devices, wait_until};
use crate::machine::{PlainLoop, wait_for_no_traces};

/// Two loop devices of one size over one file, with a file system on each.
fn two_parts(place: &Place) -> [PlainLoop; 2] {
    let image = place.image("image", 130);
    [("1MiB", "FILES_A"), ("65MiB", "FILES_B")].map(|(offset, label)| {
        let part = PlainLoop::attach(&image, 512, &["--offset", offset, "--sizelimit", "64MiB"]);
        make_ext4(&part, label);
        part
    })
}

fn make_ext4(part: &PlainLoop, label: &str) {
    let mkfs = Program::new("mkfs.ext4").args(["-q", "-F", "-O", "has_journal", "-L", label]);
    SystemRunner::default().run_checked(&mkfs.arg(&part.node)).unwrap();
}

fn of(part: &PlainLoop) -> (Vec<u8>, Vec<u8>) {
    ends(Path::new(&part.node))
}

/// Folders of backups that nobody named.
fn default_backups(place: &Place) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.folder()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_string_lossy().contains("/flashfit-backup-")).collect()
}

#[test]
fn a_backup_of_another_part_of_the_file_is_restored_only_as_a_copy() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let [first, second] = two_parts(&place);
    let (before_first, before_second) = (of(&first), of(&second));
    plan(&place, &first.node, &["--fs", "ext4", "--table", "none", "--scheduler", "none"]);
    let args = ["apply", "plan.json", &first.node, "--confirm", &first.name, "--backup", "saved"];
    flashfit(&place, &args).said(0, &[]);
    let back = ["restore", "saved", &second.node, "--confirm", &second.name];
    flashfit(&place, &back).said(3, &["not the file or device that the backup", "--to-copy"]);
    assert!(of(&second) == before_second, "it was written to");
    let dry = flashfit(&place, &["restore", "saved", &second.node, "--dry-run"]);
    assert!(dry.stdout.contains("This is not the file"), "{}", dry.stdout);
    flashfit(&place, &["restore", "saved", &first.node, "--confirm", &first.name]).said(0, &[]);
    assert!(of(&first) == before_first);
    // Settings that are changed on one are not taken back on the other.
    make_ext4(&first, "FILES_A");
    std::fs::create_dir(place.path("root")).unwrap();
    let keep = ["apply", "--keep-data", &first.node, "--with", "ext4:nojournal", "--confirm"];
    let keep = [&keep[..], &[&first.name, "--root", "root", "--backup", "kept"]].concat();
    flashfit(&place, &keep).said(0, &[]);
    let back = ["restore", "kept", &second.node, "--confirm", &second.name];
    flashfit(&place, &back).said(3, &["not the file or device that the backup", "--to-copy"]);
    drop((first, second));
    wait_for_no_traces(&place, None);
}

#[test]
fn interrupted_work_on_another_part_of_the_file_is_not_continued() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let [first, second] = two_parts(&place);
    let (before_first, before_second) = (of(&first), of(&second));
    plan(&place, &first.node, &["--fs", "ext4", "--table", "none", "--scheduler", "none"]);
    let path = slow_program(&place, "mkfs.ext4");
    let args = ["apply", "plan.json", &first.node, "--confirm", &first.name];
    let mut child = command(&place, &[&args[..], &["--backup", "saved"]].concat());
    let mut child = child.env("FLASHFIT_PATH", path).spawn().unwrap();
    wait_until("mkfs has begun", || place.path("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_file(place.path("slow/wait")).unwrap();
    let checked = flashfit(&place, &["check", &second.node]);
    assert!(!checked.stdout.contains("unfinished"), "{}", checked.stdout);
    let on_second = ["apply", "plan.json", &second.node, "--confirm", &second.name];
    let in_saved = flashfit(&place, &[&on_second[..], &["--backup", "saved"]].concat());
    in_saved.said(2, &["saved is not empty"]);
    assert!(of(&second) == before_second, "it was written to");
    let applied = flashfit(&place, &on_second);
    let words = applied.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("are saved to flashfit-backup-"), "{words}");
    assert_eq!(applied.code, Some(0), "{applied:#?}");
    assert!(!applied.stderr.contains("continuing"), "{}", applied.stderr);
    let made = default_backups(&place);
    let [backup] = made.as_slice() else { panic!("{made:?}") };
    assert!(std::fs::read(backup.join("first.img")).unwrap() == before_second.0);
    // The first one is still known, and its folder is the one that is announced.
    let checked = flashfit(&place, &["check", &first.node]);
    assert!(checked.stdout.contains("unfinished"), "{}", checked.stdout);
    let continued: Ended = flashfit(&place, &args);
    continued.said(0, &["continuing an interrupted apply", "This continues interrupted"]);
    assert!(!continued.stderr.contains("flashfit-backup-"), "{}", continued.stderr);
    assert_eq!(default_backups(&place).len(), 1);
    flashfit(&place, &["restore", "saved", &first.node, "--confirm", &first.name]).said(0, &[]);
    assert!(of(&first) == before_first);
    drop((first, second));
    wait_for_no_traces(&place, None);
}

#[test]
fn a_partition_of_another_file_is_another_device() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let table = "label: dos\nstart=2048\n";
    let images = ["image", "other"].map(|name| {
        let image = place.image(name, 64);
        let sfdisk = Program::new("sfdisk").arg("-q").arg(&image).stdin(table.to_owned());
        SystemRunner::default().run_checked(&sfdisk).unwrap();
        image
    });
    let [first, second] = images.map(|image| PlainLoop::attach(&image, 512, &[]));
    let [of_first, of_second] = [&first, &second].map(|disk| format!("{}p1", disk.node));
    let _ = (partx(&first), partx(&second));
    plan(&place, &of_first, &["--fs", "ext4", "--scheduler", "none"]);
    let name = |node: &str| node.strip_prefix("/dev/").unwrap().to_owned();
    let args = ["apply", "plan.json", &of_first, "--confirm", &name(&of_first), "--backup"];
    flashfit(&place, &[&args[..], &["saved"]].concat()).said(0, &[]);
    let before = ends(Path::new(&of_second));
    let back = ["restore", "saved", &of_second, "--confirm", &name(&of_second)];
    flashfit(&place, &back).said(3, &["not the file or device that the backup", "--to-copy"]);
    assert!(ends(Path::new(&of_second)) == before, "it was written to");
    let back = ["restore", "saved", &of_first, "--confirm", &name(&of_first)];
    flashfit(&place, &back).said(0, &[]);
    drop((first, second));
    wait_for_no_traces(&place, None);
}

/// Makes the kernel show the partitions, where it did not read the table.
fn partx(disk: &PlainLoop) -> bool {
    let partx = Program::new("partx").args(["--update", &disk.node]);
    SystemRunner::default().run_checked(&partx).is_ok()
}
