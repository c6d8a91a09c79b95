//! Disk types of a virtual machine: SD card, eMMC, NVMe, USB.

use serde_json::Value;

use super::vm::{start, wait_for_nothing_left, with_machine};
use crate::fixture::{Ended, FAST_CARD, Place};

const FEW: [&str; 4] = ["--strategy", "random", "--trials", "1"];

/// The content of `run.json`.
fn header(place: &Place) -> Value {
    let text = std::fs::read_to_string(place.path("run/run.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A run with that disk type, on a card whose size is a power of two.
fn run_on(place: &Place, disk: &str) -> Value {
    place.file("card.toml", &FAST_CARD.replace("160MiB", "128MiB"));
    let ended = Ended::of(start(place, &[&["--vm-disk", disk], &FEW[..]].concat()));
    ended.said(0, &[]);
    let trials = place.recorded();
    assert!(trials.iter().all(|trial| trial.contains("\"completed\"")), "{trials:#?}");
    assert!(trials[0].contains("nand_programmed_bytes"), "the card behind it was written to");
    let header = header(place);
    let stand = header["facts"]["stand"].as_str().unwrap();
    assert!(stand.ends_with(&format!(", disk {disk})")), "figures are not mixed: {stand}");
    wait_for_nothing_left(place);
    header
}

#[test]
#[ignore = "full: boots virtual machines"]
fn an_sd_card_in_the_machine_has_its_registers() {
    with_machine(|place| {
        let header = run_on(&place, "sd");
        let device = &header["facts"]["medium"];
        assert_eq!(device["disk"], "mmcblk0", "{device:#}");
        assert_eq!(device["identity"]["cid"].as_str().map(str::len), Some(32), "{device:#}");
        assert!(device["declared_erase_unit"]["bytes"].is_u64(), "{device:#}");
        let warnings = header["warnings"].to_string();
        assert!(warnings.contains("use them to test registers"), "{warnings}");
    });
}

#[test]
#[ignore = "full: boots virtual machines"]
fn an_nvme_disk_is_one_in_the_machine() {
    with_machine(|place| {
        let device = run_on(&place, "nvme")["facts"]["medium"].clone();
        assert_eq!(device["disk"], "nvme0n1", "{device:#}");
    });
}

#[test]
#[ignore = "full: boots virtual machines"]
fn a_usb_stick_is_one_in_the_machine() {
    with_machine(|place| {
        place.file("vm.toml", "vm_disk = \"usb\"\non = \"vm\"\n");
        let device = run_on(&place, "usb")["facts"]["medium"].clone();
        assert_eq!(device["disk"], "sda", "{device:#}");
    });
}

#[test]
#[ignore = "full: boots virtual machines"]
fn impossible_disk_types_are_refused_before_the_start() {
    with_machine(|place| {
        let card = place.card();
        place.tune(&card, &["--on", "vm", "--vm-disk", "mmc"]).said(2, &["unknown disk `mmc`"]);
        place.tune(&card, &["--on", "here", "--vm-disk", "sd"]).said(2, &["virtual machine only"]);
        let ended = place.tune(&card, &["--on", "vm", "--vm-disk", "sd"]);
        ended.said(2, &["power of two", "hint: "]);
        let counted = ["--on", "vm", "--vm-disk", "nvme", "--vm-speed-mips", "500"];
        place.tune(&card, &counted).said(2, &["omit --vm-disk or --vm-speed-mips"]);
        assert!(!place.path("run").exists());
        wait_for_nothing_left(&place);
    });
}

#[test]
#[ignore = "full: boots virtual machines"]
fn an_emmc_needs_a_recent_qemu() {
    with_machine(|place| {
        let qemu = format!("qemu-system-{}", std::env::consts::ARCH);
        let listed = std::process::Command::new(qemu).args(["-device", "help"]).output().unwrap();
        if String::from_utf8_lossy(&listed.stdout).contains("name \"emmc\"") {
            let device = run_on(&place, "emmc")["facts"]["medium"].clone();
            assert_eq!(device["disk"], "mmcblk0", "{device:#}");
            return;
        }
        let ended = Ended::of(start(&place, &["--vm-disk", "emmc"]));
        ended.said(4, &["has no device `emmc`", "QEMU 10.2 or later"]);
        assert!(!place.path("run").exists());
    });
}

#[test]
#[ignore = "full: boots virtual machines"]
fn the_disk_type_is_read_from_a_configuration() {
    with_machine(|place| {
        let short = std::fs::read_to_string(place.path("short.toml")).unwrap();
        place.file("short.toml", &format!("on = \"vm\"\nvm_disk = \"nvme\"\n{short}"));
        let ended = place.tune(&place.card(), &["--dry-run"]);
        ended.said(0, &[]);
        assert!(ended.stdout.contains("which sees the device as nvme"), "{}", ended.stdout);
        place.file("short.toml", &format!("vm_disk = \"floppy\"\n{short}"));
        place.tune(&place.card(), &[]).said(2, &["short.toml:1", "floppy"]);
    });
}
