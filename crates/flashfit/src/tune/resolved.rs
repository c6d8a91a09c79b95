//! A specification and where its run is kept.

use std::path::PathBuf;

use flashfit_probe::SavedProbe;
use flashfit_tune::RunSpec;

/// A specification and where its run is kept.
#[derive(Debug)]
pub struct ResolvedSpec {
    pub spec: RunSpec,
    pub dir: PathBuf,
    /// Whether the user chose where the partition ends.
    pub end_requested: bool,
    /// The document of its geometry, if that must still be compared with the device.
    pub probe: Option<SavedProbe>,
}

/// `run-` and a name for the target.
pub fn default_dir(target: &str) -> PathBuf {
    let last = target.rsplit(['/', ':']).next().unwrap_or(target);
    PathBuf::from(format!("run-{last}"))
}
