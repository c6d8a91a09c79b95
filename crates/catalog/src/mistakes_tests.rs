//! Mistakes that are found together, in a small definition with all forms of values.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Whole {
    name: Spanned<String>,
    title: String,
    kind: Kind,
    part: Part,
    spare: Option<Part>,
    #[serde(default)]
    stage: Vec<Stage>,
    #[serde(default)]
    flags: BTreeMap<String, Vec<u8>>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    BigOne,
    SmallOne,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Part {
    size: u32,
    names: Vec<String>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Stage {
    on: bool,
    kind: Kind,
}

const GOOD: &str = "name = 'x'\ntitle = 't'\nkind = 'big-one'\n[part]\nsize = 1\nnames = []\n\
    [[stage]]\non = true\nkind = 'small-one'\n[[stage]]\non = false\nkind = 'big-one'\n";

fn found(text: &str) -> Vec<String> {
    let read = read_toml::<Whole>(text);
    FileMistakes::new(&Origin::File("f".into()), read.mistakes)
        .to_string()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_good_text_has_no_mistakes() {
    let read = read_toml::<Whole>(GOOD);
    assert_eq!((read.value, read.mistakes.len()), (Some(toml::from_str(GOOD).unwrap()), 0));
}

#[test]
fn unknown_missing_and_wrong_are_found_together() {
    let text = GOOD
        .replace("title = 't'", "titel = 't'\nmore = 3")
        .replace("size = 1\n", "size = 'big'\nsice = 2\n")
        .replace("on = true\nkind = 'small-one'", "kind = 'smal-one'")
        .replace("on = false", "on = 0");
    let lines = found(&text);
    for (line, part) in [
        (1, "missing field `title`"),
        (2, "unknown field `titel`"),
        (2, "did you mean `title`?"),
        (3, "unknown field `more`"),
        (6, "invalid type: string \"big\", expected u32"),
        (7, "unknown field `sice`"),
        (9, "missing field `on`"),
        (10, "unknown variant `smal-one`"),
        (10, "did you mean `small-one`?"),
        (12, "invalid type: integer `0`"),
    ] {
        let known =
            |found: &String| found.starts_with(&format!("f:{line}: ")) && found.contains(part);
        assert!(lines.iter().any(known), "{line}: {part}: {lines:#?}");
    }
    assert_eq!(lines.len(), 8, "{lines:#?}");
}

#[test]
fn a_missing_section_is_one_mistake() {
    let lines = found("name = 'x'\nkind = 'big-one'\nflags = { a = [1, 'b'] }\n");
    assert_eq!(lines.len(), 3, "{lines:#?}");
}

#[test]
fn a_text_without_form_has_the_mistakes_of_its_form() {
    let lines = found("name = \ntitle = 3 4\n");
    assert_eq!(lines.len(), 2, "{lines:#?}");
}
