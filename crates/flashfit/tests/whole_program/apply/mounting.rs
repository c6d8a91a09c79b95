//! What `apply` says of a setup: its risk at a power cut before, and how it is mounted after.

use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_option_probe::kernel;
use serde_json::Value;

use super::{apply, flashfit, plan, read};
use crate::fixture::{Ended, Place, skip_without_block_devices};
use crate::machine::{PlainLoop, wait_for_no_traces};

const RISKY: [&str; 8] = [
    "--fs",
    "ext4",
    "--options",
    "nobarrier,noatime",
    "--scheduler",
    "none",
    "--allow",
    "may-corrupt",
];
const RISK: &str = "warning: at a power cut: may-corrupt. nobarrier: A power cut loses";

#[track_caller]
fn has_risk(text: &str) {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(RISK), "{text}");
}

fn dry_run(place: &Place, source: &str, more: &[&str]) -> Ended {
    flashfit(place, &[&["apply", source, "image", "--dry-run"], more].concat())
}

fn risk_of(document: &Value) -> Option<&str> {
    document.get("at_power_cut").map(|risk| risk.as_str().unwrap())
}

#[test]
fn the_risk_of_a_plan_is_shown_before_it_is_applied() {
    let place = Place::new();
    place.image("image", 64);
    plan(&place, "image", &RISKY);
    has_risk(&dry_run(&place, "plan.json", &[]).stdout);
    let document = dry_run(&place, "plan.json", &["--json"]).document("flashfit.would-apply");
    assert!(risk_of(&document).unwrap().starts_with("may-corrupt. nobarrier:"), "{document:#}");
    flashfit(&place, &["plan", "image", "--fs", "ext4", "--output", "safe.json"]).said(0, &[]);
    let safe = dry_run(&place, "safe.json", &[]).stdout;
    assert!(!safe.contains("power cut"), "{safe}");
    let document = dry_run(&place, "safe.json", &["--json"]).document("flashfit.would-apply");
    assert_eq!(risk_of(&document), None, "{document:#}");
}

#[test]
fn the_risk_of_a_run_is_shown_before_it_is_applied() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    place.image("image", 64);
    let short = read(place.path("short.toml")).replace("\"nobarrier\"", "\"noatime\"");
    place.file("short.toml", &format!("{short}always = [\"nobarrier\"]\n"));
    place.tune("image", &["--allow", "may-corrupt", "--confirm", "image"]).said(0, &[]);
    has_risk(&dry_run(&place, "run", &[]).stdout);
    let agreed = ["apply", "run", "image", "--confirm", "image", "--backup"];
    let done = flashfit(&place, &[&agreed[..], &["one"]].concat());
    has_risk(&done.stderr);
    assert!(done.stdout.contains("To mount it now, as root:"), "{}", done.stdout);
    let document = flashfit(&place, &[&agreed[..], &["two", "--json"]].concat());
    let document = document.document("flashfit.applied");
    assert!(risk_of(&document).unwrap().starts_with("may-corrupt."), "{document:#}");
    wait_for_no_traces(&place, None);
}

/// The printed commands mount an image with the options of the setup, in a mount namespace that
/// ends with the test.
#[test]
fn the_printed_commands_mount_an_image() {
    if skip_without_block_devices() {
        return;
    }
    for start in ["1MiB", "whole"] {
        let place = Place::in_memory();
        place.image("image", 64);
        let point = place.arg("here");
        plan(&place, "image", &[&RISKY[..], &["--start", start, "--mount-point", &point]].concat());
        let done = apply(&place, &[]).stdout;
        let commands = done.split_once("To mount it now, as root:\n").expect(&done).1;
        let commands: Vec<&str> =
            commands.lines().take_while(|line| line.starts_with("  ")).collect();
        let script = format!("set -e\n{}\ncat /proc/self/mounts", commands.join("\n"));
        let program = Program::new("unshare").args(["--mount", "sh", "-c", &script]);
        let mounts = SystemRunner::default().run_checked(&program).unwrap().stdout;
        let line = mounts.lines().find(|line| line.contains(&point)).expect(&mounts);
        assert!(line.contains("noatime") && line.contains("nobarrier"), "{line}");
        let fstab = format!(" {point} ext4 noatime,nobarrier,nofail 0 2\n");
        assert!(done.contains("Line for /etc/fstab") && done.contains(&fstab), "{done}");
        assert!(!done.contains("YOUR-UUID"), "{done}");
        assert!(done.contains("ATTR{queue/scheduler}=\"none\""), "{done}");
        wait_for_no_traces(&place, None);
    }
}

#[test]
fn a_device_is_mounted_by_its_uuid_and_installed_lines_are_not_repeated() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    std::fs::create_dir_all(place.path("root/etc")).unwrap();
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
    plan(&place, node, &RISKY);
    let apply = |more: &[&str]| {
        let args = ["apply", "plan.json", node.as_str(), "--confirm", name.as_str()];
        let done = flashfit(&place, &[&args[..], more].concat());
        done.said(0, &[]);
        done.stdout
    };
    let done = apply(&["--backup", "one"]);
    assert!(done.contains("mount -t ext4 -o noatime,nobarrier UUID="), "{done}");
    assert!(done.contains(&format!("KERNEL==\"{name}\"")), "{done}");
    let done = apply(&["--backup", "two", "--install", "--root", "root"]);
    assert!(done.contains("To mount it now"), "{done}");
    assert!(!done.contains("/etc/fstab ("), "{done}");
    // That system may have another name for the device.
    assert!(!done.contains("(--install") && done.contains("KERNEL==\"YOUR-CARD\""), "{done}");
}

#[test]
fn a_file_system_that_this_kernel_lacks_is_named_before_it_is_made() {
    let place = Place::in_memory();
    place.image("image", 128);
    for kind in ["f2fs", "ext4"] {
        let file = format!("{kind}.json");
        flashfit(&place, &["plan", "image", "--fs", kind, "--output", &file]).said(0, &[]);
        let shown = dry_run(&place, &file, &[]).stdout.replace('\n', " ");
        let is_named = shown.contains(&format!("This kernel has no {kind}"));
        assert_eq!(is_named, !kernel::has(kind), "{shown}");
    }
}
