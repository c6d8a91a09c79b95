//! How long setups last under a usage model, as estimated before the first trial of a run.

use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

use crate::quantity::Years;

/// The estimates of a run, with the choices that they depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLife {
    /// The usage model, as the user named it.
    pub usage: String,
    /// What programs write a day under it, in thousandths of a GiB.
    pub gib_a_day_thousandths: u64,
    /// How the device was modeled, for people.
    pub device: String,
    /// Rated erase cycles of the model.
    pub rated_cycles: u64,
    /// What the user gave instead of the values of the model.
    #[serde(default)]
    pub given: GivenLife,
    /// Setups with a recorded trace of each workload of the usage model.
    pub setups: Vec<EstimatedLife>,
    /// File systems whose default setup could not be estimated, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownLife>,
}

/// What the user said about the device and its life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenLife {
    /// How many years a recommended setup must last, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_years_thousandths: Option<u32>,
    /// Rated erase cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endurance_cycles: Option<u64>,
    /// The capacity of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<Bytes>,
    /// The card that the device is modeled as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

impl GivenLife {
    /// What is not given is as in another.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            min_years_thousandths: self.min_years_thousandths.or(other.min_years_thousandths),
            endurance_cycles: self.endurance_cycles.or(other.endurance_cycles),
            capacity_bytes: self.capacity_bytes.or(other.capacity_bytes),
            class: self.class.or_else(|| other.class.clone()),
        }
    }
}

/// The estimated life of a setup; its scheduler does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EstimatedLife {
    pub filesystem: String,
    pub options: Vec<String>,
    /// Years until the end, in thousandths: the 5 % quantile, the median and the 95 % quantile.
    pub years_thousandths: [u64; 3],
    /// What ends the life most often, for people.
    pub limit: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownLife {
    pub filesystem: String,
    pub reason: String,
}

impl RunLife {
    /// The estimate of exactly this setup.
    pub fn of(&self, filesystem: &str, options: &[String]) -> Option<&EstimatedLife> {
        self.setups.iter().find(|life| life.filesystem == filesystem && life.options == options)
    }

    /// How long a recommended setup must last, in years.
    pub fn min_years(&self) -> Option<f64> {
        self.given.min_years_thousandths.map(|years| Years(years).value())
    }
}
