//! A directory packed into an image: on the device, in fstab, after an interruption, and refused.

use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{program, skip};
use rustix::process::Signal;

use super::cut_short::slow_program;
use super::{apply, command, ends, flashfit, plan, read};
use crate::fixture::{Ended, Place, skip_without_block_devices, wait_until};
use crate::machine::{signal, wait_for_no_traces};

fn cannot_run() -> bool {
    let programs = ["mksquashfs", "unsquashfs", "debugfs"];
    skip_without_block_devices() || skip(programs.into_iter().find_map(program))
}

/// A place with a directory to pack and a plan for an image on the whole device.
fn place_with_plan() -> Place {
    let place = Place::in_memory();
    place.image("image", 64);
    std::fs::create_dir_all(place.path("system/etc")).unwrap();
    place.file("system/etc/motd", "hello");
    plan(&place, "image", &["--fs", "squashfs", "--host", "ext4", "--start", "whole"]);
    place
}

/// The names in the image that was packed.
fn packed(place: &Place) -> String {
    let copy = place.path("copy.squashfs");
    let dump = format!("dump /system.squashfs {}", copy.display());
    let run = |program: Program| SystemRunner::default().run_checked(&program).unwrap().stdout;
    run(Program::new("debugfs").args(["-R", &dump]).arg(place.path("image")));
    run(Program::new("unsquashfs").args(["-l"]).arg(copy))
}

#[test]
fn a_directory_is_packed_and_its_layers_are_installed() {
    if cannot_run() {
        return;
    }
    let place = place_with_plan();
    let before = ends(&place.path("image"));
    std::fs::create_dir_all(place.path("root/etc")).unwrap();
    let done = apply(&place, &["--from", "system", "--install", "--root", "root"]);
    done.said(0, &["mksquashfs", "is packed into the image system.squashfs"]);
    assert!(done.stdout.contains("mount -t overlay"), "{}", done.stdout);
    assert!(!done.stderr.contains("Only you know"), "{}", done.stderr);
    assert!(packed(&place).contains("squashfs-root/etc/motd"), "{}", packed(&place));
    let fstab = read(place.path("root/etc/fstab"));
    assert!(fstab.contains("/mnt/flash/system.squashfs /mnt/flash/lower squashfs"), "{fstab}");
    assert!(fstab.contains("overlay /mnt/flash/merged overlay lowerdir="), "{fstab}");
    flashfit(&place, &["restore", "saved", "image", "--confirm", "image"]).said(0, &[]);
    assert!(ends(&place.path("image")) == before, "the ends are not as they were");
    wait_for_no_traces(&place, None);
}

#[test]
fn an_interrupt_while_packing_can_be_continued() {
    if cannot_run() {
        return;
    }
    let place = place_with_plan();
    let path = slow_program(&place, "mksquashfs");
    let args = ["apply", "plan.json", "image", "--confirm", "image", "--from", "system"];
    let child = command(&place, &args).env("FLASHFIT_PATH", path).spawn().unwrap();
    wait_until("mksquashfs has begun", || place.path("begun").exists());
    signal(child.id(), Signal::INT);
    let go_on = format!("--from {}", place.arg("system"));
    Ended::of(child).said(6, &["while making the file system", &go_on]);
    wait_for_no_traces(&place, None);
    flashfit(&place, &args).said(0, &["continuing an interrupted apply"]);
    assert!(packed(&place).contains("squashfs-root/etc/motd"), "{}", packed(&place));
    wait_for_no_traces(&place, None);
}

#[test]
fn a_directory_is_refused_where_nothing_is_packed() {
    let place = Place::new();
    let image = place.image("image", 64);
    let before = std::fs::read(&image).unwrap();
    place.file("a-file", "");
    let refused = |from: &[&str], texts: &[&str]| {
        flashfit(&place, &[&["apply", "plan.json", "image", "--dry-run"], from].concat())
            .said(2, texts);
    };
    plan(&place, "image", &["--fs", "squashfs"]);
    refused(&[], &["none is named", "--from DIRECTORY"]);
    refused(&["--from", "a-file"], &["there is no directory a-file to pack"]);
    plan(&place, "image", &["--fs", "ext4"]);
    refused(&["--from", "/etc"], &["ext4 is not packed from a directory"]);
    assert!(std::fs::read(&image).unwrap() == before, "the image was written to");
}
