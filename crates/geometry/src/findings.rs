//! Findings of a probe: for each quantity a verdict, its confidence and its reason.
//!
//! A confidence is the posterior probability of the answer given all evidence. "Inconclusive" is a
//! valid answer with a reason. Declared values are kept separately.

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The smallest probability at which a value counts as found.
pub const SURE: f64 = 0.95;

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub enum QuantityVerdict {
    /// The evidence supports one value.
    #[serde(rename = "found")]
    Found,
    /// It was measured, but the evidence does not support one value; there may be none.
    #[serde(rename = "inconclusive")]
    Inconclusive,
    /// It was not measured or could not be.
    #[serde(rename = "not measured")]
    NotMeasured,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum QuantityValue {
    Bytes(u64),
    /// A number of something.
    Count(u32),
    /// Whether it is so.
    Is(bool),
}

/// A value that the evidence allows.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CandidateValue {
    #[serde(flatten)]
    pub value: QuantityValue,
    pub probability: f64,
}

/// The result for one quantity.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct GeometryFinding {
    /// Whether it was found.
    pub verdict: QuantityVerdict,
    /// `None` unless it was found.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub value: Option<QuantityValue>,
    /// Posterior probability of the value, or else of the most likely candidate, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// One sentence for people: what was observed, or what was missing.
    pub reason: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<CandidateValue>,
}

/// A finding as it is read: an optional value that is flattened would hide one of the wrong type.
#[derive(Deserialize)]
struct WrittenFinding {
    verdict: QuantityVerdict,
    bytes: Option<u64>,
    count: Option<u32>,
    is: Option<bool>,
    confidence: Option<f64>,
    reason: String,
    #[serde(default)]
    candidates: Vec<CandidateValue>,
}

impl<'de> Deserialize<'de> for GeometryFinding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenFinding::deserialize(deserializer)?;
        written.finding().map_err(D::Error::custom)
    }
}

impl WrittenFinding {
    fn finding(self) -> Result<GeometryFinding, String> {
        let Self { verdict, bytes, count, is, confidence, reason, candidates } = self;
        let values = [
            bytes.map(QuantityValue::Bytes),
            count.map(QuantityValue::Count),
            is.map(QuantityValue::Is),
        ];
        let mut values = values.into_iter().flatten();
        let value = values.next();
        match (verdict, value) {
            _ if values.next().is_some() => return Err("it has several values".to_owned()),
            (QuantityVerdict::Found, None) => {
                return Err("it was found, but has no `bytes`, `count` or `is`".to_owned());
            }
            (QuantityVerdict::Inconclusive | QuantityVerdict::NotMeasured, Some(_)) => {
                return Err("it has a value, but was not found".to_owned());
            }
            _ => {}
        }
        let likely = candidates.iter().map(|candidate| candidate.probability);
        let mut probabilities = confidence.into_iter().chain(likely);
        match probabilities.find(|probability| !(0.0..=1.0).contains(probability)) {
            Some(probability) => Err(format!("the probability {probability} is not from 0 to 1")),
            None => Ok(GeometryFinding { verdict, value, confidence, reason, candidates }),
        }
    }
}

impl GeometryFinding {
    /// A quantity that was not measured.
    pub fn not_measured(reason: impl Into<String>) -> Self {
        Self {
            verdict: QuantityVerdict::NotMeasured,
            value: None,
            confidence: None,
            reason: reason.into(),
            candidates: Vec::new(),
        }
    }

    /// A quantity that was measured but not found.
    pub fn inconclusive(reason: impl Into<String>, candidates: Vec<CandidateValue>) -> Self {
        Self {
            verdict: QuantityVerdict::Inconclusive,
            value: None,
            confidence: candidates.first().map(|candidate| candidate.probability),
            reason: reason.into(),
            candidates,
        }
    }

    /// A quantity that was found with this probability.
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
        Self::not_measured("not requested")
    }
}

/// All findings of a probe or of imported tables.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct GeometryFindings {
    /// Actual capacity in bytes; the writing probe checks it first.
    pub capacity: GeometryFinding,
    /// The page of one plane, in bytes.
    pub page: GeometryFinding,
    /// The pages programmed together, in bytes.
    pub write_unit: GeometryFinding,
    /// The erase block, in bytes.
    #[serde(rename = "erase_unit")]
    pub erase_block: GeometryFinding,
    /// Where the first whole erase block starts, in bytes from the start of the target: of the
    /// partition, if the target is one.
    #[serde(rename = "erase_unit_offset")]
    pub erase_block_offset: GeometryFinding,
    /// Open erase blocks with writes in ascending order in each.
    #[serde(rename = "open_units_linear")]
    pub open_erase_blocks_linear: GeometryFinding,
    /// Open erase blocks with writes in random order in each.
    #[serde(rename = "open_units_random")]
    pub open_erase_blocks_random: GeometryFinding,
    /// The largest write that goes to a separate log, in bytes.
    pub small_write_log: GeometryFinding,
    /// The specially mapped zone at the start, in bytes.
    pub special_zone: GeometryFinding,
    /// The fast area that is written first (pSLC), in bytes.
    pub pslc_cache: GeometryFinding,
    /// Whether reads of never-written areas are faster.
    pub unwritten_is_faster: GeometryFinding,
}

impl GeometryFindings {
    /// The same finding for every quantity.
    pub fn uniform(finding: &GeometryFinding) -> Self {
        let mut findings = Self::default();
        findings.all_mut().into_iter().for_each(|one| one.clone_from(finding));
        findings
    }

    /// All quantities.
    pub fn all_mut(&mut self) -> [&mut GeometryFinding; 11] {
        [
            &mut self.capacity,
            &mut self.page,
            &mut self.write_unit,
            &mut self.erase_block,
            &mut self.erase_block_offset,
            &mut self.open_erase_blocks_linear,
            &mut self.open_erase_blocks_random,
            &mut self.small_write_log,
            &mut self.special_zone,
            &mut self.pslc_cache,
            &mut self.unwritten_is_faster,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_serializes_to_flat_json_with_a_verdict() {
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
