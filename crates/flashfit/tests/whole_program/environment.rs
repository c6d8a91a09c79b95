//! Missing programs and rights: exit code 4 and a hint.

use std::path::{Path, PathBuf};
use std::process::Command;

use flashfit_host::program::find;
use flashfit_host::{Program, Runner, SystemRunner};

use crate::fixture::{Ended, FLASHFIT, Place, skip_without_block_devices, skip_without_cards};
use flashfit_test_support::{TestNeed, program, skip};

/// Programs that a run uses.
const PROGRAMS: [&str; 8] =
    ["fio", "mount", "mkfs.ext4", "tune2fs", "sfdisk", "blkdiscard", "partx", "blkid"];

/// A directory with links to all programs except `missing`; the only one in PATH.
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

/// Sets the search path for root and for other users.
fn with_path<'a>(command: &'a mut Command, path: &Path) -> &'a mut Command {
    command.env("PATH", path).env("FLASHFIT_PATH", path)
}

#[test]
fn doctor_says_what_is_missing_for_trials_here() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    for (missing, answer) in
        [("fio", "no, fio is not installed."), ("mkfs.ext4", "no, no program that"), ("", "yes")]
    {
        let tools = tools_without(&place, missing);
        let mut command = place.command(&["doctor"]);
        let ended = Ended::new(with_path(&mut command, &tools).output().unwrap());
        ended.said(0, &[]);
        let here = ended.stdout.split("\nvm (").next().unwrap();
        assert!(here.starts_with(&format!("here (this kernel): {answer}")), "{here}");
        assert!(here.contains("mkfs.f2fs") && here.contains("apt-get install "), "{here}");
        assert_eq!(here.matches(" fio").count() > 0, missing == "fio", "{here}");
    }
}

#[test]
fn a_missing_program_is_reported_with_its_package() {
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
        let ended = crate::fixture::Ended::new(with_path(&mut command, &tools).output().unwrap());
        let hint = format!("hint: apt-get install {package}");
        ended.said(4, &[&format!("the program `{program}` was not found"), &hint]);
        assert!(!place.path("run").exists(), "a run was begun without {program}");
    }
    assert!(std::fs::read(&image).unwrap() == before, "the image was written to");
}

#[test]
fn file_systems_without_programs_are_omitted() {
    let place = Place::new();
    place.image("image", 256);
    let tools = tools_without(&place, "mkfs.btrfs");
    let mut command = place.command(&["tune", "image", "--dry-run", "--fs", "ext4,btrfs"]);
    let ended = crate::fixture::Ended::new(with_path(&mut command, &tools).output().unwrap());
    if skip(program("mkfs.ext4")) {
        return;
    }
    ended.said(0, &[]);
    let reason = "btrfs is left out: the program `mkfs.btrfs` was not found";
    assert!(ended.stdout.contains(reason), "{}", ended.stdout);
}

#[test]
fn administrators_programs_are_found_without_root() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    place.image("image", 64);
    let args = ["tune", "image", "--dry-run", "--fs", "ext4"];
    let ended = place.command(&args).env("PATH", "/usr/bin:/bin").output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

#[test]
fn root_ignores_a_users_path() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    place.image("image", 64);
    std::fs::create_dir(place.path("bin")).unwrap();
    let script = format!("#!/bin/sh\necho $0 >>{}\nexit 1\n", place.arg("ran"));
    for name in ["blkid", "fio", "mkfs.ext4", "lsblk", "sfdisk", "tune2fs", "mount", "ssh"] {
        let program = place.file(&format!("bin/{name}"), &script);
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    place.file("bin/labgrid-client", "");
    let path = format!("{}:{}", place.arg("bin"), std::env::var("PATH").unwrap());
    let run = |args: &[&str], variable: &str| {
        let mut command = place.command(args);
        crate::fixture::Ended::new(command.env(variable, &path).output().unwrap())
    };
    for args in [&["inspect", "image"][..], &["tune", "image", "--dry-run"], &["check", "image"]] {
        run(args, "PATH");
        let ran = std::fs::read_to_string(place.path("ran")).unwrap_or_default();
        assert_eq!(ran, "", "{args:?}");
    }
    run(&["tune", "image", "--on", "lab:board=x", "--dry-run"], "PATH")
        .said(4, &["`labgrid-client` was not found"]);
    // The supported way: a directory that only root can write to.
    run(&["check", "image"], "FLASHFIT_PATH");
    assert!(place.path("ran").exists(), "FLASHFIT_PATH is not used");
    std::fs::remove_file(place.path("ran")).unwrap();
    std::fs::set_permissions(place.path("bin"), std::fs::Permissions::from_mode(0o777)).unwrap();
    run(&["check", "image"], "FLASHFIT_PATH");
    assert!(!place.path("ran").exists(), "a folder that everybody can write to is used");
}

#[test]
fn a_doctor_explains_programs_that_root_does_not_find() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let doctor = |more: &[&str]| {
        let mut command = place.command(&[&["doctor"], more].concat());
        crate::fixture::Ended::new(command.env("FLASHFIT_PATH", "/nowhere").output().unwrap())
    };
    let text = doctor(&[]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("root searches only FLASHFIT_PATH"), "{text}");
    assert!(text.contains("unset FLASHFIT_PATH"), "{text}");
    assert!(!text.contains("apt-get install mount"), "{text}");
    doctor(&["--on", "lab:x"]).said(2, &["`lab:x` names no tags", "lab:board=imx8"]);
    doctor(&["--on", "vm", "--vm-kernel", "/dev/null"]).said(2, &["a character device", "/boot/"]);
    doctor(&["--on", "ssh:x", "--vm-kernel", "x"]).said(2, &["leave --vm-kernel out"]);
}

/// Runs the command as an ordinary user.
fn as_nobody(args: &[&str]) -> Option<flashfit_host::ProgramOutcome> {
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", FLASHFIT];
    let program = Program::new("setpriv").args(nobody).args(args.iter().copied());
    let outcome = SystemRunner::default().run(&program).ok()?;
    // Exit codes of setpriv if it cannot run the program.
    (!matches!(outcome.code, Some(126 | 127))).then_some(outcome)
}

#[test]
fn missing_rights_are_reported_with_a_reason() {
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
            let reason = "the command cannot be run as another user";
            assert!(skip(Some(TestNeed::User.missing(reason))));
            return;
        };
        assert_eq!(outcome.code, Some(4), "{outcome:?}");
        assert!(outcome.stderr.contains("not running as root"), "{outcome:?}");
        assert!(outcome.stderr.contains("run it as root"), "{outcome:?}");
        assert!(!place.path("run").exists());
    }
    // Inspecting needs no rights.
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
    // The run is not made where the preview was.
    let text = outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("cannot be made here: not running as root."), "{text}");
    assert!(text.contains("they are made in a virtual machine"), "{text}");
    assert!(!text.contains("Trials are made here"), "{text}");
    let outcome = as_nobody(&["card", "serve", "sd-c4-block"]).unwrap();
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
}

#[test]
fn an_empty_variable_counts_as_not_set_and_a_wrong_one_is_named() {
    let place = Place::new();
    let ended = |args: &[&str], catalog: &str| {
        let mut command = place.command(args);
        command.env("FLASHFIT_CATALOG", catalog).env("FLASHFIT_SURVEY", "");
        Ended::new(command.output().unwrap())
    };
    for args in [&["list"][..], &["catalog"], &["card", "list"]] {
        ended(args, "").said(0, &[]);
        ended(args, "/nonexistent").said(2, &["FLASHFIT_CATALOG: there is no catalog directory"]);
    }
    ended(&["survey", "list"], "").said(2, &["data/flashfit/survey.db", "--db FILE"]);
    place.flashfit(&["list", "--catalog", ""]).said(2, &["a value is required"]);
}

#[test]
fn where_one_may_not_write_a_hint_names_what_to_type() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let place = Place::new();
    let is_root = rustix::process::geteuid().is_root();
    if skip((!is_root).then(|| TestNeed::Root.missing("the test needs two users".to_owned()))) {
        return;
    }
    place.image("image", 64);
    place.tune(&place.card(), &[]);
    place.flashfit(&["survey", "add", "run", "--db", "survey.db"]).said(0, &[]);
    std::fs::set_permissions(place.folder(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let as_nobody = |args: &[&str]| {
        let mut command = place.command(args);
        command.uid(65534).gid(65534);
        command.output()
    };
    let refused = as_nobody(&["--version"]).err();
    if skip(refused.map(|error| TestNeed::User.missing(format!("{FLASHFIT}: {error}")))) {
        return;
    }
    let record = ["wear", "record", "sim:usd-a1-pagemap", "--fs", "ext4", "--workload", "logs"];
    let record = [&record[..], &["--output", "/tmp/flashfit-never-written.toml"]].concat();
    let commands: [(&[&str], &str); 4] = [
        (&["report", "run"], "flashfit report run --output FILE"),
        (&["survey", "html", "site", "--db", "survey.db"], "flashfit survey html ~/site"),
        (&["survey", "export", "--parquet", "out", "--db", "survey.db"], "--parquet ~/survey"),
        (&record, "--on vm"),
    ];
    for (args, hint) in commands {
        Ended::new(as_nobody(args).unwrap()).said(4, &["hint: ", hint]);
    }
    // Where not even root may write.
    place.flashfit(&["tune", &place.card(), "--dir", "/sys/run"]).said(4, &["hint: ", "--dir"]);
}
