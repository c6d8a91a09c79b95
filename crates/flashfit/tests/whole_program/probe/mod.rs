//! `flashfit probe`: results, refusals, exit codes, and use of a result by other commands.

mod free_space;
mod import;
mod lost;
mod reading;
mod saved;
mod writing;

use serde_json::Value;

use crate::fixture::{Ended, FAST_CARD, Place};

/// The JSON document of a probe with exit code `code`.
#[track_caller]
fn document(ended: &Ended, code: i32) -> Value {
    assert_eq!(ended.code, Some(code), "{ended:#?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "flashfit.probe");
    assert_eq!(document["schema_version"], 1);
    document
}

/// A card with erase blocks of 4 MiB, on which reads across a boundary take longer.
fn card_that_shows_its_units(place: &Place) -> String {
    let layer = "kind = \"page-mapped\"\n";
    let changes = [
        ("160MiB", "384MiB"),
        ("erase_unit = \"1MiB\"", "erase_unit = \"4MiB\""),
        ("read_ns = 1000", "read_ns = 60_000"),
        ("command_ns = 1000", "command_ns = 300_000"),
        (layer, &format!("{layer}lookup_ns = 60_000\n")),
    ];
    let text = changes.iter().fold(FAST_CARD.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    place.file("shows.toml", &text);
    format!("sim:{}", place.arg("shows.toml"))
}

/// The quantities in every document.
const QUANTITIES: [&str; 11] = [
    "capacity",
    "page",
    "write_unit",
    "erase_unit",
    "erase_unit_offset",
    "open_units_linear",
    "open_units_random",
    "small_write_log",
    "special_zone",
    "pslc_cache",
    "unwritten_is_faster",
];
