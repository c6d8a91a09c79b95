//! The small card of the simulator's own tests, and variations of it.

use flashfit_card::{CardModel, ModelError};
use flashfit_catalog::Origin;

pub(crate) const SMALL: &str = include_str!("../../card/src/model/small.toml");

pub(crate) fn parse(text: &str) -> Result<CardModel, ModelError> {
    CardModel::parse(text, &Origin::File("test.toml".into()))
}

/// The small card with each `from` replaced by its `to`.
pub(crate) fn small_with(changes: &[(&str, &str)]) -> Result<CardModel, ModelError> {
    let mut text = SMALL.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    parse(&text)
}
