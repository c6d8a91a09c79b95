//! Files that the user names for input or output.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::fixture::{
    Ended, Place, skip, skip_without_block_devices, skip_without_cards, wait_until,
};
use crate::terminal::shown_at;

/// A command that takes longer waits for a FIFO.
const AT_ONCE: Duration = Duration::from_secs(20);

#[test]
fn only_files_that_flashfit_wrote_are_replaced() {
    let place = Place::new();
    place.image("image", 64);
    let card = place.card();
    let plan = ["plan", "image", "--fs", "ext4", "--erase-block", "1MiB", "-o", "out"];
    let probe = ["probe", &card, "--output", "out"];
    let drawing = ["probe", &card, "--svg", "out"];
    for args in [&plan[..], &probe, &drawing] {
        let theirs = place.image("out", 64);
        let before = std::fs::read(&theirs).unwrap();
        place.flashfit(args).said(3, &["out exists, and is not a", "--force"]);
        assert!(std::fs::read(&theirs).unwrap() == before, "{args:?} changed it");
        place.flashfit(&[args, &["--force"]].concat()).said(0, &[]);
        let written = std::fs::read(&theirs).unwrap();
        assert!(written.len() < 1 << 20, "{args:?} --force did not write it");
        // Now flashfit has written it.
        place.flashfit(args).said(0, &[]);
        std::fs::remove_file(&theirs).unwrap();
        symlink("elsewhere", &theirs).unwrap();
        let forced = place.flashfit(&[args, &["--force"]].concat());
        forced.said(3, &["it is a symbolic link, not a regular file"]);
        assert!(!place.path("elsewhere").exists());
        std::fs::remove_file(&theirs).unwrap();
        std::fs::create_dir(&theirs).unwrap();
        place.flashfit(args).said(3, &["it is a directory, not a regular file"]);
        std::fs::remove_dir(&theirs).unwrap();
    }
}

#[test]
fn only_regular_files_of_limited_size_are_read() {
    let place = Place::new();
    place.image("image", 64);
    let fifo = place.arg("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let folder = place.arg("folder");
    std::fs::create_dir(&folder).unwrap();
    let huge = place.file("huge", "");
    std::fs::File::options().write(true).open(&huge).unwrap().set_len(1 << 40).unwrap();
    let huge = huge.display().to_string();
    let begun = Instant::now();
    for (named, found) in [
        (fifo.as_str(), "it is a FIFO"),
        ("/dev/zero", "it is a character device"),
        (&folder, "it is a directory"),
        (&huge, "it is larger than"),
    ] {
        let sim = format!("sim:{named}");
        let catalog = place.path("catalog/workloads");
        std::fs::create_dir_all(&catalog).unwrap();
        let entry = catalog.join("mine.fio");
        let _ = std::fs::remove_file(&entry);
        symlink(named, &entry).unwrap();
        let commands: [&[&str]; 6] = [
            &["plan", "image", "--geometry", named],
            &["probe", "--import", named],
            &["tune", "image", "--dry-run", "--config", named],
            &["card", "bench", "sd-c4-block", "--against", named],
            &["catalog", "--catalog", "catalog"],
            // Targets are inspected in another way.
            &["inspect", &sim],
        ];
        for args in commands {
            if *args == ["inspect", "sim:/dev/zero"] && !Path::new("/dev/zero").exists() {
                continue;
            }
            place.flashfit(args).said(2, &[found]);
        }
    }
    place.flashfit(&["apply", &fifo, "image", "--dry-run"]).said(2, &["it is a FIFO"]);
    let kernel = ["tune", "sim:sd-c4-block", "--dry-run", "--on", "vm", "--vm-kernel", &fifo];
    place.flashfit(&kernel).said(2, &["it is a FIFO"]);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
}

#[test]
fn a_mistyped_device_is_not_an_image() {
    if skip((!rustix::process::geteuid().is_root()).then(|| "/dev needs root".to_owned())) {
        return;
    }
    let place = Place::new();
    place.flashfit(&["inspect", "/dev/loop-contrl9"]).said(2, &["there is no /dev/loop-contrl9"]);
    let name = format!("/dev/flashfit-mistyped-{}", std::process::id());
    std::fs::write(&name, vec![0; 8 << 20]).unwrap();
    let ended: Vec<Ended> = [&["inspect"][..], &["probe"], &["tune", "--dry-run"]]
        .iter()
        .map(|args| place.flashfit(&[*args, &[name.as_str()]].concat()))
        .collect();
    std::fs::remove_file(&name).unwrap();
    for ended in ended {
        ended.said(2, &["is a regular file in /dev, not a device", "flashfit list"]);
    }
}

#[test]
fn one_state_file_is_served_once() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let card = place.arg("card.toml");
    let serve = |socket: &'static str| -> Vec<String> {
        ["card", "serve", &card, "--nbd", socket, "--state", "f"].map(str::to_owned).to_vec()
    };
    let run = |args: &[String]| {
        place.command(&args.iter().map(String::as_str).collect::<Vec<_>>()).spawn().unwrap()
    };
    let first = run(&serve("one.sock"));
    wait_until("it is served", || place.path("one.sock").exists());
    Ended::of(run(&serve("two.sock")))
        .said(3, &["f is in use: a card is served from it", "--state"]);
    crate::machine::signal(first.id(), rustix::process::Signal::INT);
    Ended::of(first).said(0, &[]);
    assert!(place.path("f").exists() && !place.path("f.lock").exists());
}

#[test]
fn text_is_ascii_where_the_locale_is_not_utf8() {
    let place = Place::new();
    let commands: [&[&str]; 5] = [
        &["catalog"],
        &["card", "list"],
        &["card", "bench", "sd-c4-block", "--blocks", "2"],
        &["probe", &place.card()],
        &["tune", "nothing"],
    ];
    for args in commands {
        let mut command = place.command(args);
        command.env("LC_ALL", "C");
        let ended = shown_at(80, command);
        assert!(ended.stdout.is_ascii() && ended.stderr.is_ascii(), "{args:?}: {ended:?}");
    }
    let mut command = place.command(&["card", "list"]);
    command.env("LC_ALL", "C.UTF-8");
    let ended = shown_at(80, command);
    assert!(!ended.stdout.is_ascii(), "nothing was there to be spelled otherwise: {ended:?}");
}

#[test]
fn an_output_may_have_a_name_that_is_not_utf8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    place.image("image", 64);
    let name = OsStr::from_bytes(b"out\xff");
    let card = place.card();
    let commands: [&[&str]; 4] = [
        &["plan", "image", "--fs", "ext4", "--erase-block", "1MiB", "--output"],
        &["probe", &card, "--json", "--output"],
        &["probe", &card, "--svg"],
        &["probe", &card, "--write", "--json", "--twin"],
    ];
    for args in commands {
        let ended = Ended::new(place.command(args).arg(name).output().unwrap());
        ended.said(0, &[]);
        assert!(std::fs::metadata(place.folder().join(name)).unwrap().len() > 0, "{args:?}");
        std::fs::remove_file(place.folder().join(name)).unwrap();
        if args.contains(&"--twin") {
            let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!(document["twin"]["file"], "out\u{fffd}");
            assert_eq!(document["twin"]["file_bytes"].as_array().unwrap().last().unwrap(), 0xff);
        }
    }
    // The name of a mount point appears in commands and in fstab.
    let args = ["plan", "image", "--mount-point"];
    Ended::new(place.command(&args).arg(name).output().unwrap()).said(2, &["UTF-8"]);
}

#[test]
fn a_target_and_a_directory_may_have_names_that_are_not_utf8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let name = |bytes: &'static [u8]| OsStr::from_bytes(bytes);
    let (image, plan, backup) = (name(b"t\xff.img"), name(b"p\xff"), name(b"b\xff"));
    std::fs::rename(place.image("image", 64), place.folder().join(image)).unwrap();
    // An image of which only another byte is different must not be taken for this one.
    place.image("other", 64);
    std::fs::rename(place.folder().join("other"), place.folder().join(name(b"t\xfe.img"))).unwrap();
    let before = std::fs::read(place.folder().join(name(b"t\xfe.img"))).unwrap();
    let run = |args: &[&OsStr]| Ended::new(place.command(&[]).args(args).output().unwrap());
    let word = |text: &'static str| OsStr::new(text);

    let inspected = run(&[word("inspect"), image, word("--json")]).document("flashfit.medium");
    let url = inspected["path"].as_str().unwrap().to_owned();
    assert!(url.starts_with("file:///") && url.ends_with("t%FF.img"), "{url}");
    let again = run(&[word("inspect"), OsStr::new(&url), word("--json")]);
    assert_eq!(again.document("flashfit.medium")["path"], url, "the written name is the name");

    let made = [word("--fs"), word("ext4"), word("--erase-block"), word("1MiB"), word("-o"), plan];
    run(&[&[word("plan"), image], &made[..]].concat()).said(0, &[]);
    let refused = run(&[word("apply"), plan, image]);
    refused.said(3, &["add --confirm t%FF.img"]);
    let wrong = [word("--confirm"), name(b"t\xfe.img")];
    run(&[&[word("apply"), plan, image], &wrong[..]].concat()).said(3, &[]);
    let preview = [word("--dry-run"), word("--dir"), name(b"d\xff")];
    run(&[&[word("tune"), image], &preview[..]].concat()).said(0, &[]);
    if skip_without_block_devices() {
        return;
    }
    let agreed = [word("--backup"), backup, word("--confirm"), image];
    run(&[&[word("apply"), plan, image], &agreed[..]].concat()).said(0, &[]);
    let undone = run(&[word("restore"), backup, image, word("--confirm"), word("t%FF.img")]);
    undone.said(0, &[]);
    let dir = name(b"d\xff");
    let brief = ["--fs", "ext4", "--workload", "sync-files", "--trials", "2", "--dir"].map(word);
    let tuned = [&[word("tune"), image], &brief[..], &[dir, word("--confirm"), image]].concat();
    let tuned = run(&tuned);
    assert!(matches!(tuned.code, Some(0 | 1)), "{tuned:#?}");
    run(&[word("tune"), word("--resume"), dir, word("--confirm"), image]);
    run(&[word("report"), dir]).said(0, &[]);
    assert!(place.folder().join(dir).join("report.html").is_file());
    assert_eq!(std::fs::read(place.folder().join(name(b"t\xfe.img"))).unwrap(), before);
}

/// A name cannot put its own line into a question, and the command that is shown names the file.
#[test]
fn a_target_may_have_a_name_with_control_characters() {
    let place = Place::new();
    for (name, confirmed, typed) in [
        ("nl\nx.img", "nl%0Ax.img", "nl\\012x.img'"),
        ("esc\u{1b}[31mred.img", "esc%1B%5B31mred.img", "esc\\033[31mred.img'"),
        ("rtl\u{202e}gmi", "rtl%E2%80%AEgmi", "rtl\\342\\200\\256gmi'"),
    ] {
        place.image(name, 64);
        let made = ["plan", name, "--fs", "ext4", "--erase-block", "1MiB", "-o", "plan", "--force"];
        let shown = place.flashfit(&made);
        shown.said(0, &[]);
        let url = format!("file://{}/{confirmed}", place.folder().display());
        assert!(shown.stdout.contains(&format!("flashfit apply plan {url}")), "{}", shown.stdout);
        let refused = place.flashfit(&["apply", "plan", &url]);
        refused.said(3, &["would be lost", &format!("hint: add --confirm {confirmed}\n"), typed]);
        let all = refused.stderr + &shown.stdout + &place.flashfit(&["check", name]).stdout;
        let is_part =
            |line: &str| line.trim_start().starts_with("x.img") || line.contains('\u{1b}');
        assert!(!all.lines().any(is_part), "{all}");
        if skip_without_block_devices() {
            continue;
        }
        for confirmation in [confirmed, name] {
            place.flashfit(&["apply", "plan", name, "--confirm", confirmation]).said(0, &[]);
        }
    }
}

#[test]
fn lines_keep_to_80_columns() {
    let place = Place::new();
    place.image("image", 64);
    let long = "a".repeat(60);
    place.image(&long, 64);
    crate::apply::plan(&place, "image", &["--fs", "ext4"]);
    let commands: [&[&str]; 14] = [
        &["plan", "image"],
        &["apply", "plan.json", "image", "--dry-run"],
        &["probe", "image", "--dry-run"],
        &["probe", "image", "--write", "--dry-run"],
        &["check", "image"],
        &["crash", "states", "--help"],
        &["catalog"],
        &["doctor"],
        &["tune", "sim:sd-c4-block", "--dry-run"],
        &["tune", "image", "--dry-run"],
        &["inspect", "image"],
        &["inspect", "sim:sd-c4-block"],
        &["card", "list"],
        &["list"],
    ];
    for args in commands {
        let ended = shown_at(80, place.command(args));
        for line in ended.stdout.lines().chain(ended.stderr.lines()) {
            // Long words such as paths stay whole.
            let longest = line.split(' ').map(|word| word.chars().count()).max();
            let is_wide = line.chars().count() > 80 && longest < Some(50);
            assert!(!is_wide, "{args:?}: {line}");
        }
    }
}

#[test]
fn something_else_than_a_device_is_refused_with_a_hint_that_is_true() {
    let place = Place::new();
    std::fs::write(place.path("tiny"), [0; 100]).unwrap();
    place.flashfit(&["check", "tiny"]).said(2, &["tiny has 100 B", "less than a sector", "hint: "]);
    place.flashfit(&["wear", "show", ""]).said(2, &["it is empty"]);
    place.flashfit(&["wear", "show", "sim:nope"]).said(2, &["unknown card `nope`", "known are"]);
    place.flashfit(&["wear", "show", "sim:sd-c4-block"]).said(2, &["flashfit card serve sd-c4"]);
    let estimate = ["wear", "estimate", "none", "--class", "sd-c10-log", "--fs", "ext4"];
    let estimate = [&estimate[..], &["--usage", "router"]].concat();
    place.flashfit(&estimate).said(2, &["there is no none", "flashfit wear estimate sd-c10-log"]);
    std::fs::write(place.path("empty"), "").unwrap();
    let bench = ["card", "bench", "sd-c4-block", "--blocks", "1", "--against", "empty"];
    place.flashfit(&bench).said(2, &["empty:1: the table has no row", "hint: "]);
}

#[test]
fn a_full_output_is_an_error_with_a_hint() {
    let place = Place::new();
    for args in [&["card", "list"][..], &["card", "list", "--json"], &["--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = Ended::new(place.command(args).stdout(full).output().unwrap());
        ended.said(4, &["cannot write to standard output", "hint: make room"]);
    }
}
