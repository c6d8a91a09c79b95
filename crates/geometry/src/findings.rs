//! What a probe says of a device: for each quantity a verdict, how sure it is, and why.
//!
//! A confidence is the posterior probability of the answer given all evidence; "inconclusive" is an
//! answer too, with its reason. Declared values stay apart from these.

use serde::{Deserialize, Serialize};

/// The least probability of an answer that is given as found.
pub const SURE: f64 = 0.95;

/// Whether a quantity was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuantityVerdict {
    /// The evidence points to one value.
    #[serde(rename = "found")]
    Found,
    /// It was looked for, and the evidence does not point to one value; there may be none.
    #[serde(rename = "inconclusive")]
    Inconclusive,
    /// It was not looked for, or could not be.
    #[serde(rename = "not measured")]
    NotMeasured,
}

/// A value that a quantity can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuantityValue {
    /// A size.
    Bytes(u64),
    /// A number of something.
    Count(u32),
    /// Whether it is so.
    Is(bool),
}

/// One of the values that the evidence allows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CandidateValue {
    /// The value.
    #[serde(flatten)]
    pub value: QuantityValue,
    /// Its posterior probability, 0 to 1.
    pub probability: f64,
}

/// What is said of one quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeometryFinding {
    /// Whether it was found.
    pub verdict: QuantityVerdict,
    /// The value, where it was found.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub value: Option<QuantityValue>,
    /// The posterior probability of the value, 0 to 1; of the likeliest where none was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Why: what was seen, or what was lacking. One sentence, for people.
    pub reason: String,
    /// The values that the evidence allows, the likeliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<CandidateValue>,
}

impl GeometryFinding {
    /// A quantity that was not looked for.
    pub fn not_measured(reason: impl Into<String>) -> Self {
        Self {
            verdict: QuantityVerdict::NotMeasured,
            value: None,
            confidence: None,
            reason: reason.into(),
            candidates: Vec::new(),
        }
    }

    /// A quantity that was looked for and not found.
    pub fn inconclusive(reason: impl Into<String>, candidates: Vec<CandidateValue>) -> Self {
        Self {
            verdict: QuantityVerdict::Inconclusive,
            value: None,
            confidence: candidates.first().map(|candidate| candidate.probability),
            reason: reason.into(),
            candidates,
        }
    }

    /// A quantity that was found, with that probability.
    pub fn found(value: QuantityValue, confidence: f64, reason: impl Into<String>) -> Self {
        Self {
            verdict: QuantityVerdict::Found,
            value: Some(value),
            confidence: Some(confidence),
            reason: reason.into(),
            candidates: Vec::new(),
        }
    }
}

impl Default for GeometryFinding {
    fn default() -> Self {
        Self::not_measured("it was not asked for")
    }
}

/// All that a probe, or an imported table, says of a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GeometryFindings {
    /// Capacity that is really there, in bytes; checked before anything else in the writing mode.
    pub capacity: GeometryFinding,
    /// The page of one plane, in bytes.
    pub page: GeometryFinding,
    /// The pages that are written together, in bytes.
    pub write_unit: GeometryFinding,
    /// The erase block, in bytes.
    pub erase_unit: GeometryFinding,
    /// Where the first whole erase block starts, in bytes from the start of the device.
    pub erase_unit_offset: GeometryFinding,
    /// How many erase blocks can be written in turn, each in ascending order.
    pub open_units_linear: GeometryFinding,
    /// How many erase blocks can be written in turn, each in a mixed order.
    pub open_units_random: GeometryFinding,
    /// The largest write that goes to a log of its own, in bytes.
    pub small_write_log: GeometryFinding,
    /// The specially mapped zone at the start, in bytes.
    pub special_zone: GeometryFinding,
    /// The fast area in front (pSLC), in bytes.
    pub pslc_cache: GeometryFinding,
    /// Whether areas that were never written answer faster.
    pub unwritten_is_faster: GeometryFinding,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_flat_json_with_the_words_of_the_verdicts() {
        let found = GeometryFinding::found(QuantityValue::Bytes(4 << 20), 0.99, "a step at 4 MiB");
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json["verdict"], "found");
        assert_eq!(json["bytes"], 4 << 20);
        assert_eq!(serde_json::from_value::<GeometryFinding>(json).unwrap(), found);
        let none = serde_json::to_value(GeometryFinding::default()).unwrap();
        assert_eq!(none["verdict"], "not measured");
        assert!(none.get("bytes").is_none() && none.get("confidence").is_none());
    }
}
