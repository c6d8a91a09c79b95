//! Tags that select places, as in labgrid's reservations (`remote/common.py`).
//!
//! The key `name` selects a place by its name, as in labgrid's scheduler.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::error::LabError;

/// Tags that a place must have; at least one. Example: `board=imx8,media=sd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tags(BTreeMap<String, String>);

/// The key that selects a place by its name.
const NAME: &str = "name";

const NO_VALUE: &str = "a tag is a name, an equals sign and a value";
const BAD_KEY: &str = "the name of a tag has at least two characters, begins with a letter, and \
                       has only lowercase letters, digits and _";
const BAD_VALUE: &str = "a value is not empty and contains no blank, comma or equals sign";

impl Tags {
    /// Selects the place of this name.
    ///
    /// # Errors
    /// [`LabError::BadTags`] if labgrid does not accept such a name.
    pub fn named(place: &str) -> Result<Self, LabError> {
        if !is_value(place) {
            return Err(LabError::BadTags { text: format!("{NAME}={place}"), reason: BAD_VALUE });
        }
        Ok(Self(BTreeMap::from([(NAME.to_owned(), place.to_owned())])))
    }

    /// Whether the place `name` with the tags `given` has all these tags.
    pub(crate) fn match_place(&self, name: &str, given: &BTreeMap<String, String>) -> bool {
        self.0
            .iter()
            .all(|(key, value)| given.get(key) == Some(value) || (key == NAME && value == name))
    }

    /// `key=value`, one for each tag.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|(key, value)| format!("{key}={value}"))
    }
}

/// labgrid requires at least two characters.
fn is_key(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.len() >= 2 && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(inner)
}

/// Accepts more than labgrid documents, because names of places may contain dashes and dots.
fn is_value(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c == '=' || c == ',' || c.is_whitespace())
}

impl FromStr for Tags {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let bad = |reason| LabError::BadTags { text: text.to_owned(), reason };
        let mut tags = BTreeMap::new();
        for pair in text.split(',') {
            let (key, value) = pair.split_once('=').ok_or_else(|| bad(NO_VALUE))?;
            if !is_key(key) {
                return Err(bad(BAD_KEY));
            }
            if !is_value(value) {
                return Err(bad(BAD_VALUE));
            }
            if tags.insert(key.into(), value.into()).is_some() {
                return Err(bad("a name occurs twice"));
            }
        }
        Ok(Self(tags))
    }
}

impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pairs().collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_parsed_and_formatted() {
        let tags: Tags = "media=sd,board=imx8".parse().unwrap();
        assert_eq!(tags.to_string(), "board=imx8,media=sd");
        assert_eq!(tags.pairs().collect::<Vec<_>>(), ["board=imx8", "media=sd"]);
    }

    #[test]
    fn tags_that_labgrid_rejects_are_refused() {
        for text in ["", "imx8", "b=1", "Board=1", "board=", "board=a=b", "board=a,board=b", "-x=1"]
        {
            assert!(text.parse::<Tags>().is_err(), "{text:?} was taken");
        }
        assert!(Tags::named("rack 1").is_err());
        let why = |text: &str| text.parse::<Tags>().unwrap_err().to_string();
        assert!(why("a=b").contains("at least two characters"), "{}", why("a=b"));
        assert!(why("imx8").contains("an equals sign"), "{}", why("imx8"));
        assert!(why("board=a,board=b").contains("twice"), "{}", why("board=a,board=b"));
    }

    #[test]
    fn all_tags_must_match_and_name_selects_by_name() {
        let given = BTreeMap::from([("media".to_owned(), "sd".to_owned())]);
        let meets = |text: &str| text.parse::<Tags>().unwrap().match_place("board1", &given);
        assert!(meets("media=sd"));
        assert!(meets("media=sd,name=board1"));
        assert!(!meets("media=sd,name=board2"));
        assert!(!meets("media=sd,board=imx8"));
    }
}
