//! A geometry whose quantities record their source.

use std::fmt;

use flashfit_device::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuantitySource {
    /// Given by the user on the command line or in a configuration file.
    Given,
    /// Declared by the device; the text names the register or attribute.
    Declared(String),
    /// Exact, from a card model.
    Modelled,
    /// Inferred by a timing probe.
    Probed,
    /// The most likely value of a timing probe that was not certain.
    Likeliest {
        /// Its probability.
        percent: u8,
    },
    /// Nothing is known about this device; the text says of which others it is usual.
    Usual(String),
    /// Published for another device; the text names the publication.
    Published(String),
}

impl fmt::Display for QuantitySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("given by the user"),
            Self::Declared(place) => write!(f, "declared ({place})"),
            Self::Modelled => f.write_str("from the card model"),
            Self::Probed => f.write_str("probed"),
            Self::Likeliest { percent } => {
                write!(f, "not certain, the likeliest by the probe with {percent} %")
            }
            Self::Usual(of) => write!(f, "not known, as {of}"),
            Self::Published(place) => write!(f, "of another device ({place})"),
        }
    }
}

/// A quantity and its source.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Sourced {
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

/// The known internal geometry of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Geometry {
    #[serde(rename = "erase_unit")]
    pub erase_block: Option<Sourced>,
    /// The pages programmed together.
    pub write_unit: Option<Sourced>,
}

impl Geometry {
    pub fn is_unknown(&self) -> bool {
        self.erase_block.is_none() && self.write_unit.is_none()
    }

    /// Fills missing quantities from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            erase_block: self.erase_block.or(other.erase_block),
            write_unit: self.write_unit.or(other.write_unit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_values_take_precedence_over_declared_ones() {
        let given = Geometry {
            erase_block: Some(Sourced::new(Bytes::mib(8), QuantitySource::Given)),
            write_unit: None,
        };
        let declared = Geometry {
            erase_block: Some(Sourced::new(Bytes::mib(4), QuantitySource::Declared("SSR".into()))),
            write_unit: Some(Sourced::new(Bytes::kib(16), QuantitySource::Declared("SSR".into()))),
        };
        let both = given.or(declared);
        assert_eq!(both.erase_block.unwrap().bytes, Bytes::mib(8));
        assert_eq!(both.write_unit.unwrap().bytes, Bytes::kib(16));
    }
}
