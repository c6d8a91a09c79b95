//! Which SMART attributes of ATA drives count wear, and in which unit: `catalog/counters/ata.toml`.

use std::path::Path;

use flashfit_catalog::{CatalogEntryError, Origin, entries};
use flashfit_device::Bytes;
use flashfit_user_error::{ExitClass, UserError};
use serde::Deserialize;

use crate::counter::{CounterUnit, WearCounter, WearQuantity};

const FOLDER: &str = "counters";
const ENTRY: &str = "ata";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttributeUnit {
    /// The drive's logical sector.
    Sector,
    Size(Bytes),
    Page,
    Count,
    Percent,
}

impl TryFrom<String> for AttributeUnit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "sector" => Ok(Self::Sector),
            "page" => Ok(Self::Page),
            "count" => Ok(Self::Count),
            "percent" => Ok(Self::Percent),
            size => match size.parse() {
                Ok(Bytes(0)) | Err(_) => Err(format!(
                    "`{size}` is not sector, page, count, percent or a size such as 32MiB"
                )),
                Ok(bytes) => Ok(Self::Size(bytes)),
            },
        }
    }
}

/// Which value of an attribute counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AttributeField {
    #[default]
    Raw,
    /// The normalized value, which falls from 100.
    Left,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attribute {
    names: Vec<String>,
    measures: WearQuantity,
    #[serde(deserialize_with = "unit")]
    unit: AttributeUnit,
    #[serde(default)]
    field: AttributeField,
}

fn unit<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<AttributeUnit, D::Error> {
    String::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtaAttributes {
    attribute: Vec<Attribute>,
}

#[derive(Debug, thiserror::Error)]
pub enum AtaAttributesError {
    #[error(transparent)]
    Entry(#[from] CatalogEntryError),
    #[error("{origin}: {reason}")]
    Invalid { origin: Origin, reason: String },
}

impl UserError for AtaAttributesError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }
}

/// An attribute as smartctl prints it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttributeValue<'a> {
    pub(crate) name: &'a str,
    pub(crate) raw: Option<u128>,
    pub(crate) normalized: Option<u64>,
}

impl AtaAttributes {
    /// Loads them from the catalog; `user` is the user's catalog folder.
    pub fn load(user: Option<&Path>) -> Result<Self, AtaAttributesError> {
        let mut attribute = Vec::new();
        for entry in entries(FOLDER, "toml", user)?.iter().filter(|entry| entry.name == ENTRY) {
            let invalid =
                |reason| AtaAttributesError::Invalid { origin: entry.origin.clone(), reason };
            attribute.extend(Self::parse(&entry.text).map_err(invalid)?.attribute);
        }
        Ok(Self { attribute })
    }

    /// Parses a file of the catalog.
    ///
    /// # Errors
    /// The reason, if the file is not valid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Self = flashfit_catalog::from_toml(text).map_err(|error| error.to_string())?;
        match file.attribute.iter().find(|one| !one.is_consistent()) {
            Some(attribute) => Err(format!(
                "`{}`: the unit does not fit to what it measures",
                attribute.names.join(", ")
            )),
            None => Ok(file),
        }
    }

    /// The counter in an attribute; `None` if it does not count wear.
    pub(crate) fn counter(
        &self,
        value: AttributeValue<'_>,
        sector_bytes: u64,
    ) -> Option<WearCounter> {
        let known =
            self.attribute.iter().find(|one| one.names.iter().any(|name| name == value.name))?;
        let id = format!("ata.{}", value.name.to_lowercase());
        let source = format!("smartctl, attribute {}", value.name);
        let raw = match known.field {
            AttributeField::Raw => value.raw?,
            AttributeField::Left => u128::from(100u64.checked_sub(value.normalized?)?),
        };
        let in_steps = |bytes| WearCounter::bytes(&id, known.measures, raw, bytes, &source);
        match known.unit {
            AttributeUnit::Sector => in_steps(sector_bytes),
            AttributeUnit::Size(size) => in_steps(size.0),
            AttributeUnit::Page => {
                let counter = WearCounter::count(&id, known.measures, raw, &source)?;
                Some(WearCounter { unit: CounterUnit::Pages, ..counter })
            }
            AttributeUnit::Count => WearCounter::count(&id, known.measures, raw, &source),
            AttributeUnit::Percent => {
                let percent = u64::try_from(raw).ok().filter(|percent| *percent <= 255)?;
                // A normalized value ends at 1.
                let most = if known.field == AttributeField::Left { 99 } else { 255 };
                Some(WearCounter::percent(&id, known.measures, (percent, 1, most), &source))
            }
        }
    }
}

impl Attribute {
    fn is_consistent(&self) -> bool {
        use WearQuantity as Q;
        let fits = match self.unit {
            AttributeUnit::Sector | AttributeUnit::Size(_) => matches!(
                self.measures,
                Q::HostWritten | Q::HostRead | Q::HostDiscarded | Q::FlashWritten
            ),
            AttributeUnit::Page => {
                matches!(self.measures, Q::FlashWrittenForHost | Q::FlashWrittenByController)
            }
            AttributeUnit::Count => matches!(
                self.measures,
                Q::ErasesTotal | Q::ErasesMean | Q::ErasesMost | Q::ErasesLeast | Q::PowerLosses
            ),
            AttributeUnit::Percent => matches!(self.measures, Q::LifeUsed | Q::SparesUsed),
        };
        fits && (self.field == AttributeField::Raw || self.unit == AttributeUnit::Percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(name: &str, raw: u128, normalized: u64) -> Option<WearCounter> {
        let value = AttributeValue { name, raw: Some(raw), normalized: Some(normalized) };
        AtaAttributes::load(None).unwrap().counter(value, 512)
    }

    #[test]
    fn the_unit_is_in_the_name() {
        let bytes = |name| counter(name, 3, 100).map(|counter| (counter.value, counter.step));
        assert_eq!(bytes("Total_LBAs_Written"), Some((3 * 512, 512)));
        assert_eq!(bytes("Host_Writes_32MiB"), Some((3 << 25, 1 << 25)));
        assert_eq!(bytes("Host_Writes_GiB"), Some((3 << 30, 1 << 30)));
        assert_eq!(bytes("Reallocated_Sector_Ct"), None);
        assert!(counter("Total_LBAs_Written", u128::MAX, 100).is_none());
    }

    #[test]
    fn life_left_becomes_life_used() {
        let used = counter("Media_Wearout_Indicator", 0, 97).unwrap();
        assert_eq!((used.value, used.unit, used.is_saturated), (3, CounterUnit::Percent, false));
        assert!(counter("SSD_Life_Left", 0, 1).unwrap().is_saturated);
        assert!(counter("SSD_Life_Left", 0, 253).is_none(), "more than 100 % left");
    }

    #[test]
    fn a_unit_that_does_not_fit_is_refused() {
        let file = |unit: &str| {
            format!(
                "[[attribute]]\nnames = [\"X\"]\nmeasures = \"erases_mean\"\nunit = \"{unit}\"\n"
            )
        };
        assert!(AtaAttributes::parse(&file("count")).is_ok());
        for unit in ["32MiB", "percent", "0", "parsec"] {
            assert!(AtaAttributes::parse(&file(unit)).is_err(), "{unit}");
        }
    }
}
