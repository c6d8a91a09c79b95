//! The damage that a power cut can cause with a setup, on an ordered scale.
//!
//! Limits: the scale assumes a device that keeps acknowledged writes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The damage that a power cut can cause, from the least to the most.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Synced data is kept, and the file system is consistent; exceptions of a file system are
    /// named as its risk.
    #[default]
    Safe,
    /// Synced data is kept and the file system is consistent, but recent unsynced files that the
    /// default would keep can be lost or have wrong content.
    LosesRecent,
    /// Synced data can be lost; the file system is consistent.
    BreaksPromise,
    /// The file system can be damaged.
    MayCorrupt,
}

impl Durability {
    /// The name in the catalog and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::LosesRecent => "loses-recent",
            Self::BreaksPromise => "breaks-promise",
            Self::MayCorrupt => "may-corrupt",
        }
    }
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// The risk of one option.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Risk {
    /// The name of the option, or `base` for a risk of the file system itself.
    pub option: String,
    /// Its place on the scale.
    pub durability: Durability,
    /// What a power cut does, as a sentence.
    pub risk: String,
}

/// The risks of a setup.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DurabilityVerdict {
    /// The worst of the risks.
    pub durability: Durability,
    /// The file system where it is not safe itself or an exception is known, and every option that
    /// is not safe, in catalog order.
    pub risks: Vec<Risk>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_ordered_and_its_names_are_those_of_json() {
        let scale = [
            Durability::Safe,
            Durability::LosesRecent,
            Durability::BreaksPromise,
            Durability::MayCorrupt,
        ];
        assert!(scale.is_sorted());
        for step in scale {
            assert_eq!(serde_json::to_string(&step).unwrap(), format!("\"{step}\""));
        }
    }
}
