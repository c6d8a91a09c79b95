//! The effects of a power cut, by name.
//!
//! The first two occur on correct devices; the others are device faults, for which a file system is
//! not to blame. Sources: Zheng et al., "Understanding the robustness of SSDs under power fault"
//! (FAST 2013): bit corruption, shorn writes, unserializable writes, metadata corruption, dead
//! devices; Tseng, Grupp and Swanson, "Understanding the impact of power loss on flash memory"
//! (DAC 2011): paired pages; Ahmadian et al. (2018): writes lost up to 700 ms after acknowledgment;
//! Bradley for OLPC (linux-mmc, 2010): SD cards that die when power is cut within 1.6 s of a write;
//! Datalight (2018): pages that can be read only once.
//! when the power goes within 1.6 s of a write; Datalight (2018): pages that can be read once.

use std::fmt;
use std::str::FromStr;

use flashfit_user_error::{ExitClass, Hint, UserError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum FaultClass {
    /// Loses unflushed cache contents, as far as the cache order allows.
    LostCache,
    /// Tears requests in progress at write units.
    TornWrite,
    /// Tears requests in progress at sectors of 512 bytes.
    TornSector,
    /// Destroys the page that shares its cells with an interrupted program operation.
    PairedPage,
    /// Reverts the mapping to an earlier state.
    Rollback,
    /// Treats a merge in progress as complete.
    HalfMerge,
    /// Destroys an erase block or the card if power is cut soon after a write.
    FoldingWindow,
    /// Limits the number of further reads of a page.
    WeakPage,
    /// Restores discarded data.
    StaleDiscard,
    /// The card never responds again.
    Brick,
}

/// Name, description, and the default and maximum of its value, if it takes one.
struct Facts {
    name: &'static str,
    title: &'static str,
    value: Option<(u64, u64)>,
}

impl FaultClass {
    /// All classes in the order of their numbers, from 1.
    pub const ALL: [Self; 10] = [
        Self::LostCache,
        Self::TornWrite,
        Self::TornSector,
        Self::PairedPage,
        Self::Rollback,
        Self::HalfMerge,
        Self::FoldingWindow,
        Self::WeakPage,
        Self::StaleDiscard,
        Self::Brick,
    ];

    fn facts(self) -> Facts {
        let (name, title, value) = match self {
            Self::LostCache => (
                "lost-cache",
                "writes that no flush confirmed are lost; value: thousandths that are kept, by \
                 chance where it is not said",
                Some((500, 1000)),
            ),
            Self::TornWrite => (
                "torn-write",
                "of a write under way some write units are there; value: thousandths of the torn \
                 ones that take all their sectors along",
                Some((0, 1000)),
            ),
            Self::TornSector => {
                ("torn-sector", "of a write under way some sectors of 512 bytes are there", None)
            }
            Self::PairedPage => (
                "paired-page",
                "a write under way destroys flushed data that shares its cells",
                None,
            ),
            Self::Rollback => (
                "rollback",
                "the last writes are undone, flushed or not; value: milliseconds",
                Some((700, 700)),
            ),
            Self::HalfMerge => {
                ("half-merge", "an erase block under merge is left half empty", None)
            }
            Self::FoldingWindow => (
                "folding-window",
                "within 1.6 s of a write an erase block or the card is lost; value: thousandths \
                 of probability",
                Some((500, 1000)),
            ),
            Self::WeakPage => (
                "weak-page",
                "the page written last is soon unreadable; value: how many more reads it takes",
                Some((1, 1_000_000)),
            ),
            Self::StaleDiscard => (
                "stale-discard",
                "discarded data comes back, old or garbled; value: thousandths of it",
                Some((1000, 1000)),
            ),
            Self::Brick => ("brick", "the card never answers again", None),
        };
        Facts { name, title, value }
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// The effect and the meaning of its value, in one line.
    pub fn title(self) -> &'static str {
        self.facts().title
    }

    /// Whether correct devices show this effect.
    pub fn is_honest(self) -> bool {
        matches!(self, Self::LostCache | Self::TornWrite)
    }
}

impl fmt::Display for FaultClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An enabled class, written as `NAME` or `NAME=VALUE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct EnabledFault {
    pub class: FaultClass,
    pub value: Option<u64>,
}

impl EnabledFault {
    /// Enables a class with its default value.
    pub fn new(class: FaultClass) -> Self {
        Self { class, value: None }
    }

    /// The value, or the default; 0 for a class without a value.
    pub fn value_or_default(self) -> u64 {
        let default = self.class.facts().value.map_or(0, |(default, _)| default);
        self.value.unwrap_or(default)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    #[error("unknown fault `{0}`")]
    Unknown(String),
    #[error("`{0}` takes no value")]
    NoValue(FaultClass),
    /// Not a whole number, or too large.
    #[error("`{class}` needs a whole number up to {most}, not `{value}`")]
    Value { class: FaultClass, value: String, most: u64 },
}

impl UserError for FaultError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    fn hint(&self) -> Option<Hint> {
        let Self::Unknown(_) = self else { return None };
        Some(format!("there are {}", FaultClass::ALL.map(FaultClass::name).join(", ")).into())
    }
}

impl FromStr for FaultClass {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let found = Self::ALL.into_iter().find(|class| class.name() == text);
        found.ok_or_else(|| FaultError::Unknown(text.to_owned()))
    }
}

impl FromStr for EnabledFault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let Some((name, value)) = text.split_once('=') else {
            return Ok(Self::new(text.parse()?));
        };
        let class: FaultClass = name.parse()?;
        let (_, most) = class.facts().value.ok_or(FaultError::NoValue(class))?;
        match value.parse() {
            Ok(number) if number <= most => Ok(Self { class, value: Some(number) }),
            _ => Err(FaultError::Value { class, value: value.to_owned(), most }),
        }
    }
}

impl fmt::Display for EnabledFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "{}={value}", self.class),
            None => write!(f, "{}", self.class),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_survive_writing_and_parsing() {
        for text in ["lost-cache", "rollback=250", "brick", "weak-page=0"] {
            assert_eq!(text.parse::<EnabledFault>().unwrap().to_string(), text);
        }
        for class in FaultClass::ALL {
            assert_eq!(class.name().parse(), Ok(class));
            assert!(class.title().len() > 20);
        }
    }

    #[test]
    fn invalid_faults_are_rejected_with_the_reason() {
        let refused = |text: &str| text.parse::<EnabledFault>().unwrap_err();
        assert!(refused("tornwrite").hint().unwrap().contains("torn-write"));
        assert_eq!(refused("brick=1").to_string(), "`brick` takes no value");
        assert!(refused("rollback=701").to_string().contains("up to 700"));
        assert!(refused("rollback=-1").to_string().contains("not `-1`"));
    }
}
