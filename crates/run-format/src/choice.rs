//! Choices of the user that several parts of a run turn on.

use serde::{Deserialize, Serialize};

/// Options of one file system that are not up for search.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionChoice {
    /// Always on (the methodology's `ext4_default`).
    #[serde(default)]
    pub always: Vec<String>,
    /// Never tried (the methodology's `ext4_exclude`).
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Tried although the catalog has them tried only when they are asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
}

/// A strategy by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrategyKind {
    /// What may be best by all that is known so far, until that is sure enough.
    Adaptive,
    /// One option at a time, the best is adopted, as the methodology has it.
    Greedy,
    /// Every setup.
    Exhaustive,
    /// Setups drawn at random.
    Random,
}

/// The merit by which setups are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// Mean logarithm of throughput over a workload's points.
    Throughput,
    /// The reciprocal of the worst completion latency.
    Latency,
    /// What the workload wrote by what that cost the device: bytes programmed where it counts them,
    /// bytes written to it elsewhere.
    Wear,
}

impl std::fmt::Display for Criterion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Wear => "wear",
        })
    }
}
