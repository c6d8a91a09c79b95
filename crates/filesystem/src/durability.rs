//! What a power cut may do under a setup: an ordered scale, and the verdict on a whole setup.
//!
//! The scale says what the file system promises on a device that keeps its own promises; a device
//! that loses what it acknowledged makes every setup worse.

use serde::{Deserialize, Serialize};

/// What a power cut may take, from the least harm to the most.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Nothing that was synced is lost, and the file system is sound.
    #[default]
    Safe,
    /// What was synced is kept and the file system is sound, but files written shortly before and
    /// not synced may be lost or hold wrong content where the default would have kept them.
    LosesRecent,
    /// What was synced may be lost; the file system is sound.
    BreaksPromise,
    /// The file system itself may be damaged.
    MayCorrupt,
}

impl Durability {
    /// Its name in the catalog and in JSON.
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

/// What one option puts at risk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Risk {
    /// The option's name, or `base` where the file system itself is what puts it at risk.
    pub option: String,
    /// Its place on the scale.
    pub durability: Durability,
    /// What a power cut does, as a sentence.
    pub risk: String,
}

/// What a whole setup puts at risk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurabilityVerdict {
    /// The worst of them; [`Durability::Safe`] where there is none.
    pub durability: Durability,
    /// The file system where it is not safe itself, and every option that is not, in catalog
    /// order.
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
