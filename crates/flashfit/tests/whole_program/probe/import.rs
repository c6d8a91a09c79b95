//! Probes from tables of flashbench instead of a device.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::fixture::{Place, skip_without_block_devices};
use crate::machine::PlainLoop;

use super::document;

fn published(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../geometry/tests/data/flashbench");
    folder.join(name)
}

/// A copy of a published table in the test directory.
fn copied(place: &Place, name: &str, as_name: &str) {
    std::fs::copy(published(name), place.path(as_name)).unwrap();
}

#[test]
fn tables_of_one_device_are_combined() {
    let place = Place::new();
    copied(&place, "card-3/align-run-3_2.1.txt", "a.txt");
    copied(&place, "card-3/open-au-run-3_2.txt", "open-au.txt");
    let args = ["probe", "--import", "a.txt", "--import", "open-au.txt", "--json"];
    let found = document(&place.flashfit(&args), 0);
    assert_eq!(found["mode"], "import");
    assert_eq!(found["target"], "a.txt, open-au.txt");
    assert_eq!(found["region"], serde_json::Value::Null);
    assert_ne!(found["open_units_linear"]["verdict"], "not measured");
    assert_ne!(found["erase_unit"]["verdict"], "not measured");
    let command = found["next"]["commands"][0].as_str().unwrap();
    assert!(command.starts_with("flashfit plan /dev/YOUR-CARD"), "{command}");
}

/// Forty copies of this table made an erase block of 5 MiB certain.
#[test]
fn a_table_that_is_named_twice_counts_once() {
    let place = Place::new();
    copied(&place, "card-3/open-au-run-3_4.txt", "open-au.txt");
    let once = ["probe", "--json", "--import", "open-au.txt"];
    let once = document(&place.flashfit(&once), 0);
    let args = [&["probe", "--json"][..], &["--import", "open-au.txt"].repeat(20)].concat();
    let often = document(&place.flashfit(&args), 0);
    for quantity in super::QUANTITIES {
        assert_eq!(often[quantity], once[quantity], "{quantity}");
    }
    let notes = often["notes"].to_string();
    assert!(notes.contains("19 tables repeat others; each counts once"), "{notes}");
}

#[test]
fn invalid_tables_are_reported_with_line_or_reason() {
    let place = Place::new();
    place.file("empty.txt", "");
    place.file("poem.txt", "Tiger, tiger, burning bright\n");
    place.file("cut.txt", "align 4194304\tpre 1.2");
    std::fs::write(place.path("junk"), [0xff, 0x00, 0x80, 0xfe].repeat(1000)).unwrap();
    for (file, text) in [
        ("empty.txt", "the file is empty"),
        ("poem.txt", "line 1"),
        ("cut.txt", "line 1"),
        ("junk", "line 1"),
        ("nothing.txt", "cannot read nothing.txt"),
        (".", "cannot read ."),
    ] {
        let ended = place.flashfit(&["probe", "--import", file]);
        ended.said(2, &[text]);
        assert!(ended.stdout.is_empty(), "{}", ended.stdout);
    }
}

/// More than a table can have.
const TOO_LARGE: u64 = 65 << 20;

#[test]
fn what_has_no_end_or_is_too_large_is_refused_with_a_hint() {
    let place = Place::new();
    let fifo = place.path("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::os::unix::fs::symlink("/dev/zero", place.path("link")).unwrap();
    std::fs::File::create(place.path("image.txt")).unwrap().set_len(TOO_LARGE).unwrap();
    let copy = "hint: copy its content to a regular file";
    let begun = Instant::now();
    for (file, text, hint) in [
        ("/dev/zero", "it is a character device, not a regular file", copy),
        ("link", "it is a character device, not a regular file", copy),
        ("fifo", "it is a FIFO, not a regular file", copy),
        ("image.txt", "it is larger than 64 MiB", "hint: check its type: file image.txt"),
    ] {
        let ended = place.flashfit(&["probe", "--import", file]);
        ended.said(2, &[&format!("cannot read {file}: {text}"), hint]);
        assert!(ended.stdout.is_empty(), "{}", ended.stdout);
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_block_device_is_not_imported() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let device = PlainLoop::attach(&place.image("card.img", 1), 512, &["--read-only"]);
    let ended = place.flashfit(&["probe", "--import", &device.node]);
    ended.said(2, &["it is a block device, not a regular file", "hint: copy its content"]);
}

#[test]
fn a_twin_needs_rates_and_a_verdict_does_not() {
    let place = Place::new();
    copied(&place, "card-3/align-run-3_2.1.txt", "a.txt");
    let args = ["probe", "--import", "a.txt", "--twin", "twin.toml", "--json"];
    let ended = place.flashfit(&args);
    ended.said(2, &["too few rates", "or import open-block tables too"]);
    document(&ended, 2);
    assert!(!place.path("twin.toml").exists());
}
