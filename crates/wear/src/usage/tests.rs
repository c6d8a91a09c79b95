//! Tests of usage models.

use flashfit_catalog::entries;

use super::*;

fn parsed(text: &str) -> Result<UsageModel, UsageError> {
    parse(&CatalogEntry {
        name: "mine".to_owned(),
        text: text.to_owned(),
        origin: Origin::File("mine.toml".into()),
    })
}

#[test]
fn every_usage_model_of_the_catalog_is_valid() {
    let known = entries("usage", "toml", None).unwrap();
    assert!(known.len() >= 6);
    for entry in &known {
        let usage = parse(entry).unwrap();
        assert!(usage.gib_a_day() > 0.0);
        assert!(usage.writes.iter().all(|(_, gib)| !gib.source.is_empty()));
    }
}

#[test]
fn all_mistakes_are_reported_together() {
    let text = entries("usage", "toml", None).unwrap()[0]
        .text
        .replace("[writes.recording]\ngib_a_day", "[writes.recording]\ngb_a_day")
        .replace("[active]\nhours_a_day", "[active]\nminutes_a_day")
        .replace("[fill]", "[fil]")
        .replace("interval = \"never\"", "interval = \"monthly\"");
    let error = parsed(&text).unwrap_err();
    let UsageError::Invalid { mistakes, .. } = &error else { panic!("{error}") };
    let text = error.to_string();
    for expected in [
        "writes.recording.gb_a_day: wrong unit; expected `gib_a_day`",
        "writes.recording.gib_a_day: is missing",
        "active.minutes_a_day: wrong unit; expected `hours_a_day`",
        "fil: unknown key; did you mean `fill`?",
        "fill: the section is missing",
        "trim.interval: expected",
    ] {
        assert!(text.contains(expected), "{expected} not in {text}");
    }
    assert!(mistakes.len() >= 6);
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_line() {
    let error = parsed("title = \"x\"\nwrites = [\n").unwrap_err().to_string();
    assert!(error.contains("line"), "{error}");
}
