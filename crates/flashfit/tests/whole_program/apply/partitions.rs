//! Labels and a second partition: planned, made, shown, continued after an interruption, restored.

use flashfit_host::{Program, Runner, SystemRunner};
use rustix::process::Signal;

use super::cut_short::slow_program;
use super::{apply, command, ends, flashfit, plan, read};
use crate::fixture::{Ended, Place, skip_without_block_devices, wait_until};
use crate::machine::{PlainLoop, signal, wait_for_no_traces};

fn table(place: &Place) -> String {
    let dump = Program::new("sfdisk").arg("--dump").arg(place.path("image"));
    SystemRunner::default().run_checked(&dump).unwrap().stdout
}

#[test]
fn a_label_and_swap_space_are_made_installed_and_restored() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    let before = ends(&image);
    std::fs::create_dir_all(place.path("root/etc")).unwrap();
    plan(&place, "image", &["--fs", "ext4", "--label", "rootfs", "--second", "swap:8000KiB"]);
    let done = apply(&place, &["--install", "--root", "root", "--json"]);
    let done = done.document("flashfit.applied");
    let partitions = &done["plan"]["partitions"];
    let [first, second] = [0, 1].map(|index| &partitions[index]);
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    assert_eq!(number(&second["start_bytes"]) % (1 << 20), 0);
    assert_eq!(number(&second["size_bytes"]), 8 << 20);
    let end = number(&first["start_bytes"]) + number(&first["size_bytes"]);
    assert_eq!(end, number(&second["start_bytes"]));
    let verified = done["verified"]["as_planned"].to_string();
    assert!(verified.contains("label rootfs"), "{verified}");
    assert!(verified.contains("swap in the second partition"), "{verified}");
    assert!(table(&place).contains("name=\"rootfs\""), "{}", table(&place));
    let uuid = done["verified"]["second_uuid"].as_str().unwrap();
    let fstab = read(place.path("root/etc/fstab"));
    assert!(fstab.contains(&format!("\nUUID={uuid} none swap sw,nofail 0 0\n")), "{fstab}");
    let checked = flashfit(&place, &["check", "image"]);
    assert!(checked.stdout.contains("8 MiB, swap"), "{}", checked.stdout);
    // Swap space is not changed like a file system.
    let keep = ["apply", "--keep-data", "image", "--root", "root", "--dry-run", "--json"];
    let would = flashfit(&place, &keep).document("flashfit.would-improve").to_string();
    assert!(!would.contains("swap"), "{would}");
    flashfit(&place, &["restore", "saved", "image", "--confirm", "image"]).said(0, &[]);
    assert!(ends(&image) == before, "the ends are not as they were");
    wait_for_no_traces(&place, None);
}

#[test]
fn a_second_file_system_in_an_mbr() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    place.image("image", 64);
    let more = ["--fs", "ext2", "--table", "mbr", "--second", "ext4:20MiB:/srv/data"];
    plan(&place, "image", &more);
    let done = apply(&place, &["--json"]).document("flashfit.applied");
    assert_eq!(done["plan"]["second"]["kind"], "ext4");
    let line = done["plan"]["second"]["fstab_line"].as_str().unwrap();
    assert_eq!(line, "UUID=YOUR-SECOND-UUID /srv/data ext4 noatime,nofail 0 2");
    let table = table(&place);
    assert!(table.contains("label: dos") && table.matches("type=83").count() == 2, "{table}");
}

#[test]
fn a_runs_recommendation_gets_a_label_and_a_second_partition() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    let before = ends(&image);
    // Ends off the grid of 8 MiB, on which the second partition starts.
    place.tune("image", &["--confirm", "image", "--erase-block", "8MiB"]).said(0, &[]);
    let before_apply = ends(&image);
    assert!(before_apply != before, "trials partition the device");
    let more = ["--label", "rootfs", "--second", "swap:9MiB"];
    let wrong = ["apply", "run", "image", "--label", "longer-than-16-bytes", "--dry-run"];
    flashfit(&place, &wrong).said(2, &["the most are 16"]);
    let shown = [&["apply", "run", "image", "--dry-run"], &more[..]].concat();
    let shown = flashfit(&place, &shown);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("mkswap") && shown.stdout.contains("rootfs"), "{shown:?}");
    assert!(ends(&image) == before_apply, "shown only");
    let words = ["apply", "run", "image", "--confirm", "image", "--backup", "saved", "--json"];
    let path = slow_program(&place, "mkswap");
    let args = [&words[..7], &more].concat();
    let child = command(&place, &args).env("FLASHFIT_PATH", path).spawn().unwrap();
    wait_until("mkswap has begun", || place.path("begun").exists());
    signal(child.id(), Signal::INT);
    Ended::of(child).said(6, &["--label rootfs --second swap:9MiB"]);
    let done = flashfit(&place, &[&words[..], &more].concat()).document("flashfit.applied");
    let partitions = &done["plan"]["partitions"];
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    assert_eq!(number(&partitions[1]["start_bytes"]) % (8 << 20), 0, "{partitions:#}");
    assert!(number(&partitions[1]["size_bytes"]) >= 9 << 20, "{partitions:#}");
    let end = number(&partitions[1]["start_bytes"]) + number(&partitions[1]["size_bytes"]);
    assert_eq!(end, 63 << 20, "with the device, but for the copy of the table");
    let verified = done["verified"]["as_planned"].to_string();
    assert!(verified.contains("label rootfs"), "{verified}");
    assert!(verified.contains("swap in the second partition"), "{verified}");
    flashfit(&place, &["restore", "saved", "image", "--confirm", "image"]).said(0, &[]);
    assert!(ends(&image) == before_apply, "the ends are not as they were");
    plan(&place, "image", &["--fs", "ext4"]);
    let of_plan = ["apply", "plan.json", "image", "--label", "x", "--dry-run"];
    flashfit(&place, &of_plan).said(2, &["--label belongs to a run"]);
    wait_for_no_traces(&place, None);
}

/// Each partition as `(start, size)` in sectors, as sfdisk shows them.
fn places(place: &Place) -> Vec<(u64, u64)> {
    let number = |line: &str, name: &str| {
        let value = line.split_once(name).unwrap().1.split(',').next().unwrap();
        value.trim().parse().unwrap()
    };
    let table = table(place);
    let lines = table.lines().filter(|line| line.contains("start="));
    lines.map(|line| (number(line, "start="), number(line, "size="))).collect()
}

#[test]
fn trials_have_the_second_partition_and_apply_makes_it_without_flags() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    place.image("image", 64);
    let more = ["--label", "rootfs", "--second", "swap:8MiB", "--confirm", "image"];
    let shown = place.tune("image", &[&more[..4], &["--dry-run"]].concat());
    assert!(shown.stdout.contains("start=112640, size=16384, type=S"), "{shown:?}");
    place.tune("image", &more).said(0, &["behind it a partition of 8 MiB"]);
    let measured = [(2048, 110_592), (112_640, 16_384)];
    assert_eq!(places(&place), measured);
    let run: serde_json::Value = serde_json::from_str(&read(place.path("run/run.json"))).unwrap();
    assert_eq!(run["facts"]["layout"]["layout"]["partition"]["size_bytes"], 54 << 20);
    assert_eq!(run["facts"]["layout"]["second"]["size_bytes"], 8 << 20);
    assert_eq!(run["spec"]["second"]["content"], "swap");
    assert_eq!(run["spec"]["label"], "rootfs");
    let config = read(place.path("run/config.toml"));
    assert!(config.contains("second = \"swap:8388608\""), "{config}");
    let other = ["tune", "--resume", "run", "--second", "swap:4MiB"];
    place.flashfit(&other).said(2, &["cannot be used with '--second <WHAT:SIZE>'"]);
    place
        .flashfit(&["tune", "--resume", "run", "--repeats", "2", "--confirm", "image"])
        .said(0, &["behind it a partition of 8 MiB"]);
    assert_eq!(places(&place), measured);
    let apply = ["apply", "run", "image", "--confirm", "image", "--backup", "saved", "--json"];
    let done = flashfit(&place, &apply).document("flashfit.applied");
    assert_eq!(places(&place), measured);
    assert!(table(&place).contains("name=\"rootfs\""), "{}", table(&place));
    let verified = done["verified"]["as_planned"].to_string();
    assert!(verified.contains("label rootfs"), "{verified}");
    assert!(verified.contains("swap in the second partition"), "{verified}");
    flashfit(&place, &["restore", "saved", "image", "--confirm", "image"]).said(0, &[]);
    assert!(!table(&place).contains("rootfs"), "{}", table(&place));
    wait_for_no_traces(&place, None);
}

#[test]
fn an_interrupted_run_with_a_second_partition_leaves_nothing() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    let device = PlainLoop::attach(&image, 512, &[]);
    let scheduler = || read(format!("/sys/block/{}/queue/scheduler", device.name).into());
    let before = scheduler();
    let more = ["--second", "ext2:8MiB", "--repeats", "20", "--confirm", &device.name];
    let child = place.command(&place.tune_args(&device.node, &more)).spawn().unwrap();
    place.wait_for_trials(1);
    let second = format!("/sys/block/{0}/{0}p2/size", device.name);
    assert_eq!(read(second.into()), "16384\n");
    signal(child.id(), Signal::INT);
    Ended::of(child).said(6, &[]);
    assert_eq!(scheduler(), before);
    drop(device);
    wait_for_no_traces(&place, None);
}

#[test]
fn an_interrupt_before_the_second_partition_is_made_can_be_continued() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    place.image("image", 64);
    plan(&place, "image", &["--fs", "ext4", "--second", "swap:8MiB"]);
    let path = slow_program(&place, "mkswap");
    let args = ["apply", "plan.json", "image", "--confirm", "image", "--backup", "saved"];
    let child = command(&place, &args).env("FLASHFIT_PATH", path).spawn().unwrap();
    wait_until("mkswap has begun", || place.path("begun").exists());
    signal(child.id(), Signal::INT);
    Ended::of(child).said(6, &["the device is unfinished, while making the file system"]);
    let checked = flashfit(&place, &["check", "image"]);
    assert!(checked.stdout.contains("unfinished"), "{}", checked.stdout);
    let words = ["apply", "plan.json", "image", "--confirm", "image"];
    flashfit(&place, &words).said(0, &["continuing an interrupted apply", "mkswap"]);
    let checked = flashfit(&place, &["check", "image"]);
    assert!(checked.stdout.contains("8 MiB, swap"), "{}", checked.stdout);
    wait_for_no_traces(&place, None);
}

#[test]
fn a_device_with_another_name_takes_a_plan_with_a_second_partition() {
    if skip_without_block_devices() {
        return;
    }
    for second in ["swap:8MiB", "ext4:20MiB:/srv/data"] {
        let place = Place::in_memory();
        let image = place.image("image", 64);
        let device = PlainLoop::attach(&image, 512, &[]);
        plan(&place, &device.node, &["--fs", "ext4", "--second", second]);
        let earlier = device.node.clone();
        drop(device);
        let PlainLoop { node, name } = &PlainLoop::attach_far(311, &image);
        assert_ne!(*node, earlier);
        let args = ["apply", "plan.json", node, "--confirm", name, "--backup", "saved"];
        flashfit(&place, &args).said(0, &[&format!("{node}p2")]);
        // What was edited is refused.
        let text = read(place.path("plan.json"));
        let edited = text.replace(&format!("\"{earlier}p2\""), "\"/dev/sdx2\"");
        assert_ne!(edited, text);
        place.file("plan.json", &edited);
        flashfit(&place, &args).said(3, &["second.commands would be different"]);
    }
}

#[test]
fn impossible_labels_and_second_partitions_are_refused() {
    let place = Place::new();
    place.image("image", 64);
    let wrong = [
        (["--label", "longer-than-16-bytes"], 2, "the most are 16"),
        (["--label", ""], 2, "it is empty"),
        (["--second", "swap"], 2, "swap:SIZE"),
        (["--second", "swap:0"], 2, "has no size"),
        (["--second", "swap:8MiB:/srv"], 2, "swap space is not mounted"),
        (["--second", "swap:1GiB"], 2, "1 GiB do not fit behind"),
        (["--second", "ext5:8MiB"], 2, "unknown file system `ext5`"),
        (["--second", "ext4:8MiB:/mnt/flash"], 2, "the mount point of the first"),
        (["--second", "squashfs:8MiB"], 2, "packed from a directory"),
    ];
    for (flag, code, text) in wrong {
        let args = [&["plan", "image", "--fs", "ext4"], &flag[..]].concat();
        flashfit(&place, &args).said(code, &[text]);
    }
    let wrong = [
        (["--label", "longer-than-16-bytes"], "the most are 16"),
        (["--second", "swap"], "swap:SIZE"),
        (["--second", "ext4:8MiB:/srv"], "a run has no mount point"),
        (["--second", "swap:1GiB"], "1 GiB do not fit behind"),
        (["--second", "squashfs:8MiB"], "packed from a directory"),
        (["--second", "btrfs:8MiB"], "btrfs needs 109 MiB"),
    ];
    for (flag, text) in wrong {
        place.tune("image", &[&flag[..], &["--dry-run"]].concat()).said(2, &[text]);
    }
    let whole = place.tune("image", &["--start", "whole", "--second", "swap:8MiB", "--dry-run"]);
    whole.said(2, &["there is no partition table", "leave --second out"]);
    let whole = ["plan", "image", "--fs", "ext4", "--start", "whole", "--second", "swap:8MiB"];
    flashfit(&place, &whole).said(2, &["there is no partition table", "leave --second out"]);
    let fat = ["plan", "image", "--fs", "fat32", "--allow", "may-corrupt", "--label", "boot"];
    flashfit(&place, &fat).said(2, &["upper-case letters only: BOOT", "another --label"]);
}
