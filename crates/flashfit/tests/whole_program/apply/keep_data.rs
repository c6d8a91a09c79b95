//! `apply --keep-data`: files stay, settings change, interruptions continue, and all of it can be
//! taken back.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flashfit_host::mount::Mounted;
use flashfit_host::program::find;
use flashfit_host::{Program, Runner, SystemRunner, mountinfo};
use flashfit_test_support::{AttemptKind, attempted};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

use super::{command, flashfit, read};
use crate::fixture::{Ended, Place, skip_without_block_devices, wait_until};
use crate::machine::{PlainLoop, signal, wait_for_no_traces};

const LETTER: &str = "a letter that must stay\n";

fn run(name: &str, args: &[&str]) -> String {
    SystemRunner::default().run_checked(&Program::new(name).args(args.to_vec())).unwrap().stdout
}

/// ext4 with a file in it, checked in full every 20 mounts.
pub fn with_a_letter(place: &Place) -> String {
    let image = place.path("image");
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let image = image.display().to_string();
    let letter = place.file("letter", LETTER).display().to_string();
    run("mkfs.ext4", &["-q", "-F", "-O", "has_journal", &image]);
    run("tune2fs", &["-c", "20", "-i", "30d", &image]);
    run("debugfs", &["-w", "-R", &format!("write {letter} letter"), &image]);
    image
}

#[track_caller]
pub fn assert_letter(image: &str) {
    assert_eq!(run("debugfs", &["-R", "cat letter", image]), LETTER);
    run("e2fsck", &["-f", "-n", image]);
}

/// Journal, periodic check and stride, as dumpe2fs shows them.
pub fn superblock(image: &str) -> (bool, String, String) {
    let text = run("dumpe2fs", &["-h", image]);
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    (text.contains("has_journal"), value("Maximum mount count:"), value("RAID stride:"))
}

pub fn fstab(place: &Place, line: &str) -> std::path::PathBuf {
    std::fs::create_dir_all(place.path("root/etc")).unwrap();
    place.file("root/etc/fstab", &format!("# theirs\nproc /proc proc defaults 0 0\n{line}\n"))
}

pub fn uuid(image: &str) -> String {
    run("blkid", &["-p", "-s", "UUID", "-o", "value", image]).trim().to_owned()
}

#[test]
fn an_unmounted_file_system_is_changed_keeps_its_files_and_is_restored() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = &with_a_letter(&place);
    let fstab = fstab(&place, &format!("UUID={} /data ext4 defaults 0 2", uuid(image)));
    let (before, table) = (superblock(image), read(fstab.clone()));
    let call = ["apply", "--keep-data", "image", "--root", "root", "--with", "ext4:nojournal"];
    let call = [&call[..], &["--erase-block", "1MiB"]].concat();
    let shown = flashfit(&place, &[&call[..], &["--dry-run", "--json"]].concat());
    let would = shown.document("flashfit.would-improve");
    assert_eq!(would["is_in_use"], false);
    assert_eq!(would["steps"].as_array().unwrap().len(), 5, "{would:#}");
    assert_eq!((superblock(image), read(fstab.clone())), (before.clone(), table.clone()));
    flashfit(&place, &call).said(3, &["settings of", "--confirm image"]);
    assert_eq!(superblock(image), before, "nobody agreed");
    let agreed = [&call[..], &["--confirm", "image", "--backup", "saved"]].concat();
    let done = flashfit(&place, &agreed);
    done.said(0, &["warning: tune2fs -O ^has_journal"]);
    assert!(done.stdout.contains("flashfit restore"), "{}", done.stdout);
    assert_eq!(superblock(image), (false, "-1".to_owned(), "1024".to_owned()));
    assert!(read(fstab.clone()).contains("/data ext4 defaults,noatime 0 2\n"));
    assert!(read(fstab.clone()).starts_with("# theirs\nproc /proc proc defaults 0 0\n"));
    assert_letter(image);
    // There is nothing left to do.
    let again = flashfit(&place, &call);
    assert!(again.stdout.contains("Nothing is to be changed"), "{again:?}");
    let document = |more: &[&str], schema: &str| {
        flashfit(&place, &[&call[..], more].concat()).document(schema)
    };
    let nothing = document(&["--confirm", "image", "--json"], "flashfit.improved");
    assert_eq!(nothing["steps"], serde_json::json!([]));
    assert!(nothing["undo"].is_null() && nothing["backup"].is_null(), "{nothing:#}");
    document(&["--dry-run", "--json"], "flashfit.would-improve");
    let back = ["restore", "saved", "image", "--confirm", "image", "--json"];
    let back = flashfit(&place, &back).document("flashfit.restored-improvement");
    assert_eq!(back["done"], true);
    assert_eq!((superblock(image), read(fstab)), (before, table));
    assert_letter(image);
    wait_for_no_traces(&place, None);
}

#[test]
fn a_file_system_in_use_gets_what_the_kernel_changes_in_use() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = with_a_letter(&place);
    let PlainLoop { node, name } = &PlainLoop::attach(Path::new(&image), 512, &[]);
    let fstab = fstab(&place, "/dev/mmcblk9p2 /data ext4 defaults,relatime 0 2");
    let point = place.path("root/data");
    std::fs::create_dir(&point).unwrap();
    let runner = SystemRunner::default();
    let options = ["nosuid".to_owned(), "commit=7".to_owned()];
    let mounted = Mounted::new(&runner, Path::new(node), "ext4", &point, &options).unwrap();
    let shown = || {
        let entry = mountinfo::at(mounted.point()).unwrap().unwrap();
        format!("{},{}", entry.options, entry.super_options)
    };
    let queue = Path::new("/sys/block").join(name).join("queue/read_ahead_kb");
    let (before, ahead, table) = (shown(), read(queue.clone()), read(fstab.clone()));
    let call = ["apply", "--keep-data", node, "--root", "root", "--read-ahead", "516KiB"];
    let call = [&call[..], &["--confirm", name, "--backup", "saved", "--json"]].concat();
    // Another process measures on the disk, maybe on another partition.
    let measuring = std::fs::File::open(node).unwrap();
    flock(&measuring, FlockOperation::NonBlockingLockExclusive).unwrap();
    attempted(AttemptKind::TargetInUse, 2);
    let is_locked = format!("another process has locked {node}");
    flashfit(&place, &call).said(3, &[&is_locked]);
    assert_eq!((shown(), read(queue.clone())), (before.clone(), ahead.clone()));
    flock(&measuring, FlockOperation::Unlock).unwrap();
    let done = flashfit(&place, &call).document("flashfit.improved");
    assert!(shown().contains("noatime") && shown().contains("nosuid"), "{}", shown());
    assert!(shown().contains("commit=7"), "{}", shown());
    assert_eq!(read(queue.clone()).trim(), "516");
    assert!(read(fstab.clone()).contains("/data ext4 defaults,noatime 0 2\n"));
    // Its superblock is not written to while it is mounted.
    assert!(done["skipped"][0]["reason"].as_str().unwrap().contains("unmount it"), "{done:#}");
    assert_eq!(superblock(&image).1, "20");
    assert_eq!(read(point.join("letter")), LETTER);
    let restore = ["restore", "saved", node, "--confirm", name];
    flock(&measuring, FlockOperation::NonBlockingLockExclusive).unwrap();
    flashfit(&place, &restore).said(3, &[&is_locked]);
    assert_eq!(read(queue.clone()).trim(), "516");
    drop(measuring);
    flashfit(&place, &restore).said(0, &[]);
    assert_eq!((shown(), read(queue), read(fstab)), (before, ahead, table));
    mounted.unmount().unwrap();
}

#[test]
fn a_change_of_the_system_file_after_it_was_shown_is_kept() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = &with_a_letter(&place);
    let fstab = fstab(&place, &format!("UUID={} /data ext4 defaults 0 2", uuid(image)));
    let call = ["apply", "--keep-data", "image", "--root", "root", "--confirm", "image"];
    flashfit(&place, &[&call[..], &["--backup", "saved"]].concat()).said(0, &[]);
    let ours = read(fstab.clone());
    let line = ours.lines().last().unwrap().to_owned();
    std::fs::write(&fstab, format!("#{line}\n{ours}tmpfs /tmp tmpfs defaults 0 0\n")).unwrap();
    let back = ["restore", "saved", "image", "--confirm", "image"];
    let restored = flashfit(&place, &back);
    assert!(!restored.stdout.contains("note:"), "{}", restored.stdout);
    let text = read(fstab.clone());
    assert!(text.starts_with(&format!("#{line}\n# theirs\n")), "{text}");
    assert!(
        text.contains("/data ext4 defaults 0 2\n") && text.ends_with("/tmp tmpfs defaults 0 0\n")
    );
    // A line that was changed since stays as it is, which is said.
    flashfit(&place, &[&call[..], &["--backup", "saved-2"]].concat()).said(0, &[]);
    let theirs = read(fstab.clone()).replace("defaults,noatime 0 2", "defaults,noatime,user 0 2");
    std::fs::write(&fstab, &theirs).unwrap();
    let restored = flashfit(&place, &["restore", "saved-2", "image", "--confirm", "image"]);
    let note = format!("note: {} was changed since; look at it", fstab.display());
    assert!(restored.stdout.contains(&note), "{}", restored.stdout);
    assert_eq!(read(fstab), theirs);
}

#[test]
fn a_file_system_with_errors_and_other_devices_are_refused() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = &with_a_letter(&place);
    let call = ["apply", "--keep-data", "image", "--confirm"];
    flashfit(&place, &[&call[..], &["other"]].concat()).said(3, &["is not the name"]);
    flashfit(&place, &["apply", "--keep-data", "image", "--with", "ext4:bigalloc"])
        .said(2, &["cannot be set on an existing file system"]);
    flashfit(&place, &["apply", "--keep-data", "image", "--with", "btrfs:noatime"])
        .said(2, &["has no file system of kind btrfs"]);
    // A name of a file that no longer exists.
    run("debugfs", &["-w", "-R", "clri letter", image]);
    let before = std::fs::read(image).unwrap();
    let ended = flashfit(&place, &[&call[..], &["image", "--backup", "saved"]].concat());
    ended.said(1, &["has errors", &format!("repair it first: e2fsck -f {image}\n")]);
    let is_same = || std::fs::read(image).unwrap() == before;
    assert!(is_same(), "it was written to");
    // Nothing was begun, so nothing is repaired.
    flashfit(&place, &[&call[..], &["image"]].concat()).said(1, &["has errors"]);
    assert!(is_same(), "the second call wrote to it");
    let back = ["restore", "saved", "image", "--confirm", "image"];
    let restored = flashfit(&place, &back);
    restored.said(0, &[]);
    assert!(restored.stdout.contains("Nothing is to be restored"), "{}", restored.stdout);
    assert!(is_same(), "the restore wrote to it");
    let checked = flashfit(&place, &["check", "image"]);
    assert!(!checked.stdout.contains("interrupted"), "{}", checked.stdout);
    wait_for_no_traces(&place, None);
}

/// Sets the state of the journal's first step, as a kill while its program ran leaves it.
fn set_first_step_begun(place: &Place) {
    let file = place.path("saved/improvement.json");
    let mut journal: serde_json::Value = serde_json::from_str(&read(file.clone())).unwrap();
    journal["steps"][0]["state"] = "begun".into();
    journal["is_finished"] = false.into();
    std::fs::write(file, journal.to_string()).unwrap();
}

#[test]
fn after_an_interruption_only_the_same_file_system_is_repaired_and_only_safely() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = &with_a_letter(&place);
    run("debugfs", &["-w", "-R", "mkdir docs", image]);
    let letter = place.arg("letter");
    run("debugfs", &["-w", "-R", &format!("write {letter} docs/letter"), image]);
    let call = ["apply", "--keep-data", "image", "--confirm", "image", "--backup", "saved"];
    flashfit(&place, &[&call[..], &["--with", "ext4:nojournal"]].concat()).said(0, &[]);
    set_first_step_begun(&place);
    // Another file system of the same size, with errors of its own.
    std::fs::create_dir(place.path("second")).unwrap();
    let other = &place.path("second/image").display().to_string();
    std::fs::copy(image, other).unwrap();
    run("mkfs.ext4", &["-q", "-F", other]);
    run("debugfs", &["-w", "-R", "clri lost+found", other]);
    let untouched = std::fs::read(other).unwrap();
    let back = ["restore", "saved", "second/image", "--confirm", "image"];
    flashfit(&place, &back).said(3, &["is not the file", "add --to-copy"]);
    flashfit(&place, &[&back[..], &["--to-copy"]].concat()).said(1, &["another file system now"]);
    let resumed = ["apply", "--keep-data", "second/image", "--confirm", "image"];
    let resumed = [&resumed[..], &["--with", "ext4:nojournal", "--backup", "saved"]].concat();
    flashfit(&place, &resumed).said(3, &["another file of the same size"]);
    assert!(std::fs::read(other).unwrap() == untouched, "another file system was written to");
    // A directory that only a full repair can reconnect: it would go to lost+found.
    run("debugfs", &["-w", "-R", "clri docs", image]);
    let back = ["restore", "saved", "image", "--confirm", "image"];
    flashfit(&place, &back).said(1, &["has errors", &format!("e2fsck -f {image}\n")]);
    assert_eq!(run("debugfs", &["-R", "ls -p lost+found", image]).matches("#").count(), 0);
    wait_for_no_traces(&place, None);
}

#[test]
fn the_hint_for_a_partition_in_an_image_can_be_typed() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = &place.image("image", 64).display().to_string();
    let table = "label: dos\nstart=2048, size=8192\nstart=10240\n";
    let sfdisk = Program::new("sfdisk").args(["-q", image]).stdin(table.to_owned());
    SystemRunner::default().run_checked(&sfdisk).unwrap();
    run("mkfs.ext4", &["-q", "-F", "-E", "offset=5242880", image, "32m"]);
    let within = format!("{image}?offset=5242880");
    run("debugfs", &["-w", "-R", "clri lost+found", &within]);
    let call = ["apply", "--keep-data", "image", "--with", "ext4:nojournal"];
    let shown = flashfit(&place, &[&call[..], &["--dry-run"]].concat());
    shown.said(0, &[]);
    let typed = format!("tune2fs -O ^has_journal '{within}'");
    let words = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches(&typed).count(), 2, "the step and its warning: {words}");
    assert!(!words.contains(&format!("{image}2 ")), "{words}");
    let ended = flashfit(&place, &[&call[..], &["--confirm", "image"]].concat());
    let attached = format!("node=$(losetup -fP --show {image}) && e2fsck -f ${{node}}p2");
    ended.said(1, &[&format!("file system on {image} has errors"), &attached]);
    wait_for_no_traces(&place, None);
}

/// A `tune2fs` that reports its start, waits, and then runs the real one.
fn slow_tune2fs(place: &Place) -> String {
    std::fs::create_dir(place.path("slow")).unwrap();
    let script = format!(
        "#!/bin/sh\ntouch {0}/begun\nwhile [ -e {0}/slow/wait ]; do sleep 0.01; done\nexec {1} \
         \"$@\"\n",
        place.folder().display(),
        find("tune2fs").unwrap().display()
    );
    let program = place.file("slow/tune2fs", &script);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    place.file("slow/wait", "");
    format!("{}:{}", place.arg("slow"), std::env::var("PATH").unwrap())
}

#[test]
fn interrupted_in_the_middle_it_continues_or_is_restored() {
    if skip_without_block_devices() {
        return;
    }
    for by in [Signal::INT, Signal::KILL] {
        let place = Place::in_memory();
        let image = &with_a_letter(&place);
        let before = superblock(image);
        let fstab = fstab(&place, &format!("UUID={} /data ext4 defaults 0 2", uuid(image)));
        let path = slow_tune2fs(&place);
        let call = ["apply", "--keep-data", "image", "--root", "root", "--with", "ext4:nojournal"];
        let call = [&call[..], &["--confirm", "image", "--backup", "saved"]].concat();
        let child = command(&place, &call).env("FLASHFIT_PATH", path).spawn().unwrap();
        wait_until("tune2fs has begun", || place.path("begun").exists());
        signal(child.id(), by);
        attempted(AttemptKind::Kill, 1);
        let ended = Ended::of(child);
        if by == Signal::INT {
            ended.said(6, &["0 of 4 steps are made", "flashfit apply --keep-data", "or restore"]);
        }
        wait_for_no_traces(&place, None);
        let checked = flashfit(&place, &["check", "image"]);
        assert!(checked.stdout.contains("an interrupted change"), "{}", checked.stdout);
        if by == Signal::KILL {
            flashfit(&place, &["restore", "saved", "image", "--confirm", "image"]).said(0, &[]);
            assert_eq!(superblock(image), before);
            assert!(read(fstab).contains("/data ext4 defaults 0 2"));
        } else {
            // Without the folder and the options of the first call: the journal has them.
            let again = ["apply", "--keep-data", "image", "--root", "root", "--confirm", "image"];
            flashfit(&place, &again).said(0, &["Continuing: an interrupted change"]);
            assert_eq!(superblock(image), (false, "-1".to_owned(), String::new()));
            assert!(read(fstab).contains("/data ext4 defaults,noatime 0 2"));
        }
        assert_letter(image);
        let checked = flashfit(&place, &["check", "image"]);
        assert!(!checked.stdout.contains("interrupted"), "{}", checked.stdout);
    }
}
