//! Read-only probes: they change nothing and report only what can be determined.

use std::path::Path;

use crate::fixture::{Place, skip_without_block_devices};
use crate::machine::PlainLoop;

use super::{QUANTITIES, card_that_shows_its_units, document};

#[test]
fn the_erase_block_of_a_card_is_found_by_reading() {
    let place = Place::new();
    let card = card_that_shows_its_units(&place);
    let found = document(&place.flashfit(&["probe", &card, "--json"]), 0);
    assert_eq!(found["erase_unit"]["verdict"], "found");
    assert_eq!(found["erase_unit"]["bytes"], 4 << 20);
    assert!(found["erase_unit"]["confidence"].as_f64().unwrap() >= 0.95);
    for quantity in QUANTITIES {
        let verdict = found[quantity]["verdict"].as_str().unwrap();
        assert!(["found", "inconclusive", "not measured"].contains(&verdict), "{quantity}");
        assert!(!found[quantity]["reason"].as_str().unwrap().is_empty(), "{quantity}");
    }
    assert_eq!((&found["mode"], &found["simulated"]), (&"read".into(), &true.into()));
    assert_eq!(found["cost"]["written_bytes"], 0);
    let samples = found["evidence"]["samples"].as_array().unwrap().len() as u64;
    assert_eq!(found["cost"]["reads"], samples, "every sample is kept");
    assert_eq!(found["next"]["partition_start_bytes"], 4 << 20);
    let mkfs = found["next"]["mkfs"].as_str().unwrap();
    assert!(mkfs.starts_with("mkfs.ext4 ") && mkfs.contains("stripe-width=1024"), "{mkfs}");
}

#[test]
fn the_seed_determines_the_probed_positions() {
    let place = Place::new();
    let card = card_that_shows_its_units(&place);
    let with = |seed: &str| place.flashfit(&["probe", &card, "--json", "--seed", seed]).stdout;
    assert_eq!(with("5"), with("5"));
    assert_ne!(with("5"), with("6"));
}

#[test]
fn a_terminal_of_80_columns_is_not_overrun() {
    let place = Place::new();
    let card = card_that_shows_its_units(&place);
    let svg = place.arg("evidence.svg");
    let ended = place.flashfit(&["probe", &card, "--svg", &svg]);
    ended.said(0, &[]);
    assert!(ended.stdout.starts_with("SIMULATED CARD"));
    for part in ["erase block          4 MiB (", "Declared:", "What to do next:", "flashfit plan"] {
        assert!(ended.stdout.contains(part), "no `{part}` in {}", ended.stdout);
    }
    for line in ended.stdout.lines().filter(|line| !line.starts_with("    ")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let drawing = std::fs::read_to_string(svg).unwrap();
    assert!(drawing.starts_with("<svg ") && drawing.contains("SIMULATED CARD"));
}

/// After an intended change, `FLASHFIT_BLESS=1` rewrites the golden file.
#[test]
fn the_text_output_matches_the_golden_file() {
    let shown = Place::new().flashfit(&["probe", "sim:sd-c10-log", "--seed", "1"]);
    shown.said(0, &[]);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/probe-sd-c10-log.txt");
    flashfit_test_support::golden(golden, &shown.stdout);
}

#[test]
fn a_file_has_no_geometry_and_is_not_changed() {
    let place = Place::new();
    let image = place.image("card.img", 64);
    let before = std::fs::read(&image).unwrap();
    let found = document(&place.flashfit(&["probe", "card.img", "--json"]), 0);
    for quantity in ["erase_unit", "write_unit", "page"] {
        assert_ne!(found[quantity]["verdict"], "found", "{found}");
        let reason = found[quantity]["reason"].as_str().unwrap();
        assert!(reason.contains("extents may lie anywhere"), "{quantity}: {reason}");
    }
    assert_eq!(found["medium"]["capacity_bytes"], 64 << 20);
    assert_eq!(found["simulated"], false);
    let commands = found["next"]["commands"].to_string();
    assert!(!commands.contains("--write"), "it would erase the file for nothing: {commands}");
    assert!(before == std::fs::read(&image).unwrap(), "a probe that reads has written");
}

#[test]
fn a_device_that_is_write_protected_and_one_of_4_kib_sectors_are_read() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    {
        let protected = PlainLoop::attach(&image, 512, &["--read-only"]);
        document(&place.flashfit(&["probe", &protected.node, "--json"]), 0);
        let write = ["probe", &protected.node, "--write", "--confirm", &protected.name];
        place.flashfit(&write).said(3, &["write-protected", "hint: "]);
    }
    let large = PlainLoop::attach(&image, 4096, &[]);
    let found = document(&place.flashfit(&["probe", &large.node, "--json"]), 0);
    assert_eq!(found["medium"]["sector_bytes"], 4096);
    let lengths = found["evidence"]["samples"].as_array().unwrap().iter();
    assert!(lengths.clone().count() > 0);
    for sample in lengths {
        assert_eq!(sample["length_bytes"].as_u64().unwrap() % 4096, 0);
    }
    let region = ["probe", &large.node, "--region", "512+1MiB"];
    place.flashfit(&region).said(2, &["whole sectors of 4096 bytes"]);
}

#[test]
fn invalid_arguments_are_refused_with_a_hint() {
    let place = Place::new();
    place.image("card.img", 8);
    place.file("tiny.img", &"x".repeat(64 << 10));
    let said = |args: &[&str], texts: &[&str]| {
        place.flashfit(&[&["probe"], args].concat()).said(2, texts);
    };
    said(&[], &["required arguments"]);
    said(&["tiny.img"], &["too few to probe", "hint: "]);
    said(&["nothing.img"], &["there is no nothing.img"]);
    said(&["card.img", "--region", "8MiB"], &["START+LENGTH"]);
    said(&["card.img", "--region", "100+2MiB"], &["is not whole sectors", "--region 1GiB+512MiB"]);
    said(
        &["card.img", "--region", "1GiB+1MiB"],
        &["ends at 1.0 GiB, beyond the end of card.img, which has 8 MiB", "use --region 7MiB+1MiB"],
    );
    said(&["card.img", "--confirm", "card.img"], &["--write"]);
    said(&["card.img", "--max-write", "1MiB"], &["--write"]);
    said(&["card.img", "--import", "x"], &["cannot be used with"]);
    said(&["card.img", "--twin", "twin.toml"], &["add --write"]);
    said(&["card.img", "--output", "none/geometry.json"], &["there is no directory none"]);
    place
        .flashfit(&["probe", "card.img", "--svg", "/dev/null"])
        .said(3, &["it is a character device, not a regular file"]);
    said(&["sim:nothing"], &["nothing"]);
}
