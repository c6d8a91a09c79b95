//! Tests of usage models.

use flashfit_catalog::{Origin, entries};

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
    let UsageError::Mistakes(found) = &error else { panic!("{error}") };
    let told = error.to_string();
    let line = |start: &str| text.lines().position(|line| line.starts_with(start)).unwrap() + 1;
    let expected = [
        (line("gb_a_day"), "writes.recording.gb_a_day: wrong unit; expected `gib_a_day`"),
        (line("[writes.recording]"), "writes.recording.gib_a_day: is missing"),
        (line("minutes_a_day"), "active.minutes_a_day: wrong unit; expected `hours_a_day`"),
        (line("[fil]"), "fil: unknown key; did you mean `fill`?"),
        (1, "fill: the section is missing"),
        (line("interval"), "trim.interval: expected"),
    ];
    for (line, reason) in expected {
        let mistake = format!("mine.toml:{line}: {reason}");
        assert!(told.contains(&mistake), "{mistake} not in {told}");
    }
    assert!(found.mistakes.len() >= 6);
    let first = found.mistakes[0].line;
    assert_eq!(error.hint(), Some(format!("${{EDITOR:-vi}} +{first} mine.toml").into()));
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_line() {
    let error = parsed("title = \"x\"\nwrites = [\n").unwrap_err().to_string();
    assert!(error.contains("mine.toml:2: "), "{error}");
}
