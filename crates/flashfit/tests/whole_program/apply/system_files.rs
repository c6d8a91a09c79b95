//! fstab and udev rules: which system they belong to, what is kept in them, and when they cannot
//! be changed. What is below `/` runs in a mount namespace with a copy of `/etc`.

use std::path::Path;

use flashfit_host::mount::Mounted;
use flashfit_host::{Program, ProgramOutcome, Runner, SystemRunner};
use flashfit_test_support::{TestNeed, skip};

use super::{flashfit, plan, read};
use crate::fixture::{FLASHFIT, Place, skip_without_block_devices};
use crate::machine::{PlainLoop, wait_for_no_traces};

const RULES: &str = "etc/udev/rules.d/60-flashfit.rules";

fn run(name: &str, args: &[&str]) -> String {
    SystemRunner::default().run_checked(&Program::new(name).args(args.to_vec())).unwrap().stdout
}

/// Runs a script in the place, in its own mount namespace.
fn in_namespace(place: &Place, script: &str) -> ProgramOutcome {
    let script = format!("cd {} && {script}", place.folder().display());
    let program = Program::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .env("FLASHFIT_STATE_DIR", place.arg("state"));
    SystemRunner::default().run(&program).unwrap()
}

/// An empty ext4.
fn ext4(place: &Place) -> (String, String) {
    let image = place.path("image");
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let image = image.display().to_string();
    run("mkfs.ext4", &["-q", "-F", &image]);
    let uuid = run("blkid", &["-p", "-s", "UUID", "-o", "value", &image]).trim().to_owned();
    (image, uuid)
}

#[test]
fn one_rule_stays_for_the_scheduler_of_a_device() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
    let offered = read(Path::new("/sys/block").join(name).join("queue/scheduler"));
    let lacks = !offered.contains("mq-deadline");
    if skip(lacks.then(|| TestNeed::Kernel.missing("there is no mq-deadline"))) {
        return;
    }
    plan(&place, node, &["--fs", "ext4", "--scheduler", "none"]);
    std::fs::rename(place.path("plan.json"), place.path("none.json")).unwrap();
    plan(&place, node, &["--fs", "ext4", "--scheduler", "mq-deadline"]);
    std::fs::rename(place.path("plan.json"), place.path("mq-deadline.json")).unwrap();
    let apply = |scheduler: &str, backup: u32| {
        format!(
            "{FLASHFIT} apply {scheduler}.json {node} --confirm {name} --install --backup {backup}"
        )
    };
    let keep = |scheduler: &str, backup: u32| {
        format!(
            "{FLASHFIT} apply --keep-data {node} --confirm {name} --scheduler {scheduler} \
             --backup {backup}"
        )
    };
    let script = format!(
        "set -e; cp -a /etc own && mount --bind own /etc; rm -f /{RULES}; sed -i /flash/d /etc/fstab
         {}; {}; {}; grep scheduler /{RULES} > installed
         {}; {}; {}; grep scheduler /{RULES} > kept; {FLASHFIT} restore 6 {node} --confirm {name}
         grep scheduler /{RULES} > restored",
        apply("none", 1),
        apply("mq-deadline", 2),
        apply("none", 3),
        keep("mq-deadline", 4),
        apply("none", 5),
        keep("mq-deadline", 6),
    );
    let outcome = in_namespace(&place, &script);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let rule = |scheduler: &str| {
        let of = format!("KERNEL==\"{name}\", ATTR{{queue/scheduler}}=\"{scheduler}\"\n");
        format!("ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {of}")
    };
    let named = format!("# flashfit begin {name} queue/scheduler\n");
    let whole = |rule| format!("{named}{rule}{}", named.replace("begin", "end"));
    for (file, scheduler) in [("installed", "none"), ("kept", "mq-deadline"), ("restored", "none")]
    {
        assert_eq!(read(place.path(file)), whole(rule(scheduler)), "{file}");
    }
}

#[test]
fn a_system_below_another_root_gets_no_rule_with_the_name_of_this_kernel() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    std::fs::create_dir_all(place.path("root/etc")).unwrap();
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
    plan(&place, node, &["--fs", "ext4", "--scheduler", "none"]);
    let apply = ["apply", "plan.json", node, "--install", "--root", "root"];
    let dry = flashfit(&place, &[&apply[..], &["--dry-run"]].concat()).stdout;
    assert!(dry.contains("etc/fstab") && !dry.contains("60-flashfit"), "{dry}");
    let done = flashfit(&place, &[&apply[..], &["--confirm", name, "--backup", "one"]].concat());
    done.said(0, &[]);
    let words = done.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        "note: no udev rule: that system may have another kernel name for the device",
        "Rule for etc/udev/rules.d/60-flashfit.rules of that system",
        "KERNEL==\"YOUR-CARD\"",
    ] {
        assert!(words.contains(text), "no `{text}` in {words}");
    }
    assert!(read(place.path("root/etc/fstab")).contains("/mnt/flash ext4"));
    let keep = ["apply", "--keep-data", node, "--root", "root", "--read-ahead", "516KiB"];
    let keep = [&keep[..], &["--confirm", name, "--backup", "two", "--json"]].concat();
    let done = flashfit(&place, &keep).document("flashfit.improved");
    let note = done["notes"].to_string();
    assert!(note.contains("no udev rule") && note.contains("YOUR-CARD"), "{note}");
    assert!(note.contains("ATTR{queue/read_ahead_kb}=\\\"516\\\""), "{note}");
    assert!(!place.path("root").join(RULES).exists());
}

#[test]
fn a_system_that_cannot_be_written_to_is_refused_before_anything_is_changed() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let (image, uuid) = ext4(&place);
    plan(&place, "image", &["--fs", "ext4"]);
    std::fs::create_dir_all(place.path("root/etc")).unwrap();
    place.file("root/etc/fstab", &format!("UUID={uuid} /data ext4 defaults 0 2\n"));
    let before = std::fs::read(&image).unwrap();
    let apply = "apply plan.json image --install";
    let keep = "apply --keep-data image --with ext4:nojournal";
    for (call, hint) in [(apply, ", or leave out --install"), (keep, "")] {
        for more in ["--dry-run", "--confirm image --backup saved"] {
            let script = format!(
                "mount --bind root root && mount -o remount,ro,bind root && {FLASHFIT} {call} \
                 --root root {more}"
            );
            let outcome = in_namespace(&place, &script);
            assert_eq!(outcome.code, Some(4), "{outcome:?}");
            let root = place.path("root").canonicalize().unwrap();
            let root = root.display();
            let said = format!(
                "error: {root}/etc/fstab cannot be changed: Read-only file system (os error \
                 30)\nhint: make it writable: mount -o remount,rw {root}{hint}\n"
            );
            assert!(outcome.stderr.ends_with(&said), "{}", outcome.stderr);
        }
    }
    assert!(std::fs::read(&image).unwrap() == before, "the image was written to");
    assert!(!place.path("saved").exists() && !place.path("state").exists());
    wait_for_no_traces(&place, None);
}

#[test]
fn what_is_not_utf_8_in_fstab_is_kept() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let (_, uuid) = ext4(&place);
    std::fs::create_dir_all(place.path("root/etc")).unwrap();
    let fstab = place.path("root/etc/fstab");
    let line = |options: &str| format!("\nUUID={uuid} /data ext4 {options}0 2\n").into_bytes();
    let theirs = b"# caf\xe9 \xff\nproc /proc proc defaults 0 0".to_vec();
    let before = [&theirs[..], &line("defaults ")].concat();
    std::fs::write(&fstab, &before).unwrap();
    let keep = ["apply", "--keep-data", "image", "--root", "root", "--confirm", "image"];
    flashfit(&place, &[&keep[..], &["--backup", "kept"]].concat()).said(0, &[]);
    let changed = [&theirs[..], &line("defaults,noatime ")].concat();
    assert!(std::fs::read(&fstab).unwrap() == changed);
    flashfit(&place, &["restore", "kept", "image", "--confirm", "image"]).said(0, &[]);
    assert!(std::fs::read(&fstab).unwrap() == before);
    plan(&place, "image", &["--fs", "ext4"]);
    super::apply(&place, &["--install", "--root", "root"]).said(0, &[]);
    let installed = std::fs::read(&fstab).unwrap();
    assert!(installed.starts_with(&before) && installed.len() > before.len());
}

#[test]
fn options_that_end_with_the_next_mount_are_named() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let (image, uuid) = ext4(&place);
    let root = place.path("root");
    std::fs::create_dir_all(root.join("etc")).unwrap();
    std::fs::create_dir(root.join("my data")).unwrap();
    let PlainLoop { node, name } = &PlainLoop::attach(Path::new(&image), 512, &[]);
    let runner = SystemRunner::default();
    let point = root.join("my data");
    let mounted = Mounted::new(&runner, Path::new(node), "ext4", &point, &[]).unwrap();
    let call = ["apply", "--keep-data", node, "--root", "root", "--with", "ext4:commit-60"];
    let fstab = root.canonicalize().unwrap().join("etc/fstab");
    let text = format!(
        "noatime,commit=60 ends with the next mount: {} has no line for UUID={uuid}; to keep it, \
         add:",
        fstab.display()
    );
    let line = format!("UUID={uuid} /my\\040data ext4 noatime,commit=60,nofail 0 2");
    let would = [&call[..], &["--dry-run", "--json"]].concat();
    let would = flashfit(&place, &would).document("flashfit.would-improve");
    let notes = would["notes"].as_array().unwrap();
    assert!(notes.iter().any(|found| *found == format!("{text} {line}")), "{would:#}");
    let done = flashfit(&place, &[&call[..], &["--confirm", name, "--backup", "one"]].concat());
    done.said(0, &[&format!("\n  {line}\n")]);
    assert!(done.stdout.contains(&format!("\n  {line}\n")), "{}", done.stdout);
    let words = done.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("note: {text} {line}")), "{words}");
    let remount = format!("mount -o remount,noatime,commit=60 '{}'", point.display());
    assert!(done.stdout.contains(&remount), "{}", done.stdout);
    flashfit(&place, &["restore", "one", node, "--confirm", name]).said(0, &[]);
    // A line without options is one. The commit interval is taken back by mounting again only.
    std::fs::write(&fstab, format!("UUID={uuid} /my\\040data ext4\n")).unwrap();
    let again = [&call[..], &["--confirm", name, "--backup", "two", "--json"]].concat();
    let done = flashfit(&place, &again).document("flashfit.improved");
    assert!(!done["notes"].to_string().contains("next mount"), "{done:#}");
    let line = format!("UUID={uuid} /my\\040data ext4 defaults,noatime\n");
    assert_eq!(read(fstab), line);
    mounted.unmount().unwrap();
}
