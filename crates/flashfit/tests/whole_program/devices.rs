//! Complete runs on all kinds of devices, which leave nothing behind except a report.

use std::path::Path;

use flashfit_host::{Program, Runner, SystemRunner};

use crate::fixture::{Ended, FAST_CARD, Place, skip_without_block_devices, skip_without_cards};
use crate::machine::{PlainLoop, wait_for_no_traces};

/// Checks a successful run.
#[track_caller]
fn is_complete(place: &Place, ended: &Ended, run: &str) {
    ended.said(0, &[]);
    let recorded = place.recorded();
    assert!(recorded.len() >= 2, "{recorded:?}");
    for line in &recorded {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(record["outcome"]["completed"]["points"].is_array(), "{line}");
    }
    let report = std::fs::read_to_string(place.path(run).join("report.html")).unwrap();
    assert!(report.contains("</html>"));
    for folder in ["mnt", ".flashfit-scratch"] {
        assert!(!place.path(run).join(folder).exists(), "{folder} is left");
    }
}

#[test]
fn a_run_on_an_image_file() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    place.image("image", 64);
    let ended = place.tune("image", &["--confirm", "image"]);
    is_complete(&place, &ended, "run");
    ended.said(0, &["no geometry found", "--erase-block"]);
    assert!(ended.stdout.contains("The geometry of this device is unknown"), "{}", ended.stdout);
    // The loop device is detached; reports must not name another device.
    assert!(ended.stdout.contains("/YOUR-CARD"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("/dev/mmcblk"), "{}", ended.stdout);
    wait_for_no_traces(&place, None);
    // An existing run is not overwritten.
    place
        .tune("image", &["--confirm", "image"])
        .said(2, &["already contains a run", "--resume run"]);
}

#[test]
fn a_node_with_sectors_of_512_bytes() {
    on_a_loop_device(512, "auto");
}

#[test]
fn a_node_with_sectors_of_4096_bytes() {
    on_a_loop_device(4096, "auto");
}

#[test]
fn a_run_on_a_whole_device() {
    on_a_loop_device(4096, "whole");
}

fn on_a_loop_device(sector_bytes: u32, start: &str) {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let device = PlainLoop::attach(&image, sector_bytes, &[]);
    let name = &device.name;
    let before = scheduler(name);
    let ended = place.tune(&device.node, &["--confirm", name, "--start", start]);
    is_complete(&place, &ended, "run");
    ended.said(0, &["no geometry found"]);
    assert!(ended.stdout.contains(&format!(" {}", device.node)), "{}", ended.stdout);
    assert_eq!(scheduler(name), before, "the scheduler was not put back");
    let partition = format!("/sys/block/{name}/{name}p1");
    assert_eq!(Path::new(&partition).exists(), start == "auto");
    drop(device);
    wait_for_no_traces(&place, None);
}

#[test]
fn the_partition_starts_where_the_run_requests_it() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let device = PlainLoop::attach(&image, 512, &[]);
    let sectors = |attribute: &str| {
        let name = &device.name;
        std::fs::read_to_string(format!("/sys/block/{name}/{name}p1/{attribute}")).unwrap()
    };
    for (start, first) in [("1MiB", "2048\n"), ("4MiB", "8192\n"), ("63s", "63\n")] {
        let dir = format!("run-{start}");
        let args =
            ["--confirm", &device.name, "--start", start, "--confirm-rounds", "0", "--dir", &dir];
        let args = [&["tune", &device.node, "--config", "short.toml"], &args[..]].concat();
        place.flashfit(&args).said(0, &[]);
        assert_eq!(sectors("start"), first);
    }
    drop(device);
    wait_for_no_traces(&place, None);
}

/// Trials, the repeated run and what `apply` takes from it have the table that was asked for.
#[test]
fn a_run_in_an_mbr() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    place.tune("image", &["--table", "mbr", "--confirm", "image"]).said(0, &[]);
    let table = || {
        let dump = Program::new("sfdisk").arg("--dump").arg(&image);
        SystemRunner::default().run_checked(&dump).unwrap().stdout
    };
    assert!(table().contains("label: dos"), "{}", table());
    let config = std::fs::read_to_string(place.path("run/config.toml")).unwrap();
    assert!(config.contains("table = \"mbr\""), "{config}");
    place
        .flashfit(&["tune", "--resume", "run", "--table", "gpt"])
        .said(2, &["'--resume <DIR>' cannot be used with '--table <TABLE>'"]);
    let extend = ["tune", "--resume", "run", "--repeats", "2", "--confirm", "image"];
    place.flashfit(&extend).said(0, &[]);
    assert!(table().contains("label: dos"), "{}", table());
    let args = ["apply", "run", "image", "--confirm", "image", "--backup", "saved", "--json"];
    let done = super::apply::flashfit(&place, &args).document("flashfit.applied");
    assert_eq!(done["plan"]["table"], "mbr");
    assert!(table().contains("label: dos"), "{}", table());
    let dry = place.tune("image", &["--table", "mbr", "--start", "whole", "--dry-run"]);
    dry.said(2, &["--start whole and --table contradict each other"]);
}

fn scheduler(name: &str) -> String {
    std::fs::read_to_string(format!("/sys/block/{name}/queue/scheduler")).unwrap()
}

#[test]
fn a_position_within_a_sector_is_refused() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let device = PlainLoop::attach(&image, 4096, &[]);
    let ended = place.tune(&device.node, &["--start", "2049s", "--dry-run"]);
    ended.said(2, &["error: "]);
}

#[test]
fn run_directories_can_have_any_name() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    for name in ["my run: 100% 'done'", "ünï"] {
        let card = place.card();
        let args = ["tune", &card, "--config", "short.toml", "--progress", "never", "--dir", name];
        place.flashfit(&args).said(0, &[]);
        assert!(place.path(name).join("report.html").exists());
        place.flashfit(&["analyze", name]).said(0, &[]);
        place.flashfit(&["tune", "--resume", name, "--progress", "never"]).said(0, &[]);
    }
    wait_for_no_traces(&place, None);
}

#[test]
fn a_run_on_a_partition_uses_only_that() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 96);
    let table = "label: dos\nstart=2048, size=65536\nstart=67584, size=65536\nstart=133120\n";
    let sfdisk = Program::new("sfdisk").arg("-q").arg(&image).stdin(table);
    SystemRunner::default().run_checked(&sfdisk).unwrap();
    let mut bytes = std::fs::read(&image).unwrap();
    let second = (67_584 * 512)..(133_120 * 512);
    bytes[2048 * 512..second.start].fill(0x11);
    bytes[second.end..].fill(0x33);
    std::fs::write(&image, &bytes).unwrap();
    let device = PlainLoop::attach(&image, 512, &[]);
    // For kernels without support for this partition table.
    let partx = Program::new("partx").args(["--update", &device.node]);
    SystemRunner::default().run_checked(&partx).unwrap();
    let (node, name) = (format!("{}p2", device.node), format!("{}p2", device.name));
    place.tune(&node, &["--confirm", &device.name]).said(3, &["add --confirm"]);
    let all = ["--fs", "ext4,f2fs", "--align-end", "--dry-run"];
    for wrong in [&["--align-end", "--dry-run"][..], &all, &["--second", "swap:8MiB"]] {
        place.tune(&node, wrong).said(2, &["is a partition", "--align-end and --second out"]);
    }
    place.file("end.toml", "align_end = true\n");
    let of_file = ["tune", &node, "--config", "end.toml", "--fs", "ext4", "--dry-run"];
    place.flashfit(&of_file).said(2, &["is a partition"]);
    let ended = place.tune(&node, &["--confirm", &name]);
    is_complete(&place, &ended, "run");
    drop(device);
    let after = std::fs::read(&image).unwrap();
    assert!(after[..second.start] == bytes[..second.start], "what is before it was written to");
    assert!(after[second.end..] == bytes[second.end..], "what is behind it was written to");
    assert!(after[second.clone()] != bytes[second], "it was not written to");
    wait_for_no_traces(&place, None);
}

#[test]
fn results_of_a_simulated_card_are_marked() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let ended = place.tune(&place.card(), &[]);
    is_complete(&place, &ended, "run");
    ended.said(0, &["erase block 1 MiB (from the card model)"]);
    assert!(ended.stdout.contains("SIMULATED CARD"), "{}", ended.stdout);
    let report = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(report.to_lowercase().contains("simulated"));
    wait_for_no_traces(&place, None);
}

#[test]
fn a_simulated_card_with_sectors_of_4096_bytes() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.file("card.toml", &FAST_CARD.replace("sector_bytes = 512", "sector_bytes = 4096"));
    let ended = place.tune(&place.card(), &[]);
    is_complete(&place, &ended, "run");
    wait_for_no_traces(&place, None);
}
