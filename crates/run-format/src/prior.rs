//! What is known of devices like that of a run, from before its first trial: what a survey has, or
//! what trials of a simulated twin gave.
//!
//! Kept with the run, so that a run that is continued makes the same decisions without the survey.

use flashfit_bench::MeasurementLength;
use flashfit_filesystem::Setup;
use serde::{Deserialize, Serialize};

/// The results that a search begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPrior {
    /// Each measured in one way on one device.
    pub sources: Vec<PriorSource>,
}

/// The results of one run on one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorSource {
    /// The device, for people.
    pub device: String,
    pub likeness: Likeness,
    pub results: Vec<PriorResult>,
}

/// Why a device counts as like that of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Likeness {
    SameDevice,
    SameProduct,
    /// Another product; probes found the same erase block and write unit.
    SameGeometry,
    /// A simulated card that was fitted to the device.
    Twin,
}

/// A setup under a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorResult {
    pub setup: Setup,
    pub workload: String,
    #[serde(default, skip_serializing_if = "MeasurementLength::is_full")]
    pub length: MeasurementLength,
    /// The mean natural logarithm of what the run ranks by, in millionths, up to a constant of the
    /// workload and the source.
    pub log_merit_millionths: i64,
    /// Trials, and the standard deviation of their logarithms in millionths.
    pub repeats: u32,
    pub sd_millionths: u32,
}

impl RunPrior {
    /// The number of results.
    pub fn results(&self) -> usize {
        self.sources.iter().map(|source| source.results.len()).sum()
    }

    /// Whether it comes from a simulated twin of the device.
    pub fn is_of_twin(&self) -> bool {
        self.sources.iter().any(|source| source.likeness == Likeness::Twin)
    }

    /// The number of devices, and the least likeness among them; `None` without any.
    pub fn devices(&self) -> Option<(usize, Likeness)> {
        let mut devices: Vec<&str> =
            self.sources.iter().map(|source| source.device.as_str()).collect();
        devices.sort_unstable();
        devices.dedup();
        Some((devices.len(), self.sources.iter().map(|source| source.likeness).max()?))
    }
}
