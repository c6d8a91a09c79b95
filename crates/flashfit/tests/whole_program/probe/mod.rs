//! `flashfit probe`: what it finds, what it refuses, how it ends, and what takes up its result.

mod import;
mod lost;
mod reading;
mod saved;
mod writing;

use serde_json::Value;

use crate::fixture::{Ended, FAST_CARD, Place};

/// The document on standard output of a probe that ended with `code`.
#[track_caller]
fn document(ended: &Ended, code: i32) -> Value {
    assert_eq!(ended.code, Some(code), "{ended:#?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "flashfit.probe");
    assert_eq!(document["schema_version"], 1);
    document
}

/// A card on which a read over the boundary of two erase units takes longer, as a target.
fn card_that_shows_its_units(place: &Place) -> String {
    let layer = "kind = \"page-mapped\"\n";
    let text = FAST_CARD.replace(layer, &format!("{layer}lookup_ns = 2000\n"));
    place.file("shows.toml", &text);
    format!("sim:{}", place.arg("shows.toml"))
}

/// The quantities that every document has.
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
