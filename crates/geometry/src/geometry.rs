//! A geometry, each of its quantities with where it comes from.

use std::fmt;

use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

/// Where a quantity of the geometry comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuantitySource {
    /// The user gave it, on the command line or in a configuration.
    Given,
    /// A register or attribute of the device declares it; the text names it.
    Declared(String),
    /// A card model states it, so it is exact.
    Modelled,
    /// A timing probe found it.
    Probed,
    /// It was published for another device; the text names what published it.
    Published(String),
}

impl fmt::Display for QuantitySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("given by the user"),
            Self::Declared(place) => write!(f, "declared ({place})"),
            Self::Modelled => f.write_str("from the card model"),
            Self::Probed => f.write_str("probed"),
            Self::Published(place) => write!(f, "of another medium ({place})"),
        }
    }
}

/// A quantity and its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sourced {
    /// The value.
    pub bytes: Bytes,
    /// Where it comes from.
    pub source: QuantitySource,
}

impl Sourced {
    /// A value with its source.
    pub fn new(bytes: Bytes, source: QuantitySource) -> Self {
        Self { bytes, source }
    }
}

/// What is known of how a device is built.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// The erase block (erase block, allocation unit).
    pub erase_unit: Option<Sourced>,
    /// The pages that are written together.
    pub write_unit: Option<Sourced>,
}

impl Geometry {
    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        self.erase_unit.is_none() && self.write_unit.is_none()
    }

    /// This geometry, with what is missing taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            erase_unit: self.erase_unit.or(other.erase_unit),
            write_unit: self.write_unit.or(other.write_unit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_goes_before_what_is_declared() {
        let given = Geometry {
            erase_unit: Some(Sourced::new(Bytes::mib(8), QuantitySource::Given)),
            write_unit: None,
        };
        let declared = Geometry {
            erase_unit: Some(Sourced::new(Bytes::mib(4), QuantitySource::Declared("SSR".into()))),
            write_unit: Some(Sourced::new(Bytes::kib(16), QuantitySource::Declared("SSR".into()))),
        };
        let both = given.or(declared);
        assert_eq!(both.erase_unit.unwrap().bytes, Bytes::mib(8));
        assert_eq!(both.write_unit.unwrap().bytes, Bytes::kib(16));
    }
}
