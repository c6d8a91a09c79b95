//! A plan carried out and taken back: what stands in the way, what is left on the medium and in the
//! system's files, and what an interruption leaves.

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use flashfit_host::mount::Mounted;
use flashfit_host::program::find;
use flashfit_host::{Program, Runner, SystemRunner};
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{Ended, Place, skip, skip_without_block_devices, wait_until};
use crate::machine::{PlainLoop, signal, wait_for_no_traces};

const END: usize = 4 << 20;
const GEOMETRY: [&str; 4] = ["--erase-unit", "1MiB", "--write-unit", "16KiB"];

/// The command with a memory of its own for unfinished media.
fn flashfit(place: &Place, args: &[&str]) -> Ended {
    Ended::new(command(place, args).output().unwrap())
}

fn command(place: &Place, args: &[&str]) -> std::process::Command {
    let mut command = place.command(args);
    command.env("FLASHFIT_STATE_DIR", place.path("state"));
    command
}

fn start(place: &Place, args: &[&str]) -> Child {
    command(place, args).spawn().unwrap()
}

/// Writes `plan.json` for `target`.
fn plan(place: &Place, target: &str, more: &[&str]) {
    let args = [&["plan", target, "--output", "plan.json"][..], &GEOMETRY, more].concat();
    flashfit(place, &args).said(0, &[]);
}

fn apply(place: &Place, more: &[&str]) -> Ended {
    let args = [&["apply", "plan.json", "image", "--confirm", "image", "--backup", "saved"], more];
    flashfit(place, &args.concat())
}

/// The first and the last 4 MiB.
fn ends(file: &Path) -> (Vec<u8>, Vec<u8>) {
    let mut open = std::fs::File::open(file).unwrap();
    let (mut first, mut last) = (vec![0; END], vec![0; END]);
    open.read_exact(&mut first).unwrap();
    open.seek(SeekFrom::End(-i64::try_from(END).unwrap())).unwrap();
    open.read_exact(&mut last).unwrap();
    (first, last)
}

/// Fails if the image is changed by `work`, or if a backup of it or a memory of it is left.
#[track_caller]
fn untouched(place: &Place, work: impl FnOnce()) {
    let image = place.path("image");
    let before = std::fs::read(&image).unwrap();
    work();
    assert!(before == std::fs::read(&image).unwrap(), "the image was written to");
    assert!(!place.path("saved").exists(), "a backup was made");
    let records = std::fs::read_dir(place.path("state/unfinished"));
    assert!(records.map_or(0, Iterator::count) == 0, "it is remembered as unfinished");
}

#[test]
fn nothing_is_written_without_being_asked_for() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    place.image("image", 64);
    plan(&place, "image", &["--fs", "ext4"]);
    untouched(&place, || {
        let dry = apply(&place, &["--dry-run", "--install"]);
        dry.said(0, &[]);
        for text in ["All data on", "sfdisk", "mkfs.ext4", "etc/fstab", "Nothing was changed."] {
            assert!(dry.stdout.contains(text), "no `{text}` in {}", dry.stdout);
        }
        let json = apply(&place, &["--dry-run", "--json"]).document("flashfit.would-apply");
        assert_eq!(json["plan"]["setup"]["filesystem"], "ext4");
        let bare = ["apply", "plan.json", "image", "--backup", "saved"];
        flashfit(&place, &bare).said(3, &["nobody agreed", "hint: add --confirm image"]);
        let wrong = [&bare[..], &["--confirm", "card"]].concat();
        flashfit(&place, &wrong).said(3, &["`card` is not the name of the medium"]);
    });
}

#[test]
fn a_plan_for_something_else_is_refused() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    place.image("image", 64);
    plan(&place, "image", &["--fs", "ext4"]);
    let whole = std::fs::read_to_string(place.path("plan.json")).unwrap();
    untouched(&place, || {
        let bytes = (64 << 20).to_string();
        for (from, to, said) in [
            ("mkfs.ext4", "mkfs.ext3", "commands would be different"),
            ("16384", "32768", "would be different"),
            (bytes.as_str(), "134217728", "would be different"),
            ("flashfit.plan", "flashfit.run", "it is a document `flashfit.run`"),
        ] {
            assert!(whole.contains(from), "{from}");
            place.file("plan.json", &whole.replace(from, to));
            let ended = apply(&place, &[]);
            assert!(matches!(ended.code, Some(2 | 3)), "{from}: {ended:#?}");
            assert!(ended.stderr.contains(said), "{from}: {}", ended.stderr);
        }
        place.file("plan.json", "{");
        apply(&place, &[]).said(2, &["plan.json: it is no plan"]);
    });
    place.file("plan.json", &whole);
    place.image("image", 48);
    untouched(&place, || {
        apply(&place, &[]).said(3, &["not the medium that the plan was made for"]);
    });
    let card = place.card();
    let args = ["apply", "plan.json", &card, "--confirm", "fast"];
    flashfit(&place, &args).said(2, &["a simulated card is gone"]);
}

#[test]
fn what_somebody_uses_is_refused() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let mkfs = Program::new("mkfs.ext4").args(["-q", "-F"]).arg(image.display().to_string());
    SystemRunner::default().run_checked(&mkfs).unwrap();
    plan(&place, "image", &["--fs", "ext4"]);
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
    untouched(&place, || apply(&place, &[]).said(3, &["in use", "losetup -d"]));
    plan(&place, node, &["--fs", "ext4", "--scheduler", "none"]);
    let point = place.path("point");
    std::fs::create_dir(&point).unwrap();
    let options = ["ro".to_owned(), "noload".to_owned()];
    let runner = SystemRunner::default();
    let mounted = Mounted::new(&runner, Path::new(node), "ext4", &point, &options).unwrap();
    untouched(&place, || {
        // The folder for the backup is on the medium too.
        let args = ["apply", "plan.json", node, "--confirm", name, "--backup", "point/saved"];
        flashfit(&place, &args).said(3, &["in use", "is mounted on"]);
    });
    mounted.unmount().unwrap();
}

#[test]
fn what_is_read_only_is_refused() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &["--read-only"]);
    plan(&place, node, &["--fs", "ext4", "--scheduler", "none"]);
    untouched(&place, || {
        let args = ["apply", "plan.json", node, "--confirm", name, "--backup", "saved"];
        flashfit(&place, &args).said(3, &["write-protected"]);
    });
}

/// Makes a file system, compares, and takes it back.
fn there_and_back(filesystem: &str, mib: u64, more: &[&str]) {
    let place = Place::new();
    let image = place.image("image", mib);
    let before = ends(&image);
    plan(&place, "image", &[&["--fs", filesystem], more].concat());
    let done = apply(&place, &["--json"]).document("flashfit.applied");
    assert_eq!(done["plan"]["setup"]["filesystem"], filesystem);
    let told = done["verified"]["as_planned"].as_array().unwrap();
    let compared = told.iter().chain(done["verified"]["not_told"].as_array().unwrap());
    assert!(compared.count() > 0, "nothing was compared: {done}");
    assert!(done["verified"]["uuid"].is_string(), "{done}");
    assert!(ends(&image) != before, "nothing was made");
    let again = apply(&place, &[]);
    again.said(2, &["saved holds something already"]);
    let back = ["restore", "saved", "image", "--confirm", "image"];
    flashfit(&place, &["restore", "saved", "image", "--dry-run"]).said(0, &[]);
    assert!(ends(&image) != before, "a dry run restored it");
    flashfit(&place, &["restore", "saved", "image"]).said(3, &["nobody agreed"]);
    let restored = flashfit(&place, &back);
    restored.said(0, &["files whose contents were overwritten"]);
    assert!(ends(&image) == before, "{filesystem}: the ends are not as they were");
    wait_for_no_traces(&place, None);
}

#[test]
fn every_file_system_there_and_back() {
    if skip_without_block_devices() {
        return;
    }
    for (filesystem, mib, more) in [
        ("ext4", 64, &[][..]),
        ("ext4", 64, &["--table", "mbr"]),
        ("ext4", 64, &["--table", "none"]),
        ("ext2", 64, &[]),
        ("btrfs", 256, &[]),
        ("xfs", 1024, &[]),
        ("fat32", 128, &[]),
        ("fat32", 128, &["--table", "none"]),
        ("exfat", 128, &[]),
        ("f2fs", 256, &[]),
        ("nilfs2", 256, &[]),
    ] {
        let kind = if filesystem == "fat32" { "fat" } else { filesystem };
        let program = format!("mkfs.{kind}");
        if skip(find(&program).is_none().then(|| format!("there is no {program}"))) {
            continue;
        }
        there_and_back(filesystem, mib, more);
    }
}

#[test]
fn a_run_is_carried_out_where_it_was_made() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    place.tune("image", &["--confirm", "image"]).said(0, &[]);
    let args = ["apply", "run", "image", "--confirm", "image", "--backup", "saved", "--json"];
    let done = flashfit(&place, &args).document("flashfit.applied");
    assert_eq!(done["plan"]["setup"]["filesystem"], "ext4");
    std::fs::File::options().write(true).open(&image).unwrap().set_len(65 << 20).unwrap();
    let other = ["apply", "run", "image", "--confirm", "image", "--backup", "other"];
    flashfit(&place, &other).said(3, &["not the medium that the plan was made for"]);
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_systems_files_keep_what_is_in_them() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    std::fs::create_dir_all(place.path("root/etc")).unwrap();
    let theirs = "# static\nproc /proc proc defaults 0 0\nUUID=1 / ext4 errors=remount-ro 0 1";
    let fstab = place.file("root/etc/fstab", theirs);
    std::fs::set_permissions(&fstab, std::fs::Permissions::from_mode(0o640)).unwrap();
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
    plan(&place, node, &["--fs", "ext4", "--scheduler", "none"]);
    let install = |backup: &str| {
        let args = ["apply", "plan.json", node, "--confirm", name, "--backup", backup];
        flashfit(&place, &[&args[..], &["--install", "--root", "root", "--json"]].concat())
            .document("flashfit.applied")
    };
    let done = install("one");
    let uuid = done["verified"]["uuid"].as_str().unwrap().to_owned();
    let text = read(fstab.clone());
    assert!(text.starts_with(theirs), "{text}");
    let line = format!("\nUUID={uuid} /mnt/flash ext4 noatime,nofail 0 2\n");
    assert!(text.contains(&line) && text.contains(&format!("# flashfit begin {uuid}")), "{text}");
    assert_eq!(fstab.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let kept = Path::new(done["installed"]["kept"][0].as_str().unwrap()).to_owned();
    assert_eq!(read(kept), theirs);
    let rules = place.path("root/etc/udev/rules.d/60-flashfit.rules");
    assert!(read(rules.clone()).contains("ATTR{queue/scheduler}=\"none\""));
    // A second time there is another file system, and one block all the same.
    let again = install("two")["verified"]["uuid"].as_str().unwrap().to_owned();
    assert_ne!(again, uuid);
    let text = read(fstab.clone());
    assert!(text.contains(&again) && !text.contains(&uuid), "{text}");
    assert_eq!(text.matches("# flashfit begin").count(), 1, "{text}");
    assert_eq!(read(rules).matches("# flashfit begin").count(), 1);
    // Somebody else's line for the same mount point stands in the way, before anything is done.
    place.file("root/etc/fstab", "LABEL=x /mnt/flash ext4 defaults 0 0\n");
    let before = std::fs::read(&image).unwrap();
    let args = ["apply", "plan.json", node, "--confirm", name, "--backup", "three", "--install"];
    let ended = flashfit(&place, &[&args[..], &["--root", "root"]].concat());
    ended.said(2, &["it has a line for /mnt/flash already"]);
    assert!(std::fs::read(&image).unwrap() == before, "the medium was written to");
}

#[test]
fn a_partition_is_made_anew_and_nothing_beside_it_is_touched() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let table = "label: dos\nstart=8192, size=65536\nstart=73728, size=40960\n";
    let sfdisk = Program::new("sfdisk").arg("--quiet").arg(image.display().to_string());
    SystemRunner::default().run_checked(&sfdisk.stdin(table)).unwrap();
    let before = std::fs::read(&image).unwrap();
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
    // For a kernel that does not read tables itself.
    let tell = Program::new("partx").args(["--update", node]);
    SystemRunner::default().run_checked(&tell).unwrap();
    let (node, name) = (&format!("{node}p1"), &format!("{name}p1"));
    plan(&place, node, &["--fs", "ext4", "--scheduler", "none"]);
    let args = ["apply", "plan.json", node, "--confirm", name, "--backup", "saved"];
    flashfit(&place, &args).said(0, &[]);
    let beside = |bytes: &[u8]| [&bytes[..8192 * 512], &bytes[73728 * 512..]].concat();
    let after = std::fs::read(&image).unwrap();
    assert!(beside(&after) == beside(&before), "something beside the partition was written");
    assert!(after != before);
    let disk = ["restore", "saved", name.trim_end_matches("p1"), "--confirm", name];
    assert_ne!(flashfit(&place, &disk).code, Some(0), "restored to the whole disk");
    flashfit(&place, &["restore", "saved", node, "--confirm", name]).said(0, &[]);
    let after = std::fs::read(&image).unwrap();
    assert!(after[8192 * 512..][..END] == before[8192 * 512..][..END]);
    assert!(beside(&after) == beside(&before));
}

fn scheduler(node: &str) -> String {
    let name = node.strip_prefix("/dev/").unwrap();
    let text = read(PathBuf::from(format!("/sys/block/{name}/queue/scheduler")));
    let (_, rest) = text.split_once('[').unwrap();
    rest.split_once(']').unwrap().0.to_owned()
}

#[test]
fn the_scheduler_comes_and_goes() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
    let before = scheduler(node);
    let other = if before == "none" { "mq-deadline" } else { "none" };
    plan(&place, node, &["--fs", "ext4", "--scheduler", other]);
    let args = ["apply", "plan.json", node, "--confirm", name, "--backup", "saved"];
    let ended = flashfit(&place, &args);
    if skip(ended.stderr.contains("the queue offers").then(|| format!("there is no {other}"))) {
        return;
    }
    ended.said(0, &[]);
    assert_eq!(scheduler(node), other);
    flashfit(&place, &["restore", "saved", node, "--confirm", name]).said(0, &[]);
    assert_eq!(scheduler(node), before);
}

#[test]
fn a_backup_is_not_written_back_to_what_somebody_uses() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    plan(&place, "image", &["--fs", "ext4"]);
    apply(&place, &[]).said(0, &[]);
    assert_eq!(place.path("saved").metadata().unwrap().permissions().mode() & 0o77, 0);
    let made = std::fs::read(&image).unwrap();
    let back = ["restore", "saved", "image", "--confirm", "image"];
    {
        let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &["--read-only"]);
        flashfit(&place, &back).said(3, &["in use"]);
        let to_loop = ["restore", "saved", node, "--confirm", name];
        flashfit(&place, &to_loop).said(3, &["write-protected"]);
        flashfit(&place, &["restore", "saved", node, "--confirm", "image"]).said(3, &["name"]);
    }
    place.image("other", 63);
    let other = ["restore", "saved", "other", "--confirm", "other"];
    flashfit(&place, &other).said(3, &["saved was made of another medium"]);
    flashfit(&place, &["restore", "nothing", "image"]).said(4, &["nothing/manifest.json"]);
    place.file("saved/first.img", "short");
    flashfit(&place, &back).said(2, &["first.img: it is not as it was when it was saved"]);
    assert!(std::fs::read(&image).unwrap() == made, "the image was written to");
}

/// In a namespace of its own, so that what stays mounted goes with it.
#[test]
fn it_stays_mounted_where_the_user_wants_it() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    place.image("image", 64);
    plan(&place, "image", &["--fs", "ext4"]);
    std::fs::create_dir(place.path("point")).unwrap();
    let script = format!(
        "cd {} && {1} apply plan.json image --confirm image --backup saved --mount-point point && \
         echo hello > point/file && umount point && {1} apply plan.json image --backup saved \
         --confirm image --mount-point nowhere",
        place.folder().display(),
        crate::fixture::FLASHFIT,
    );
    let program = Program::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .env("FLASHFIT_STATE_DIR", place.arg("state"));
    let outcome = SystemRunner::default().run(&program).unwrap();
    assert!(outcome.stdout.contains("It is mounted on"), "{outcome:?}");
    assert!(outcome.stderr.contains("there is no folder nowhere"), "{outcome:?}");
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    let place_on_it = format!("{}?offset={}", place.arg("image"), 1 << 20);
    let found = Program::new("debugfs").args(["-R", "cat /file", &place_on_it]);
    let found = SystemRunner::default().run(&found).unwrap();
    assert_eq!(found.stdout, "hello\n", "{found:?}");
}

/// A `mkfs.ext4` that says that it has begun, waits, and then is the real one.
fn slow_mkfs(place: &Place) -> String {
    std::fs::create_dir(place.path("slow")).unwrap();
    let real = find("mkfs.ext4").unwrap();
    let script = format!(
        "#!/bin/sh\ntouch {0}/begun\nwhile [ -e {0}/slow/wait ]; do sleep 0.01; done\n\
         exec {1} \"$@\"\n",
        place.folder().display(),
        real.display()
    );
    let program = place.file("slow/mkfs.ext4", &script);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    place.file("slow/wait", "");
    format!("{}:{}", place.arg("slow"), std::env::var("PATH").unwrap())
}

#[test]
fn interrupted_while_a_program_runs() {
    if skip_without_block_devices() {
        return;
    }
    for by in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let image = place.image("image", 64);
        let before = ends(&image);
        plan(&place, "image", &["--fs", "ext4"]);
        let path = slow_mkfs(&place);
        let args = ["apply", "plan.json", "image", "--confirm", "image", "--backup", "saved"];
        let child = command(&place, &args).env("PATH", path).spawn().unwrap();
        wait_until("mkfs has begun", || place.path("begun").exists());
        signal(child.id(), by);
        let ended = Ended::of(child);
        let go_on = format!("flashfit apply {} {}", place.arg("plan.json"), image.display());
        ended.said(6, &["the medium is unfinished, while making the file system", &go_on]);
        wait_for_no_traces(&place, None);
        let checked = flashfit(&place, &["check", "image"]);
        assert_eq!(checked.code, Some(1), "{checked:#?}");
        assert!(checked.stdout.contains("unfinished"), "{}", checked.stdout);
        // Another folder would keep what is half made.
        let elsewhere = ["apply", "plan.json", "image", "--confirm", "image", "--backup", "other"];
        flashfit(&place, &elsewhere).said(3, &["what the medium held before is kept in", &go_on]);
        let words = ["apply", "plan.json", "image", "--confirm", "image"];
        flashfit(&place, &words).said(0, &["going on with what was left unfinished"]);
        assert!(!flashfit(&place, &["check", "image"]).stdout.contains("unfinished"));
        let back = ["restore", "saved", "image", "--confirm", "image"];
        flashfit(&place, &back).said(0, &[]);
        assert!(ends(&image) == before, "the backup is not of what there was first");
    }
}

#[test]
fn killed_at_any_moment() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let before = ends(&image);
    plan(&place, "image", &["--fs", "ext4"]);
    let args = ["apply", "plan.json", "image", "--confirm", "image", "--backup", "saved"];
    let began = Instant::now();
    apply(&place, &[]).said(0, &[]);
    let whole = began.elapsed();
    let back = ["restore", "saved", "image", "--confirm", "image"];
    for eighth in 1..8 {
        flashfit(&place, &back).said(0, &[]);
        assert!(ends(&image) == before);
        std::fs::remove_dir_all(place.path("saved")).unwrap();
        let mut child = start(&place, &args);
        std::thread::sleep(whole * eighth / 8 + Duration::from_millis(2));
        // It may have ended by itself.
        let _ = child.kill();
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
