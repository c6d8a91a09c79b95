//! What a run would do, as a document for scripts.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use flashfit_check::rated_or_assumed_erases;
use flashfit_geometry::Geometry;
use flashfit_host::path_text;
use flashfit_target::TargetSource;
use flashfit_tune::forecast::{Forecast, Shortfall};
use flashfit_tune::run::{RunPreview, RunRequest};
use flashfit_wear::device_life::ASSUMED_AMPLIFICATION;
use schemars::JsonSchema;
use serde::Serialize;

use crate::consent::{what_is_lost, would_be_refused};
use crate::test_beds;

#[derive(Debug, JsonSchema, Serialize)]
pub struct RunPreviewDocument {
    target: String,
    /// That and why the device would be refused, if it would.
    refusal: Option<String>,
    /// What a run would erase; nothing of a simulated card.
    lost: Vec<String>,
    simulated: bool,
    test_bed: String,
    #[serde(with = "path_text::document")]
    #[schemars(with = "String")]
    dir: PathBuf,
    geometry: Geometry,
    layout: String,
    notes: Vec<String>,
    filesystems: Vec<String>,
    workloads: Vec<String>,
    setups: Vec<String>,
    /// Null if nothing limits the run.
    forecast: Option<ForecastRanges>,
}

/// The least and the most.
#[derive(Debug, JsonSchema, Serialize)]
struct ForecastRanges {
    time_ns: [u64; 2],
    trials: [u64; 2],
    written_bytes: [u64; 2],
    /// Share of the device's life, in thousandths of a percent.
    life_percent_thousandths: [u64; 2],
    /// The erases that each erase block bears.
    rated_erases: u64,
    rated_is_assumed: bool,
    /// For each byte written; an assumption.
    programmed_bytes_per_byte: u64,
    /// Null if the limits suffice to confirm an answer.
    shortfall: Option<Shortfall>,
}

impl ForecastRanges {
    fn new(found: &Forecast, (rated_erases, rated_is_assumed): (u64, bool)) -> Self {
        let ends = |range: &RangeInclusive<u64>| [*range.start(), *range.end()];
        Self {
            time_ns: ends(&found.time_ns),
            trials: ends(&found.trials),
            written_bytes: ends(&found.written_bytes),
            life_percent_thousandths: ends(&found.life),
            rated_erases,
            rated_is_assumed,
            programmed_bytes_per_byte: ASSUMED_AMPLIFICATION,
            shortfall: found.shortfall.clone(),
        }
    }
}

impl RunPreviewDocument {
    pub fn new(request: RunRequest<'_>, preview: &RunPreview) -> Self {
        let RunRequest { spec, dir, catalogs, .. } = request;
        let RunPreview { target, space } = preview;
        let device = match &target.inspected.source {
            TargetSource::Device(device) => Some(&**device),
            TargetSource::Card(_) => None,
        };
        let capacity = target.inspected.capacity();
        let rated = rated_or_assumed_erases(&target.inspected);
        Self {
            target: spec.target.clone(),
            refusal: device.and_then(would_be_refused),
            lost: device
                .map(what_is_lost)
                .iter()
                .flat_map(|lost| lost.lines())
                .map(str::to_owned)
                .collect(),
            simulated: device.is_none(),
            test_bed: test_beds::description(&spec.on),
            dir: dir.to_owned(),
            geometry: target.geometry.clone(),
            layout: target.layout.reason.clone(),
            notes: target.disagreements.iter().chain(&space.notes).cloned().collect(),
            filesystems: spec.filesystems.clone(),
            workloads: spec.workloads.clone(),
            setups: space.problem.setups.iter().map(|setup| setup.label()).collect(),
            forecast: Forecast::of(spec, &catalogs.workloads, capacity.0, rated.0)
                .map(|found| ForecastRanges::new(&found, rated)),
        }
    }
}
