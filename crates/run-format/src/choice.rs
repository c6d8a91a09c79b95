//! User choices that several parts of a run depend on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of one file system that are excluded from the search.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionChoice {
    /// Always on (the methodology's `ext4_default`).
    #[serde(default)]
    pub always: Vec<String>,
    /// Never tried (the methodology's `ext4_exclude`).
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Options that the catalog only tries on request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrategyKind {
    /// Bayesian optimization; stops when it is confident.
    Adaptive,
    /// One option at a time, adopting the best, as in the methodology.
    Greedy,
    Exhaustive,
    /// Setups drawn at random.
    Random,
}

/// The merit by which setups are compared.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// Mean logarithm of throughput over a workload's points.
    Throughput,
    /// The reciprocal of the worst completion latency.
    Latency,
    /// Bytes written by the workload divided by their cost for the device: bytes programmed if the
    /// device counts them, otherwise bytes written to it.
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
