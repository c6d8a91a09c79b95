//! What the machine lacks: exit code 4, and what to install or do.

use std::path::{Path, PathBuf};

use flashfit_host::program::find;
use flashfit_host::{Program, Runner, SystemRunner};

use crate::fixture::{FLASHFIT, Place, skip, skip_without_block_devices, skip_without_cards};

/// Programs that a run uses.
const PROGRAMS: [&str; 8] =
    ["fio", "mount", "mkfs.ext4", "tune2fs", "sfdisk", "blkdiscard", "partx", "blkid"];

/// A folder with links to all programs but `missing`; the only one in the path.
fn tools_without(place: &Place, missing: &str) -> PathBuf {
    let folder = place.path("tools");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    for name in PROGRAMS.iter().filter(|name| **name != missing) {
        if let Some(program) = find(name) {
            std::os::unix::fs::symlink(program, folder.join(name)).unwrap();
        }
    }
    folder
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let before = std::fs::read(&image).unwrap();
    let packages = [
        ("fio", "fio"),
        ("mkfs.ext4", "e2fsprogs"),
        ("sfdisk", "fdisk"),
        ("mount", "mount"),
        ("blkdiscard", "util-linux"),
    ];
    for (program, package) in packages {
        let tools = tools_without(&place, program);
        let mut command = place.command(&place.tune_args("image", &["--confirm", "image"]));
        let ended = crate::fixture::Ended::new(command.env("PATH", &tools).output().unwrap());
        let hint = format!("hint: apt-get install {package}");
        ended.said(4, &[&format!("the program `{program}` was not found"), &hint]);
        assert!(!place.path("run").exists(), "a run was begun without {program}");
    }
    assert!(std::fs::read(&image).unwrap() == before, "the image was written to");
}

#[test]
fn a_file_system_whose_program_is_missing_is_left_out_of_several() {
    let place = Place::new();
    place.image("image", 256);
    let tools = tools_without(&place, "mkfs.btrfs");
    let mut command = place.command(&["tune", "image", "--dry-run", "--fs", "ext4,btrfs"]);
    let ended = crate::fixture::Ended::new(command.env("PATH", &tools).output().unwrap());
    if skip(find("mkfs.ext4").is_none().then(|| "there is no mkfs.ext4".to_owned())) {
        return;
    }
    ended.said(0, &[]);
    let reason = "btrfs is left out: the program `mkfs.btrfs` was not found";
    assert!(ended.stdout.contains(reason), "{}", ended.stdout);
}

#[test]
fn an_ordinary_users_path_leads_to_the_administrators_programs() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    place.image("image", 64);
    let args = ["tune", "image", "--dry-run", "--fs", "ext4"];
    let ended = place.command(&args).env("PATH", "/usr/bin:/bin").output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

/// Runs the command as a user without rights.
fn as_nobody(args: &[&str]) -> Option<flashfit_host::Outcome> {
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", FLASHFIT];
    let program = Program::new("setpriv").args(nobody).args(args.iter().copied());
    let outcome = SystemRunner::default().run(&program).ok()?;
    // setpriv's own codes for a program that it cannot run.
    (!matches!(outcome.code, Some(126 | 127))).then_some(outcome)
}

#[test]
fn without_rights_it_says_what_it_needs_them_for() {
    use std::os::unix::fs::PermissionsExt;
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    std::fs::set_permissions(place.folder(), PermissionsExt::from_mode(0o777)).unwrap();
    let image = place.image("image", 64).display().to_string();
    std::fs::set_permissions(Path::new(&image), PermissionsExt::from_mode(0o666)).unwrap();
    let dir = place.arg("run");
    for target in ["sim:sd-c4-block", &image] {
        let args =
            ["tune", target, "--on", "here", "--dir", &dir, "--fs", "ext4", "--confirm", "image"];
        let Some(outcome) = as_nobody(&args) else {
            let _ = skip(Some("the command cannot be run as another user".to_owned()));
            return;
        };
        assert_eq!(outcome.code, Some(4), "{outcome:?}");
        assert!(outcome.stderr.contains("not running as root"), "{outcome:?}");
        assert!(outcome.stderr.contains("run it as root"), "{outcome:?}");
        assert!(!place.path("run").exists());
    }
    // Looking needs no rights.
    for args in [
        &["list", "--json"][..],
        &["catalog"],
        &["inspect", &image],
        &["inspect", "sim:sd-c4-block"],
    ] {
        let outcome = as_nobody(args).unwrap();
        assert_eq!(outcome.code, Some(0), "{args:?}: {outcome:?}");
    }
    let outcome = as_nobody(&["tune", &image, "--fs", "ext4", "--dry-run"]).unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let outcome = as_nobody(&["card", "serve", "sd-c4-block"]).unwrap();
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
}
