//! flashfit only writes to the target that it showed: if the target is replaced at the prompt, or
//! by another user at any time, neither it nor its replacement changes.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{AttemptKind, TestNeed, attempted};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::apply;
use crate::fixture::{Ended, FLASHFIT, Place, skip_without_block_devices};
use crate::machine::{PlainLoop, wait_for_no_traces};
use crate::terminal::Terminal;

const MIB: u64 = 64;
const CHANGED: &str = "has changed since it was displayed: it is now another file";

/// How the target is replaced.
#[derive(Debug, Clone, Copy)]
enum Swap {
    Link,
    Rename,
    HardLink,
    Node,
}

impl Swap {
    const ALL: [Self; 4] = [Self::Link, Self::Rename, Self::HardLink, Self::Node];

    /// Puts the victim's loop device or file in the place of `image`, which is renamed.
    fn make(self, place: &Place, victim: &PlainLoop) {
        let (image, aside) = (place.path("image"), place.path("aside"));
        match self {
            Self::Link => {
                std::fs::rename(&image, aside).unwrap();
                std::os::unix::fs::symlink(&victim.node, image).unwrap();
            }
            Self::Rename => {
                std::fs::rename(&image, aside).unwrap();
                std::fs::rename(place.path("other"), image).unwrap();
            }
            Self::HardLink => {
                std::fs::hard_link(&image, aside).unwrap();
                std::fs::hard_link(place.path("other"), place.path("new")).unwrap();
                std::fs::rename(place.path("new"), image).unwrap();
            }
            Self::Node => {
                std::fs::rename(&image, aside).unwrap();
                let number = std::fs::metadata(&victim.node).unwrap().rdev();
                mknodat(CWD, image, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, number)
                    .unwrap();
            }
        }
    }
}

/// Replaces the image while `args` prompts, and confirms.
fn swap_at_the_prompt(args: &[&str], prepare: impl Fn(&Place)) {
    for swap in Swap::ALL {
        let place = Place::in_memory();
        place.image("image", MIB);
        prepare(&place);
        place.image("other", MIB);
        let behind = place.image("behind", MIB);
        let victim = PlainLoop::attach(&behind, 512, &[]);
        // By inode, because names change. Nothing is kept open, because that would count as use.
        let kept = ["image", "other", "behind"].map(|name| {
            let path = place.path(name);
            (name, std::fs::metadata(&path).unwrap().ino(), std::fs::read(&path).unwrap())
        });
        let mut terminal = Terminal::start(apply::command(&place, args));
        terminal.wait_for("Type its name");
        swap.make(&place, &victim);
        attempted(AttemptKind::SwappedTarget, 1);
        terminal.types("image");
        let ended = terminal.ends();
        let context = format!("{args:?} {swap:?}: {}", ended.stderr);
        assert_eq!(ended.code, Some(3), "{context}");
        assert!(ended.stderr.contains(CHANGED), "{context}");
        assert!(ended.stderr.contains("hint: check it again: flashfit inspect "), "{context}");
        drop(victim);
        for (name, inode, before) in kept {
            let names = std::fs::read_dir(place.folder()).unwrap().flatten();
            let path = names.map(|entry| entry.path()).find(|path| {
                std::fs::symlink_metadata(path).is_ok_and(|found| found.ino() == inode)
            });
            let now = std::fs::read(path.unwrap()).unwrap();
            assert!(now == before, "{name} was written to: {context}");
        }
        wait_for_no_traces(&place, None);
    }
}

#[test]
fn one_interrupt_at_a_prompt_ends_the_command() {
    if skip_without_block_devices() {
        return;
    }
    let tune = ["tune", "image", "--fs", "ext4", "--workload", "sync-files", "--dir", "run"];
    for args in [&["probe", "image", "--write"][..], &["apply", "plan.json", "image"], &tune] {
        let place = Place::in_memory();
        let image = place.image("image", MIB);
        apply::plan(&place, "image", &["--fs", "ext4"]);
        let before = std::fs::read(&image).unwrap();
        let mut terminal = Terminal::start(apply::command(&place, args));
        terminal.wait_for("Type its name");
        terminal.interrupts();
        terminal.ends().said(6, &["interrupted before ", "image was changed"]);
        assert!(std::fs::read(&image).unwrap() == before, "{args:?}");
        wait_for_no_traces(&place, None);
    }
}

#[test]
fn probe_writes_to_nothing_else() {
    if skip_without_block_devices() {
        return;
    }
    swap_at_the_prompt(&["probe", "image", "--write", "--max-write", "16MiB"], |_| {});
}

#[test]
fn tune_writes_to_nothing_else() {
    if skip_without_block_devices() {
        return;
    }
    let args = ["tune", "image", "--config", "short.toml", "--dir", "run", "--progress", "never"];
    swap_at_the_prompt(&args, |_| {});
}

#[test]
fn apply_writes_to_nothing_else() {
    if skip_without_block_devices() {
        return;
    }
    swap_at_the_prompt(&["apply", "plan.json", "image", "--backup", "saved"], |place| {
        apply::plan(place, "image", &["--fs", "ext4"]);
    });
}

#[test]
fn restore_writes_to_nothing_else() {
    if skip_without_block_devices() {
        return;
    }
    swap_at_the_prompt(&["restore", "saved", "image"], |place| {
        apply::plan(place, "image", &["--fs", "ext4"]);
        apply::apply(place, &[]).said(0, &[]);
    });
}

/// Attaches another file of the same size to the loop device while `args` asks for confirmation,
/// and confirms.
fn reattach_at_the_prompt(args: &[&str], prepare: impl Fn(&Place, &str)) {
    let place = Place::in_memory();
    let files = ["image", "other"].map(|name| place.image(name, MIB));
    let device = PlainLoop::attach_far(300, &files[0]);
    let (node, name) = (device.node.clone(), device.name.clone());
    prepare(&place, &node);
    let before = files.clone().map(|file| std::fs::read(file).unwrap());
    let args: Vec<&str> =
        args.iter().map(|arg| if *arg == "NODE" { &node } else { *arg }).collect();
    let mut terminal = Terminal::start(apply::command(&place, &args));
    terminal.wait_for("Type its name");
    drop(device);
    let device = PlainLoop::attach_to(&node, &files[1]);
    terminal.types(&name);
    let ended = terminal.ends();
    attempted(AttemptKind::SwappedTarget, 1);
    let context = format!("{args:?}: {}", ended.stderr);
    assert_eq!(ended.code, Some(3), "{context}");
    assert!(ended.stderr.contains("has changed since it was displayed"), "{context}");
    drop(device);
    for (file, before) in files.iter().zip(before) {
        let file_name = file.display();
        assert!(std::fs::read(file).unwrap() == before, "{file_name} was written to: {context}");
    }
    wait_for_no_traces(&place, None);
}

#[test]
fn a_loop_device_over_another_file_is_not_written_to() {
    if skip_without_block_devices() {
        return;
    }
    reattach_at_the_prompt(&["probe", "NODE", "--write", "--max-write", "16MiB"], |_, _| {});
    let tune = ["tune", "NODE", "--config", "short.toml", "--dir", "run", "--progress", "never"];
    reattach_at_the_prompt(&tune, |_, _| {});
    let apply_args = ["apply", "plan.json", "NODE", "--backup", "saved"];
    reattach_at_the_prompt(&apply_args, |place, node| {
        apply::plan(place, node, &["--fs", "ext4"]);
    });
    reattach_at_the_prompt(&["restore", "saved", "NODE"], |place, node| {
        apply::plan(place, node, &["--fs", "ext4"]);
        let name = node.strip_prefix("/dev/").unwrap();
        let args = ["apply", "plan.json", node, "--confirm", name, "--backup", "saved"];
        apply::flashfit(place, &args).said(0, &[]);
        std::fs::copy(place.path("image"), place.path("other")).unwrap();
    });
}

/// Writes a table with one partition of 16 MiB to a file or a device.
fn partition(target: &str, start_mib: u64) {
    let script = format!("label: gpt\nstart={start_mib}MiB, size=16MiB\n");
    let sfdisk = Program::new("sfdisk").args(["--quiet", "--no-reread"]).arg(target).stdin(script);
    SystemRunner::default().run_checked(&sfdisk).unwrap();
}

/// Makes the kernel show the partitions of the table, as udev does where it runs.
fn show_partitions(node: &str) {
    let partx = Program::new("partx").arg("--update").arg(node);
    SystemRunner::default().run_checked(&partx).unwrap();
}

/// At the prompt for a partition, the disk is exchanged for one with an equal partition, or the
/// partition is moved.
#[test]
fn another_partition_of_the_same_name_is_not_written_to() {
    if skip_without_block_devices() {
        return;
    }
    let commands = [
        &["probe", "PART", "--write", "--max-write", "1MiB"][..],
        &["tune", "PART", "--config", "short.toml", "--dir", "run", "--progress", "never"],
        &["apply", "plan.json", "PART", "--backup", "saved"],
    ];
    for (args, is_moved) in commands.iter().flat_map(|args| [(*args, false), (*args, true)]) {
        let place = Place::in_memory();
        let files = ["image", "other"].map(|name| place.image(name, MIB));
        files.iter().for_each(|file| partition(file.to_str().unwrap(), 1));
        let device = PlainLoop::attach_far(301, &files[0]);
        let node = device.node.clone();
        show_partitions(&node);
        let (part, name) = (format!("{node}p1"), format!("{}p1", device.name));
        if args[0] == "apply" {
            apply::plan(&place, &part, &["--fs", "ext4"]);
        }
        let args: Vec<&str> =
            args.iter().map(|arg| if *arg == "PART" { &part } else { *arg }).collect();
        let mut terminal = Terminal::start(apply::command(&place, &args));
        terminal.wait_for("Type its name");
        let device = if is_moved {
            // The kernel gives the new partition the number of the old one.
            let forget = Program::new("partx").arg("--delete").arg(&node);
            SystemRunner::default().run_checked(&forget).unwrap();
            partition(&node, 32);
            show_partitions(&node);
            device
        } else {
            drop(device);
            let other = PlainLoop::attach_to(&node, &files[1]);
            show_partitions(&node);
            other
        };
        rustix::fs::fsync(std::fs::File::open(&node).unwrap()).unwrap();
        let before = files.clone().map(|file| std::fs::read(file).unwrap());
        terminal.types(&name);
        let ended = terminal.ends();
        attempted(AttemptKind::SwappedTarget, 1);
        let context = format!("{args:?}, moved: {is_moved}: {}", ended.stderr);
        assert_eq!(ended.code, Some(3), "{context}");
        assert!(ended.stderr.contains("has changed since it was displayed"), "{context}");
        drop(device);
        for (file, before) in files.iter().zip(before) {
            assert!(std::fs::read(file).unwrap() == before, "{}: {context}", file.display());
        }
        wait_for_no_traces(&place, None);
    }
}

/// A directory that belongs to an ordinary user.
pub fn folder_of_a_user(place: &Place, user: u32) -> PathBuf {
    use std::os::unix::fs::{PermissionsExt, chown};
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.folder(), open).unwrap();
    let folder = place.path("home");
    std::fs::create_dir(&folder).unwrap();
    chown(&folder, Some(user), Some(user)).unwrap();
    folder
}

/// Another user switches a name between a file and a link to root's device as fast as possible,
/// while root uses that name.
#[test]
fn a_name_switched_to_a_device_by_another_user_is_not_written_to() {
    if skip_without_block_devices() {
        return;
    }
    const TRIES: usize = 80;
    const USER: u32 = 65_534;
    let place = Place::in_memory();
    let home = folder_of_a_user(&place, USER);
    let behind = place.image("behind", 16);
    let victim = PlainLoop::attach(&behind, 512, &[]);
    let before = std::fs::read(&behind).unwrap();
    let target = home.join("t.img");
    let (file, link) = (home.join("file"), home.join("link"));
    std::fs::write(&file, vec![0; 16 << 20]).unwrap();
    std::os::unix::fs::chown(&file, Some(USER), Some(USER)).unwrap();
    std::os::unix::fs::symlink(&victim.node, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(USER), Some(USER)).unwrap();
    std::fs::hard_link(&file, &target).unwrap();
    let stop = AtomicBool::new(false);
    let name = target.display().to_string();
    let (mut written, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for from in [&link, &file] {
                    let new = home.join("new");
                    // Only `t.img` changes; the other two names stay.
                    std::fs::hard_link(from, &new).unwrap();
                    std::fs::rename(&new, &target).unwrap();
                    let _ = std::fs::remove_file(&new);
                    std::thread::sleep(Duration::from_micros(300));
                }
            }
        });
        for turn in 0..TRIES {
            // By name and by path, which also goes through the link.
            let confirm = if turn % 2 == 0 { "t.img" } else { name.as_str() };
            let args = ["probe", &name, "--write", "--max-write", "1MiB", "--confirm", confirm];
            let ended = Ended::new(Command::new(FLASHFIT).args(args).output().unwrap());
            match ended.code {
                Some(3) => refused += 1,
                Some(0) => written += 1,
                _ => {
                    assert!(ended.stderr.contains("t.img"), "neither refused nor made: {ended:#?}")
                }
            }
            let now = std::fs::read(&behind).unwrap();
            assert!(now == before, "try {turn}: the device was written to: {ended:#?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    attempted(AttemptKind::SwappedTarget, TRIES);
    assert!(refused > 0, "never caught: {written} written");
}

#[test]
fn an_image_that_shrinks_ends_a_run_and_keeps_its_size() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", MIB);
    let args = place.tune_args("image", &["--repeats", "40", "--confirm", "image"]);
    let run = place.command(&args).spawn().unwrap();
    place.wait_for_trials(1);
    let open = std::fs::File::options().write(true).open(&image).unwrap();
    open.set_len(32 << 20).unwrap();
    drop(open);
    let ended = Ended::of(run);
    ended.said(5, &["it was 64 MiB and is now", "flashfit does not restore its size"]);
    wait_for_no_traces(&place, None);
}

/// The command as an ordinary user; `None` if that user may not run it.
pub fn as_user(place: &Place, user: u32, args: &[&str]) -> Option<Ended> {
    use std::os::unix::process::CommandExt;
    let mut command = place.command(args);
    command.uid(user).gid(user).current_dir(place.path("home"));
    match command.output() {
        Ok(output) => Some(Ended::new(output)),
        Err(error) => {
            let reason = format!("user {user} cannot run {FLASHFIT}: {error}");
            let _ = flashfit_test_support::skip(Some(TestNeed::User.missing(reason)));
            None
        }
    }
}

#[test]
fn devices_that_cannot_be_inspected_count_as_in_use() {
    if skip_without_block_devices() {
        return;
    }
    const USER: u32 = 65_534;
    let place = Place::in_memory();
    let home = folder_of_a_user(&place, USER);
    let image = home.join("t.img");
    std::fs::write(&image, vec![0; 16 << 20]).unwrap();
    std::os::unix::fs::chown(&image, Some(USER), Some(USER)).unwrap();
    let args = ["probe", "t.img", "--write", "--max-write", "1MiB", "--confirm", "t.img"];
    // The kernel confirms that no other process has it open.
    let Some(free) = as_user(&place, USER, &args) else { return };
    free.said(0, &[]);
    let before = std::fs::read(&image).unwrap();
    let open = std::fs::File::open(&image).unwrap();
    let unseen = ["cannot check whether", "cannot read the open files of", "sudo"];
    as_user(&place, USER, &args).unwrap().said(3, &unseen);
    drop(open);
    let device = PlainLoop::attach(&image, 512, &[]);
    as_user(&place, USER, &args).unwrap().said(3, &["in use"]);
    drop(device);
    let named = home.join("other name");
    std::fs::hard_link(&image, &named).unwrap();
    let device = PlainLoop::attach(&named, 512, &[]);
    as_user(&place, USER, &args).unwrap().said(3, &unseen);
    drop(device);
    assert!(std::fs::read(&image).unwrap() == before, "it was written to");
    as_user(&place, USER, &args).unwrap().said(0, &[]);
}

/// An agent compares the device to probe with the one that the user was shown on another machine.
#[test]
fn a_remote_probe_writes_only_to_the_device_that_was_shown() {
    let place = Place::in_memory();
    let image = place.image("image", 16);
    let before = std::fs::read(&image).unwrap();
    let inspected = place.flashfit(&["inspect", "image", "--json"]).document("flashfit.medium");
    let mut shown = serde_json::json!({
        "object": inspected["object"],
        "identity": inspected["identity"],
        "capacity": inspected["capacity"],
    });
    let probe = |shown: &serde_json::Value| {
        let shown = shown.to_string();
        let args = ["probe", "image", "--write", "--max-write", "1MiB", "--confirm", "image"];
        place.flashfit(&[&args[..], &["--shown", &shown]].concat())
    };
    let inode = shown["object"]["inode"].as_u64().unwrap();
    shown["object"]["inode"] = (inode + 1).into();
    probe(&shown).said(3, &[CHANGED]);
    assert!(std::fs::read(&image).unwrap() == before, "it was written to");
    shown["object"]["inode"] = inode.into();
    probe(&shown).said(0, &[]);
}

/// Changes something while a probe that writes asks for more time, and grants it.
fn grant_more_time_after(change: impl FnOnce(&Place), expected: &str) {
    let place = Place::in_memory();
    let image = place.image("image", MIB);
    // Without a twin, only the capacity of a file is tested, which does not take so long.
    let more = ["--write", "--twin", "twin.toml", "--max-time", "1s", "--confirm", "image"];
    let args = [&["probe", "image"][..], &more].concat();
    let mut terminal = Terminal::start(place.command(&args));
    terminal.wait_for("Go on for as long again?");
    let before = std::fs::read(&image).unwrap();
    change(&place);
    terminal.types("y");
    let ended = terminal.ends();
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    let written = [image, place.path("aside")]
        .into_iter()
        .find(|path| std::fs::metadata(path).is_ok_and(|found| found.len() == MIB << 20));
    assert!(before == std::fs::read(written.unwrap()).unwrap(), "it was written to");
}

#[test]
fn more_time_for_a_probe_is_no_consent_to_write_to_a_device_in_use() {
    if skip_without_block_devices() {
        return;
    }
    let device = std::cell::RefCell::new(None);
    let attach = |place: &Place| {
        *device.borrow_mut() = Some(PlainLoop::attach(&place.path("image"), 512, &[]));
    };
    attempted(AttemptKind::TargetInUse, 1);
    grant_more_time_after(attach, "image is in use: ");
}

#[test]
fn more_time_for_a_probe_is_no_consent_to_write_to_another_file() {
    attempted(AttemptKind::SwappedTarget, 1);
    let swap = |place: &Place| {
        std::fs::rename(place.path("image"), place.path("aside")).unwrap();
        place.image("image", 16);
    };
    grant_more_time_after(swap, CHANGED);
}
