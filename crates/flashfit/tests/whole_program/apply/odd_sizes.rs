//! Images whose size is not a multiple of a sector: a loop device over one is smaller than the
//! file.

use std::path::Path;

use flashfit_host::{Program, Runner, SystemRunner};

use super::cut_short::slow_program;
use super::{apply, command, ends, flashfit, plan};
use crate::fixture::{Place, skip_without_block_devices, wait_until};
use crate::machine::wait_for_no_traces;

/// One larger than both ends of a backup, and one that is saved as a whole.
const SIZES: [u64; 2] = [20_000_100, 8_388_609];
const BACK: [&str; 5] = ["restore", "saved", "image", "--confirm", "image"];

fn resize(image: &Path, bytes: u64) {
    std::fs::File::options().write(true).open(image).unwrap().set_len(bytes).unwrap();
}

#[test]
fn an_image_of_any_size_is_applied_continued_and_restored() {
    if skip_without_block_devices() {
        return;
    }
    for bytes in SIZES {
        let place = Place::in_memory();
        let image = place.image("image", 20);
        resize(&image, bytes);
        let before = ends(&image);
        plan(&place, "image", &["--fs", "ext4", "--table", "none"]);
        apply(&place, &[]).said(0, &[]);
        assert!(ends(&image) != before);
        flashfit(&place, &BACK).said(0, &[]);
        assert!(ends(&image) == before, "{bytes} bytes: the ends are not as they were");
        std::fs::remove_dir_all(place.path("saved")).unwrap();
        // Killed in the middle.
        let path = slow_program(&place, "mkfs.ext4");
        let args = ["apply", "plan.json", "image", "--confirm", "image", "--backup", "saved"];
        let mut child = command(&place, &args).env("FLASHFIT_PATH", path).spawn().unwrap();
        wait_until("mkfs has begun", || place.path("begun").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(place.path("slow/wait")).unwrap();
        wait_for_no_traces(&place, None);
        let checked = flashfit(&place, &["check", "image"]);
        assert!(checked.stdout.contains("unfinished"), "{bytes} bytes: {checked:#?}");
        apply(&place, &[]).said(0, &["continuing an interrupted apply"]);
        flashfit(&place, &BACK).said(0, &[]);
        assert!(ends(&image) == before, "{bytes} bytes: the ends are not as they were");
        // A copy of it, by name.
        std::fs::create_dir(place.path("copies")).unwrap();
        std::fs::copy(&image, place.path("copies/image")).unwrap();
        let to_copy = ["restore", "saved", "copies/image", "--confirm", "image", "--to-copy"];
        flashfit(&place, &to_copy).said(0, &[]);
        assert!(ends(&place.path("copies/image")) == before);
        wait_for_no_traces(&place, None);
    }
}

#[test]
fn the_settings_of_an_image_of_any_size_are_changed_continued_and_restored() {
    if skip_without_block_devices() {
        return;
    }
    for bytes in SIZES {
        let place = Place::in_memory();
        let image = place.image("image", 20);
        resize(&image, bytes);
        let mkfs = Program::new("mkfs.ext4").args(["-q", "-F", "-O", "has_journal"]).arg(&image);
        SystemRunner::default().run_checked(&mkfs).unwrap();
        let call = ["apply", "--keep-data", "image", "--with", "ext4:nojournal", "--confirm"];
        let call = [&call[..], &["image", "--backup", "saved"]].concat();
        let path = slow_program(&place, "tune2fs");
        let mut child = command(&place, &call).env("FLASHFIT_PATH", path).spawn().unwrap();
        wait_until("tune2fs has begun", || place.path("begun").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(place.path("slow/wait")).unwrap();
        wait_for_no_traces(&place, None);
        let checked = flashfit(&place, &["check", "image"]);
        assert!(checked.stdout.contains("an interrupted change"), "{bytes} bytes: {checked:#?}");
        flashfit(&place, &call).said(0, &["Continuing: "]);
        assert!(!has_journal(&image), "{bytes} bytes");
        flashfit(&place, &BACK).said(0, &[]);
        assert!(has_journal(&image), "{bytes} bytes");
        let checked = flashfit(&place, &["check", "image"]);
        assert!(!checked.stdout.contains("interrupted"), "{bytes} bytes: {checked:#?}");
        wait_for_no_traces(&place, None);
    }
}

fn has_journal(image: &Path) -> bool {
    let dump = Program::new("dumpe2fs").arg("-h").arg(image);
    SystemRunner::default().run_checked(&dump).unwrap().stdout.contains("has_journal")
}
