//! Parses card files, and provides a small card for the tests of other modules.

use super::*;

pub(crate) const SMALL: &str = include_str!("small.toml");

pub(crate) fn parse(text: &str) -> Result<CardModel, ModelError> {
    CardModel::parse(text, &Origin::File("test.toml".into()))
}

/// The small card with each `(from, to)` replaced in its text.
pub(crate) fn small_with(changes: &[(&str, &str)]) -> Result<CardModel, ModelError> {
    let mut text = SMALL.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    parse(&text)
}

#[test]
fn a_model_derives_its_geometry() {
    let model = parse(SMALL).unwrap();
    assert_eq!(model.erase_block_bytes(), 65536);
    assert_eq!(model.write_unit_bytes(), 4096);
    assert_eq!((model.capacity_blocks(), model.total_blocks()), (16, 20));
    assert_eq!(model.pages_per_block(), 16);
    assert_eq!(model.queue.depth, 1);
}

#[test]
fn a_model_survives_writing_and_parsing() {
    let model = parse(SMALL).unwrap();
    assert_eq!(parse(&toml::to_string(&model).unwrap()).unwrap(), model);
}

#[test]
fn an_unknown_key_is_rejected_with_file_and_line() {
    let error = small_with(&[("read_ns = 50", "raed_ns = 50")]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("test.toml:9: unknown field `raed_ns`"), "{text}");
    assert!(text.contains("did you mean `read_ns`?"), "{text}");
    assert_eq!(error.class(), ExitClass::Usage);
}

#[test]
fn all_mistakes_of_a_file_are_reported_with_their_lines() {
    let text = small_with(&[
        ("sector_bytes = 512", "sector_bytes = 1000"),
        ("endurance_cycles = 1000", "endurance_cycles = 1000\ncels = 2"),
        ("read_ns = 50", "read_ns = 60_000_000_001"),
        ("[bus]", "[queue]\ndepth = 99\n[bus]"),
    ]);
    let text = text.unwrap_err().to_string();
    for part in ["sector_bytes: ", "unknown field `cels`", "nand.read_ns: ", "queue.depth: "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("test.toml:")).count(), 4, "{text}");
}

#[test]
fn broken_toml_is_rejected_with_its_line() {
    let text = small_with(&[("[bus]", "[bus")]).unwrap_err().to_string();
    assert!(text.starts_with("test.toml:14: "), "{text}");
}
