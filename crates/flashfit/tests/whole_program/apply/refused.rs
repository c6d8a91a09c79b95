//! Refusals of `apply` and `restore`, before anything is written.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flashfit_host::mount::Mounted;
use flashfit_host::{Program, Runner, SystemRunner};

use flashfit_test_support::{AttemptKind, TestNeed, attempted, skip};

use super::cut_short::program_of;
use super::{apply, command, flashfit, plan};
use crate::fixture::{Ended, Place, skip_without_block_devices};
use crate::machine::PlainLoop;

/// Asserts that `work` does not change the image and leaves no backup or record.
#[track_caller]
fn untouched(place: &Place, work: impl FnOnce()) {
    attempted(AttemptKind::TargetInUse, 1);
    let image = place.path("image");
    let before = std::fs::read(&image).unwrap();
    work();
    assert!(before == std::fs::read(&image).unwrap(), "the image was written to");
    assert!(!place.path("saved").exists(), "a backup was made");
    let records = std::fs::read_dir(place.path("state/unfinished"));
    assert!(records.map_or(0, Iterator::count) == 0, "it is remembered as unfinished");
}

#[test]
fn nothing_is_written_without_confirmation() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    place.image("image", 64);
    plan(&place, "image", &["--fs", "ext4"]);
    untouched(&place, || {
        let dry = apply(&place, &["--dry-run", "--install"]);
        dry.said(0, &[]);
        for text in
            ["All data on", "sfdisk", "mkfs.ext4", "etc/fstab", "Price: ", "Nothing was changed."]
        {
            assert!(dry.stdout.contains(text), "no `{text}` in {}", dry.stdout);
        }
        assert!(dry.stdout.contains("/image"), "{}", dry.stdout);
        assert!(!dry.stdout.contains("/dev/YOUR"), "{}", dry.stdout);
        let json = apply(&place, &["--dry-run", "--json"]).document("flashfit.would-apply");
        assert_eq!(json["plan"]["setup"]["filesystem"], "ext4");
        let written = &json["price"]["written_bytes"];
        assert!(written[0].as_u64() < written[1].as_u64(), "{written}");
        assert!(json["price"]["time_ns"][1].as_u64().unwrap() > 0);
        let bare = ["apply", "plan.json", "image", "--backup", "saved"];
        flashfit(&place, &bare)
            .said(3, &["Price: ", "confirmation is missing", "hint: add --confirm image"]);
        let wrong = [&bare[..], &["--confirm", "card"]].concat();
        flashfit(&place, &wrong).said(3, &["`card` is not the name of the device"]);
    });
}

#[test]
fn a_plan_for_another_device_is_refused() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    place.image("image", 64);
    plan(&place, "image", &["--fs", "ext4"]);
    let whole = std::fs::read_to_string(place.path("plan.json")).unwrap();
    untouched(&place, || {
        let bytes = (64 << 20).to_string();
        for (from, to, said) in [
            ("mkfs.ext4", "mkfs.ext3", "commands would be different"),
            ("16384", "32768", "would be different"),
            (bytes.as_str(), "134217728", "would be different"),
            ("flashfit.plan", "flashfit.run", "it is a document `flashfit.run`"),
        ] {
            assert!(whole.contains(from), "{from}");
            place.file("plan.json", &whole.replace(from, to));
            let ended = apply(&place, &[]);
            assert!(matches!(ended.code, Some(2 | 3)), "{from}: {ended:#?}");
            assert!(ended.stderr.contains(said), "{from}: {}", ended.stderr);
        }
        place.file("plan.json", "{");
        apply(&place, &[]).said(2, &["plan.json: it is not a plan"]);
    });
    place.file("plan.json", &whole);
    place.image("image", 48);
    untouched(&place, || {
        apply(&place, &[]).said(3, &["not the device of the plan"]);
    });
    let card = place.card();
    let args = ["apply", "plan.json", &card, "--confirm", "fast"];
    flashfit(&place, &args).said(2, &["exist only until flashfit ends"]);
}

#[test]
fn options_that_the_program_here_does_not_have_are_refused() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    place.image("image", 256);
    let script = "#!/bin/sh\necho 'mkfs.btrfs, part of btrfs-progs v6.2'\ntest $# = 1\n";
    let path = program_of(&place, "mkfs.btrfs", script);
    let run = |args: &[&str]| {
        Ended::new(command(&place, args).env("FLASHFIT_PATH", &path).output().unwrap())
    };
    let planned = ["plan", "image", "--fs", "btrfs", "--options", "leafsize", "--erase-block"];
    let planned =
        run(&[&planned[..], &["1MiB", "--write-unit", "16KiB", "--output", "plan.json"]].concat());
    planned.said(0, &[]);
    let note = "btrfs: not on this machine: `leafsize`: it was removed in version 6.0";
    let words = planned.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(note), "{words}");
    let args = ["apply", "plan.json", "image", "--confirm", "image", "--backup", "saved"];
    untouched(&place, || {
        let because = "btrfs: `leafsize`: it was removed in version 6.0, and this is 6.2";
        run(&args).said(4, &[because, "hint: make a plan without it", "options --fs btrfs"]);
        run(&[&args[..], &["--dry-run"]].concat()).said(4, &[because]);
    });
}

#[test]
fn what_this_kernel_cannot_mount_is_refused_where_it_is_to_be_mounted() {
    if skip_without_block_devices() {
        return;
    }
    let absent = [("f2fs", "mkfs.f2fs"), ("fat32", "mkfs.fat"), ("exfat", "mkfs.exfat")];
    let kind = |name: &str| if name == "fat32" { "vfat".to_owned() } else { name.to_owned() };
    let is_absent = |(name, mkfs): &(&str, &str)| {
        !flashfit_option_probe::kernel::has(&kind(name))
            && flashfit_host::program::find(mkfs).is_some()
    };
    let Some((name, _)) = absent.into_iter().find(is_absent) else {
        assert!(skip(Some(TestNeed::Kernel.missing("no file system is absent"))));
        return;
    };
    let place = Place::in_memory();
    place.image("image", 1024);
    std::fs::create_dir(place.path("point")).unwrap();
    plan(&place, "image", &["--fs", name]);
    let because = format!("this kernel has no {}", kind(name));
    let planned = flashfit(&place, &["plan", "image", "--fs", name]);
    planned.said(0, &[]);
    assert!(planned.stdout.contains(&because), "{}", planned.stdout);
    untouched(&place, || {
        let ended = apply(&place, &["--mount-point", "point"]);
        ended.said(4, &[&because, "hint: ", "--mount-point"]);
        let ended = apply(&place, &["--mount-point", "point", "--dry-run"]);
        ended.said(4, &[&because, "hint: "]);
    });
    apply(&place, &["--dry-run"]).said(0, &[]);
}

/// A catalog whose ext4 has options that mkfs, mount or the kernel refuse.
fn own_catalog(place: &Place) {
    let built_in = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let ext4 = built_in.join("../../catalog/filesystems/ext4.toml");
    let mut text = std::fs::read_to_string(ext4).unwrap();
    for (name, what) in [
        ("bad-mkfs", "mkfs = { \"-O\" = [\"no_such_feature\"] }"),
        ("bad-mount", "mount = [\"no_such_option\"]"),
        ("bad-sysctl", "sysctl = { \"vm.no_such_key\" = \"1\" }"),
    ] {
        text.push_str(&format!(
            "\n[[option]]\nname = \"{name}\"\ntitle = \"A test\"\n{what}\n\
             durability = \"safe\"\nsource = \"a test\"\n"
        ));
    }
    std::fs::create_dir_all(place.path("own/filesystems")).unwrap();
    std::fs::write(place.path("own/filesystems/ext4.toml"), text).unwrap();
}

#[test]
fn own_options_that_are_refused_here_are_refused_before_anything_is_written() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    place.image("image", 256);
    own_catalog(&place);
    for name in ["bad-mkfs", "bad-mount", "bad-sysctl"] {
        let own = ["--catalog", "own", "--fs", "ext4", "--options", name, "--force"];
        plan(&place, "image", &own);
        untouched(&place, || {
            let named = format!("`{name}`");
            let hint = "hint: make a plan without it";
            apply(&place, &["--catalog", "own"]).said(4, &[&named, hint]);
            apply(&place, &["--catalog", "own", "--dry-run"]).said(4, &[&named, hint]);
        });
    }
    let own = ["--catalog", "own", "--fs", "ext4", "--options", "noatime", "--force"];
    plan(&place, "image", &own);
    apply(&place, &["--catalog", "own", "--dry-run"]).said(0, &[]);
}

#[test]
fn devices_in_use_are_refused() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    let mkfs = Program::new("mkfs.ext4").args(["-q", "-F"]).arg(&image);
    SystemRunner::default().run_checked(&mkfs).unwrap();
    plan(&place, "image", &["--fs", "ext4"]);
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
    untouched(&place, || apply(&place, &[]).said(3, &["in use", "losetup -d"]));
    plan(&place, node, &["--fs", "ext4", "--scheduler", "none"]);
    let point = place.path("point");
    std::fs::create_dir(&point).unwrap();
    let options = ["ro".to_owned(), "noload".to_owned()];
    let runner = SystemRunner::default();
    let mounted = Mounted::new(&runner, Path::new(node), "ext4", &point, &options).unwrap();
    untouched(&place, || {
        // The backup directory is on the same device.
        let args = ["apply", "plan.json", node, "--confirm", name, "--backup", "point/saved"];
        flashfit(&place, &args).said(3, &["in use", "is mounted on"]);
    });
    mounted.unmount().unwrap();
}

#[test]
fn read_only_devices_are_refused() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &["--read-only"]);
    plan(&place, node, &["--fs", "ext4", "--scheduler", "none"]);
    untouched(&place, || {
        let args = ["apply", "plan.json", node, "--confirm", name, "--backup", "saved"];
        flashfit(&place, &args).said(3, &["write-protected"]);
    });
}

#[test]
fn a_backup_is_not_restored_to_a_device_in_use() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    plan(&place, "image", &["--fs", "ext4"]);
    apply(&place, &[]).said(0, &[]);
    assert_eq!(place.path("saved").metadata().unwrap().permissions().mode() & 0o77, 0);
    let made = std::fs::read(&image).unwrap();
    let back = ["restore", "saved", "image", "--confirm", "image"];
    {
        let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &["--read-only"]);
        flashfit(&place, &back).said(3, &["in use"]);
        let to_loop = ["restore", "saved", node, "--confirm", name];
        flashfit(&place, &to_loop).said(3, &["write-protected"]);
    }
    place.image("other", 63);
    let other = ["restore", "saved", "other", "--confirm", "other"];
    flashfit(&place, &other).said(3, &["saved was made of another device"]);
    flashfit(&place, &["restore", "nothing", "image"])
        .said(2, &["there is no backup", "nothing/manifest.json"]);
    place.file("saved/first.img", "short");
    flashfit(&place, &back).said(2, &["first.img: it was changed after it was saved"]);
    assert!(std::fs::read(&image).unwrap() == made, "the image was written to");
}

#[test]
fn a_backup_is_restored_to_another_image_only_as_a_copy() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    place.image("image", 64);
    plan(&place, "image", &["--fs", "ext4"]);
    apply(&place, &[]).said(0, &[]);
    let other = place.image("other", 64);
    let before = std::fs::read(&other).unwrap();
    let back = ["restore", "saved", "other", "--confirm", "other"];
    flashfit(&place, &back).said(3, &["not the file or device that the backup", "--to-copy"]);
    assert!(std::fs::read(&other).unwrap() == before, "the other image was written to");
    let dry = flashfit(&place, &["restore", "saved", "other", "--dry-run"]);
    assert!(dry.stdout.contains("This is not the file"), "{}", dry.stdout);
    flashfit(&place, &[&back[..], &["--to-copy"]].concat()).said(0, &[]);
    // A loop device whose file was removed is a device like any other.
    let PlainLoop { node, name } = &PlainLoop::attach(&other, 512, &[]);
    let before = std::fs::read(node).unwrap();
    std::fs::remove_file(&other).unwrap();
    let back = ["restore", "saved", node, "--confirm", name];
    flashfit(&place, &back).said(3, &["not the file or device that the backup", "--to-copy"]);
    assert!(std::fs::read(node).unwrap() == before, "the device was written to");
}

#[test]
fn a_backup_is_not_written_or_read_through_a_link() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    place.image("image", 64);
    plan(&place, "image", &["--fs", "ext4"]);
    let theirs = place.path("theirs");
    std::fs::create_dir(&theirs).unwrap();
    std::os::unix::fs::symlink(&theirs, place.path("saved")).unwrap();
    let to_saved = ["apply", "plan.json", "image", "--confirm", "image", "--backup", "saved"];
    let before = std::fs::read(place.path("image")).unwrap();
    flashfit(&place, &to_saved).said(2, &["saved: not a directory"]);
    assert!(before == std::fs::read(place.path("image")).unwrap(), "the image was written to");
    assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 0);
    // The records of this machine.
    std::fs::remove_file(place.path("saved")).unwrap();
    let state = place.path("linked-state");
    std::fs::create_dir(&state).unwrap();
    std::os::unix::fs::symlink(&theirs, state.join("unfinished")).unwrap();
    untouched(&place, || {
        let mut command = command(&place, &to_saved);
        let ended = Ended::new(command.env("FLASHFIT_STATE_DIR", &state).output().unwrap());
        ended.said(2, &["unfinished: not a directory"]);
    });
    assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 0);
    flashfit(&place, &to_saved).said(0, &[]);
    std::os::unix::fs::symlink(place.path("saved"), place.path("link")).unwrap();
    let from_link = ["restore", "link", "image", "--confirm", "image"];
    flashfit(&place, &from_link).said(2, &["link: not a directory", "realpath"]);
}
