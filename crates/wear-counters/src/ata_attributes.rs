//! Which SMART attributes of ATA drives count wear, and in which unit: `catalog/counters/ata.toml`.

use std::path::Path;

use flashfit_catalog::{
    CatalogEntry, CatalogEntryError, FileMistake, FileMistakes, entries, line_of_key, read_entry,
};
use flashfit_device::Bytes;
use flashfit_user_error::{ExitClass, Hint, UserError};
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
    #[error(transparent)]
    Mistakes(#[from] FileMistakes),
}

impl UserError for AtaAttributesError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Entry(error) => error.hint(),
            Self::Mistakes(found) => found.hint(),
        }
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
            attribute.extend(Self::parse(entry)?.attribute);
        }
        Ok(Self { attribute })
    }

    fn parse(entry: &CatalogEntry) -> Result<Self, FileMistakes> {
        let file: Self = read_entry(entry)?;
        let wrong = file.attribute.iter().enumerate().filter(|(_, one)| !one.is_consistent());
        let mistakes: Vec<FileMistake> = wrong
            .map(|(at, attribute)| FileMistake {
                line: line_of_key(&entry.text, &format!("attribute.{at}.unit")),
                reason: format!(
                    "unit: that of `{}` does not fit what it measures",
                    attribute.names.join(", ")
                ),
            })
            .collect();
        if mistakes.is_empty() { Ok(file) } else { Err(FileMistakes::new(&entry.origin, mistakes)) }
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
    fn a_unit_that_does_not_fit_is_refused_with_its_line() {
        let user = tempfile::tempdir().unwrap();
        std::fs::create_dir(user.path().join("counters")).unwrap();
        let load = |unit: &str| {
            let good = "[[attribute]]\nnames = [\"X\"]\nmeasures = \"erases_mean\"\nunit = ";
            let text = format!("{good}\"count\"\n{good}\"{unit}\"\n");
            std::fs::write(user.path().join("counters/ata.toml"), text).unwrap();
            AtaAttributes::load(Some(user.path()))
        };
        assert!(load("count").is_ok());
        for unit in ["32MiB", "percent", "0", "parsec"] {
            let error = load(unit).unwrap_err();
            assert!(error.to_string().contains("counters/ata.toml:8: "), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains(" +8 ")), "{error}");
        }
    }
}
