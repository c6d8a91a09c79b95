//! Refusals and dry runs do not change a byte of the device.

use std::path::Path;

use flashfit_device::SystemRoots;
use flashfit_host::mount::Mounted;
use flashfit_host::{Program, Runner, SystemRunner, mountinfo};
use flashfit_test_support::{AttemptKind, attempted};

use crate::fixture::{Ended, Place, skip, skip_without_block_devices};
use crate::machine::PlainLoop;
use crate::swapped::{as_user, folder_of_a_user};

/// Asserts that `work` does not change `file`.
#[track_caller]
fn unchanged(file: &Path, work: impl FnOnce()) {
    attempted(AttemptKind::TargetInUse, 1);
    let before = std::fs::read(file).unwrap();
    work();
    let after = std::fs::read(file).unwrap();
    assert!(before == after, "{} was written to", file.display());
}

#[test]
fn without_confirmation_nothing_is_written() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("card image", 64);
    unchanged(&image, || {
        let ended = place.tune("card image", &[]);
        ended.said(3, &["confirmation is missing", "hint: add --confirm 'card image'"]);
        let ended = place.tune("card image", &["--confirm", "image"]);
        ended.said(3, &["`image` is not the name of the device", "add --confirm 'card image'"]);
        let ended = place.tune("card image", &["--confirm", ""]);
        ended.said(3, &["add --confirm 'card image'"]);
    });
    assert!(!place.path("run").exists(), "a run directory was made");
}

#[test]
fn a_node_is_confirmed_by_its_own_name() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
    unchanged(&image, || {
        let hint = format!("hint: add --confirm {name}");
        place.tune(node, &[]).said(3, &[&hint]);
        place.tune(node, &["--confirm", "image"]).said(3, &["not the name of the device", &hint]);
        place.tune(node, &["--confirm", "/dev/null"]).said(3, &[&hint]);
    });
    assert!(!place.path("run").exists(), "a run directory was made");
}

#[test]
fn mounted_devices_are_never_touched() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let runner = SystemRunner::default();
    let mkfs = Program::new("mkfs.ext4").args(["-q", "-F"]).arg(&image);
    runner.run_checked(&mkfs).unwrap();
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
    let point = place.path("point");
    std::fs::create_dir(&point).unwrap();
    let options = ["ro".to_owned(), "noload".to_owned()];
    let mounted = Mounted::new(&runner, Path::new(node), "ext4", &point, &options).unwrap();
    unchanged(&image, || {
        let in_use = ["in use", "mounted"];
        place.tune(node, &["--confirm", name]).said(3, &in_use);
        place.tune("image", &["--confirm", "image"]).said(3, &["in use"]);
    });
    mounted.unmount().unwrap();
    // An attached image is in use, even if it is not mounted.
    unchanged(&image, || place.tune("image", &["--confirm", "image"]).said(3, &["in use"]));
    assert!(!place.path("run").exists(), "a run directory was made");
}

/// A process that maps an image and closes it has no open file that could be listed.
#[test]
fn an_image_that_is_only_mapped_is_never_touched() {
    let no_root = !rustix::process::geteuid().is_root();
    if skip(no_root.then(|| "without root, other processes cannot be listed".to_owned()))
        || flashfit_test_support::skip(flashfit_test_support::programs(&["python3"]))
    {
        return;
    }
    const MAPS: &str = r"
import mmap, os, sys
whole = mmap.mmap(os.open('image', os.O_RDWR), 0)
os.closerange(3, 64)
whole[0:1] = b'A'
print('mapped', flush=True)
sys.stdin.read()
";
    let place = Place::new();
    let image = place.image("image", 16);
    let mut user = std::process::Command::new("python3")
        .args(["-c", MAPS])
        .current_dir(place.folder())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = user.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    assert_eq!(line, "mapped\n");
    let args = ["probe", "image", "--write", "--max-write", "1MiB", "--confirm", "image"];
    unchanged(&image, || {
        let refused = place.flashfit(&args);
        refused.said(3, &["is in use: another process or the kernel has ", "hint: find a process"]);
    });
    drop(user.stdin.take());
    user.wait().unwrap();
    place.flashfit(&args).said(0, &[]);
}

#[test]
fn read_only_devices_are_refused() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &["--read-only"]);
    unchanged(&image, || {
        place.tune(node, &["--confirm", name]).said(3, &["write-protected"]);
    });
}

#[test]
fn a_dry_run_changes_nothing() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    unchanged(&image, || {
        let ended = place.tune("image", &["--dry-run"]);
        ended.said(0, &[]);
        for text in ["All data on", "mkfs.ext4", "mount -t ext4", "Nothing was changed."] {
            assert!(ended.stdout.contains(text), "no `{text}` in {}", ended.stdout);
        }
        // The loop device is partitioned and formatted, not the file.
        let mut lines = ended.stdout.lines();
        let mkfs = lines.find(|line| line.starts_with("  mkfs.ext4")).unwrap();
        assert!(mkfs.ends_with(" /dev/loopNp1"), "{mkfs}");
        place.tune("image", &["--dry-run", "--confirm", "image"]).said(0, &[]);
    });
    let PlainLoop { node, .. } = &PlainLoop::attach(&image, 512, &[]);
    unchanged(&image, || {
        let ended = place.tune(node, &["--dry-run"]);
        ended.said(0, &[]);
        assert!(ended.stdout.contains(&format!("{node}p1")), "{}", ended.stdout);
    });
    place.tune(&place.card(), &["--dry-run"]).said(0, &[]);
    assert!(!place.path("run").exists(), "a run directory was made");
}

#[test]
fn a_dry_run_reports_refusals_with_the_reason() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let device = PlainLoop::attach(&image, 512, &[]);
    // The image is in use while it is attached.
    crate::apply::plan(&place, "image", &["--fs", "ext4"]);
    let would = [
        &["tune", "image", "--config", "short.toml", "--dir", "run", "--dry-run"][..],
        &["apply", "plan.json", "image", "--dry-run"],
        &["probe", "image", "--write", "--dry-run"],
        &["plan", "image", "--fs", "ext4"],
    ];
    for args in would {
        let ended = place.flashfit(args);
        ended.said(0, &[]);
        let wanted = format!("is part of {}", device.name);
        refused_first(&ended, args, &wanted);
    }
    drop(device);
    let free = place.flashfit(would[0]);
    assert!(!free.stdout.contains("would be refused"), "{}", free.stdout);
}

/// Asserts that the first words are that the device would be refused, and why.
#[track_caller]
fn refused_first(ended: &Ended, args: &[&str], reason: &str) {
    ended.said(0, &[]);
    let told = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.starts_with("This device would be refused: "), "{args:?}: {told}");
    let first = told.split(". ").next().unwrap();
    assert!(first.contains(reason), "{args:?}: {told}");
    let widest = ended.stdout.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{args:?}: {}", ended.stdout);
}

/// The disk with the running system's `/`; `None` where that is not on one block device.
fn root_disk() -> Option<String> {
    let system = SystemRoots::default();
    let root = mountinfo::at(Path::new("/")).ok()??;
    let node = format!("/dev/{}", system.whole_disk(&system.name_of(root.device)?));
    Path::new(&node).exists().then_some(node)
}

/// Nobody is told to become root, or anything else, for a disk that is refused anyway. Only dry
/// runs are made as root.
#[test]
fn the_disk_of_the_running_system_is_refused_before_anything_else_is_said() {
    if skip_without_block_devices() {
        return;
    }
    let Some(disk) = root_disk() else {
        let _ = skip(Some("/ is not on a block device".to_owned()));
        return;
    };
    const USER: u32 = 65_534;
    let place = Place::in_memory();
    let home = folder_of_a_user(&place, USER);
    for name in ["short.toml", "card.toml"] {
        std::fs::copy(place.path(name), home.join(name)).unwrap();
    }
    let (plan_file, name) = (home.join("plan.json"), disk.strip_prefix("/dev/").unwrap());
    let plan_file = plan_file.to_str().unwrap();
    let plan = ["plan", &disk, "--fs", "ext4", "--erase-block", "4MiB", "--output", plan_file];
    let reason = format!("{disk} has the running system's /");
    refused_first(&place.flashfit(&plan), &plan, &reason);
    let would = [
        &["tune", &disk, "--config", "short.toml", "--dir", "run", "--dry-run"][..],
        &["apply", plan_file, &disk, "--dry-run"],
        &["probe", &disk, "--write", "--dry-run"],
        &["plan", &disk, "--fs", "ext4"],
    ];
    for args in would {
        refused_first(&place.flashfit(args), args, &reason);
        let Some(ended) = as_user(&place, USER, args) else { return };
        refused_first(&ended, args, &reason);
    }
    let does = [
        &["tune", &disk, "--config", "short.toml", "--confirm", name][..],
        &["tune", &disk, "--config", "short.toml", "--on", "here", "--confirm", name],
        &["apply", plan_file, &disk, "--confirm", name],
        &["probe", &disk, "--write", "--confirm", name],
    ];
    for args in does {
        let Some(ended) = as_user(&place, USER, args) else { return };
        attempted(AttemptKind::TargetInUse, 1);
        let error = ended.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or("");
        let wanted = format!("error: {disk} is in use: ");
        assert!(ended.code == Some(3) && error.starts_with(&wanted), "{args:?}: {ended:#?}");
    }
}
