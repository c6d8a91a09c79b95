//! `apply` creates what was planned, and `restore` removes it.

use std::path::{Path, PathBuf};

use flashfit_host::{Program, Runner, SystemRunner};

use super::{END, apply, ends, flashfit, plan, read};
use crate::fixture::{FLASHFIT, Place, skip_without_block_devices};
use crate::machine::{PlainLoop, wait_for_no_traces};
use flashfit_test_support::{TestNeed, skip, skip_part};

/// Applies a plan, checks the result, and restores.
fn there_and_back(filesystem: &str, mib: u64, more: &[&str]) {
    let place = Place::in_memory();
    let image = place.image("image", mib);
    let before = ends(&image);
    plan(&place, "image", &[&["--fs", filesystem, "--label", "CARD-1"], more].concat());
    let done = apply(&place, &["--json"]).document("flashfit.applied");
    assert_eq!(done["plan"]["setup"]["filesystem"], filesystem);
    let told = done["verified"]["as_planned"].as_array().unwrap();
    let compared = told.iter().chain(done["verified"]["not_told"].as_array().unwrap());
    assert!(compared.count() > 0, "nothing was compared: {done}");
    assert!(told.iter().any(|fact| fact == "label CARD-1"), "{done}");
    assert!(done["verified"]["uuid"].is_string(), "{done}");
    assert!(ends(&image) != before, "nothing was made");
    let again = apply(&place, &[]);
    again.said(2, &["saved is not empty"]);
    let back = ["restore", "saved", "image", "--confirm", "image"];
    let would = flashfit(&place, &["restore", "saved", "image", "--dry-run", "--json"]);
    assert_eq!(would.document("flashfit.restored")["done"], false);
    assert!(ends(&image) != before, "a dry run restored it");
    flashfit(&place, &["restore", "saved", "image"]).said(3, &["confirmation is missing"]);
    let restored = flashfit(&place, &back);
    restored.said(0, &["file contents that were overwritten"]);
    assert!(ends(&image) == before, "{filesystem}: the ends are not as they were");
    wait_for_no_traces(&place, None);
}

#[test]
fn every_file_system_can_be_applied_and_restored() {
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
        if skip_part(flashfit_test_support::program(&program)) {
            continue;
        }
        there_and_back(filesystem, mib, more);
    }
}

#[test]
fn partitions_of_an_earlier_table_are_forgotten() {
    if skip_without_block_devices() {
        return;
    }
    for filesystem in ["ext4", "btrfs", "xfs", "fat32", "exfat", "f2fs"] {
        let kind = if filesystem == "fat32" { "fat" } else { filesystem };
        if skip_part(flashfit_test_support::program(&format!("mkfs.{kind}"))) {
            continue;
        }
        let place = Place::in_memory();
        let image = place.image("image", 1024);
        let table = "label: gpt\nstart=2048, size=65536\nstart=73728, size=40960\n";
        let sfdisk = Program::new("sfdisk").args(["--quiet", "--no-tell-kernel"]).arg(&image);
        SystemRunner::default().run_checked(&sfdisk.stdin(table)).unwrap();
        let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
        // For kernels without support for this partition table.
        let tell = Program::new("partx").args(["--update", node]);
        SystemRunner::default().run_checked(&tell).unwrap();
        let shown = |number| Path::new("/sys/block").join(name).join(format!("{name}p{number}"));
        assert!(shown(1).exists() && shown(2).exists());
        plan(&place, node, &["--fs", filesystem, "--table", "none"]);
        let args = ["apply", "plan.json", node, "--confirm", name, "--backup", "saved"];
        flashfit(&place, &args).said(0, &["  partx --delete"]);
        assert!(!shown(1).exists() && !shown(2).exists(), "{filesystem}");
        let checked = flashfit(&place, &["check", node]).stdout;
        let kind = if filesystem == "fat32" { "vfat" } else { filesystem };
        assert!(checked.contains(&format!("  {node}: 1 GiB, {kind}\n")), "{checked}");
        assert!(!checked.contains(": table"), "{checked}");
        flashfit(&place, &["restore", "saved", node, "--confirm", name]).said(0, &[]);
        assert!(shown(1).exists() && shown(2).exists(), "{filesystem}: restored");
    }
}

#[test]
fn the_result_of_a_run_is_applied_to_its_device() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    place.tune("image", &["--confirm", "image"]).said(0, &[]);
    let args = ["apply", "run", "image", "--confirm", "image", "--backup", "saved", "--json"];
    let done = flashfit(&place, &args).document("flashfit.applied");
    assert_eq!(done["plan"]["setup"]["filesystem"], "ext4");
    std::fs::File::options().write(true).open(&image).unwrap().set_len(65 << 20).unwrap();
    let other = ["apply", "run", "image", "--confirm", "image", "--backup", "other"];
    flashfit(&place, &other).said(3, &["not the device of the plan"]);
}

#[test]
fn a_partition_is_recreated_and_others_are_not_touched() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    let table = "label: dos\nstart=8192, size=65536\nstart=73728, size=40960\n";
    let sfdisk = Program::new("sfdisk").arg("--quiet").arg(&image);
    SystemRunner::default().run_checked(&sfdisk.stdin(table)).unwrap();
    let before = std::fs::read(&image).unwrap();
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
    // For kernels without support for this partition table.
    let tell = Program::new("partx").args(["--update", node]);
    SystemRunner::default().run_checked(&tell).unwrap();
    let (node, name) = (&format!("{node}p1"), &format!("{name}p1"));
    plan(&place, node, &["--fs", "ext4", "--scheduler", "none"]);
    let args = ["apply", "plan.json", node, "--confirm", name, "--backup", "saved"];
    let done = flashfit(&place, &args);
    done.said(0, &["in this partition; the partition\ntable is not changed"]);
    assert!(!done.stderr.contains("without a partition table"), "{done:?}");
    assert!(!done.stdout.contains("is mounted"), "{done:?}");
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
fn the_scheduler_is_set_and_restored() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
    let before = scheduler(node);
    let other = if before == "none" { "mq-deadline" } else { "none" };
    plan(&place, node, &["--fs", "ext4", "--scheduler", other]);
    let args = ["apply", "plan.json", node, "--confirm", name, "--backup", "saved"];
    let ended = flashfit(&place, &args);
    let lacks = ended.stderr.contains("the queue offers");
    if skip(lacks.then(|| TestNeed::Kernel.missing(format!("there is no {other}")))) {
        return;
    }
    ended.said(0, &[]);
    assert_eq!(scheduler(node), other);
    flashfit(&place, &["restore", "saved", node, "--confirm", name]).said(0, &[]);
    assert_eq!(scheduler(node), before);
}

/// In its own mount namespace, which ends with the test.
#[test]
fn the_file_system_stays_mounted_on_request() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    place.image("image", 64);
    plan(&place, "image", &["--fs", "ext4"]);
    std::fs::create_dir(place.path("point")).unwrap();
    let script = format!(
        "cd {} && {1} apply plan.json image --confirm image --backup saved --mount-point point && \
         echo hello > point/file && umount point && {1} apply plan.json image --backup saved \
         --confirm image --mount-point nowhere",
        place.folder().display(),
        FLASHFIT,
    );
    let program = Program::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .env("FLASHFIT_STATE_DIR", place.arg("state"));
    let outcome = SystemRunner::default().run(&program).unwrap();
    assert!(outcome.stdout.contains("It is mounted on"), "{outcome:?}");
    assert!(outcome.stderr.contains("there is no directory nowhere"), "{outcome:?}");
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    let place_on_it = format!("{}?offset={}", place.arg("image"), 1 << 20);
    let found = Program::new("debugfs").args(["-R", "cat /file", &place_on_it]);
    let found = SystemRunner::default().run(&found).unwrap();
    assert_eq!(found.stdout, "hello\n", "{found:?}");
}

/// The sectors that were read from a disk (the kernel's Documentation/block/stat.rst).
fn sectors_read(disk: &str) -> u64 {
    let text = read(format!("/sys/block/{disk}/stat").into());
    text.split_whitespace().nth(2).unwrap().parse().unwrap()
}

#[test]
fn what_is_restored_is_read_back_from_the_device() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let device = PlainLoop::attach(&place.image("image", 64), 512, &[]);
    let (node, name) = (device.node.as_str(), device.name.as_str());
    plan(&place, node, &["--fs", "ext4"]);
    let made = ["apply", "plan.json", node, "--confirm", name, "--backup", "saved"];
    flashfit(&place, &made).said(0, &[]);
    let before = sectors_read(name);
    flashfit(&place, &["restore", "saved", node, "--confirm", name]).said(0, &[]);
    let read_back = (sectors_read(name) - before) * 512;
    assert!(read_back >= 2 * END as u64, "only {read_back} bytes were read");
}
