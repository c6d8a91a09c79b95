//! Serializes the card model within a snapshot as card file text, so that loading validates it.

use flashfit_catalog::Origin;
use serde::{Deserialize, Deserializer, Serializer, de, ser};

use crate::model::CardModel;

pub fn serialize<S: Serializer>(model: &CardModel, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&toml::to_string(model).map_err(ser::Error::custom)?)
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CardModel, D::Error> {
    let text = String::deserialize(deserializer)?;
    let origin = Origin::File("the saved card".into());
    CardModel::parse(&text, &origin).map_err(de::Error::custom)
}
