//! Records what an exercise makes a file system write to a simulated card.
//!
//! The card has the geometry of the model, but answers at once ([`instant`]), so that a recording
//! takes as long as the kernel needs. The host must serve its cards with a trace file; the marks in
//! the trace are the beginning and the end of the exercise.

use std::path::Path;

use flashfit_bench::{Exercise, MeasurementLength, PointProfile, StartingState, Workload};
use flashfit_card::{CardModel, Counters};
use flashfit_device::Bytes;
use flashfit_filesystem::{FileSystem, LayoutPlan, PartitionLayout, Setup};
use flashfit_geometry::Geometry;

use crate::host::{Host, OpenRequest, WriteGrant};
use crate::{TrialError, TrialRequest};

/// The fastest bus that a card model can have.
const INSTANT_BYTES_PER_SECOND: u64 = 1_000_000_000_000;

#[derive(Debug)]
pub struct RecordingRequest<'a> {
    pub filesystem: &'a FileSystem,
    pub options: &'a [String],
    pub exercise: Exercise,
    pub state: StartingState,
    /// The card, as served: see [`instant`].
    pub model: &'a CardModel,
    /// The card file of `model`.
    pub card_file: &'a Path,
    pub memory_bytes: u64,
    /// Only names the trial.
    pub workload: &'a Workload,
}

/// What was recorded, besides the trace.
#[derive(Debug)]
pub struct Recorded {
    /// Bytes that the exercise passed to write(2).
    pub exercised_bytes: u64,
    /// Of the card, during the exercise.
    pub counters: Counters,
    pub kernel: String,
    /// Name and version of the program that made the file system.
    pub mkfs: String,
    pub setup: Setup,
}

/// A card with the same structure, but without delays.
#[must_use]
pub fn instant(model: &CardModel) -> CardModel {
    let mut instant = model.clone();
    let nand = &mut instant.nand;
    (nand.read_ns, nand.program_ns, nand.erase_ns, nand.copy_ns) = (1, 1, 1, 0);
    if let Some(pslc) = &mut nand.pslc {
        (pslc.read_ns, pslc.program_ns, pslc.erase_ns) = (1, 1, 1);
    }
    instant.bus.command_ns = 1;
    instant.bus.bytes_per_second = INSTANT_BYTES_PER_SECOND;
    let layer = &mut instant.layer;
    (layer.lookup_ns, layer.jump_ns, layer.switch_ns) = (0, 0, 0);
    layer.close_ns = 0;
    layer.log_ns = layer.log_ns.map(|_| 0);
    if let Some(cache) = &mut instant.cache {
        cache.flush_ns = 0;
    }
    if let Some(zone) = &mut instant.zone {
        zone.extra_read_ns = 0;
    }
    instant.noise = None;
    instant
}

/// Makes the file system, fills and ages it, and runs the exercise.
///
/// # Errors
/// Any [`TrialError`]; [`TrialError::Stopped`] if the card reports no counters.
pub fn record(host: &mut dyn Host, request: &RecordingRequest<'_>) -> Result<Recorded, TrialError> {
    let grant = WriteGrant::Card {
        name: request.card_file.display().to_string(),
        model: Box::new(request.model.clone()),
    };
    host.prepare(&grant)?;
    let mut test_bed = host.open(&OpenRequest {
        grant,
        geometry_override: Geometry::default(),
        layout: LayoutPlan {
            layout: PartitionLayout::WholeDevice,
            unit: Bytes::mib(1),
            first_unit_bytes: 0,
            reason: "the file system uses the whole card".to_owned(),
            second: None,
        },
        memory_bytes: request.memory_bytes,
        mount_dir: None,
    })?;
    let facts = test_bed.facts();
    let filesystem = request.filesystem;
    let conditions = facts.conditions_for(&filesystem.name);
    let scheduler = facts.default_scheduler.clone();
    let setup = Setup::new(filesystem, request.options, scheduler, &conditions)
        .map_err(|error| TrialError::stopped(&error))?;
    let kernel = facts.kernel.clone();
    let program = &filesystem.mkfs.tool.program;
    let version = facts.programs.get(program).cloned().unwrap_or_default();
    let report = test_bed.run_trial(&TrialRequest {
        setup: &setup,
        workload: request.workload,
        profile: PointProfile::Quick,
        length: MeasurementLength::Full,
        state: request.state,
        start: None,
        data_bytes: request.exercise.data_bytes,
        memory_bytes: request.memory_bytes,
        runtime_ns: 0,
        seed: request.exercise.seed,
        exercise: Some(request.exercise),
    })?;
    let (Some(counters), Some(exercised_bytes)) = (report.counters, report.exercised_bytes) else {
        return Err(TrialError::Stopped {
            message: "the simulated card reported no counters".to_owned(),
            class: flashfit_user_error::ExitClass::Io,
            hint: None,
        });
    };
    Ok(Recorded { exercised_bytes, counters, kernel, mkfs: version, setup })
}
