//! The device of a run before anything is written to it: what it is, and what it offers.

use flashfit_device::{Bytes, Target};
use flashfit_filesystem::plan::{
    PlannedPlacement, fitted_conditions, units, with_second_partition,
};
use flashfit_filesystem::{
    Conditions, FileSystem, LayoutPlan, PartitionEnd, PartitionLayout, Scheduler, plan_layout_in,
};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use flashfit_target::{InspectedTarget, SIMULATED, TargetSource};
use flashfit_testbed::WriteGrant;

use super::{RunError, RunRequest, RunUi};
use crate::spec::RunSpec;

/// What a loop device offers that is not attached yet.
const LOOP_SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// The target of a run and how its trials use it, known but not opened.
#[derive(Debug)]
pub struct TrialTarget {
    /// Of a simulated card, what its device will be like.
    pub inspected: InspectedTarget,
    /// As given, probed or declared.
    pub geometry: Geometry,
    /// Where what was probed and what is declared disagree, and what is used then.
    pub disagreements: Vec<String>,
    /// Where on it the file systems go.
    pub layout: LayoutPlan,
    /// What it offers, as far as that is known before it is attached.
    pub conditions: Conditions,
    /// Schedulers, as far as they are known before it is attached.
    pub schedulers: Vec<Scheduler>,
}

impl TrialTarget {
    pub(super) fn look(
        request: RunRequest<'_>,
        place: &mut dyn flashfit_testbed::Host,
        board: Option<&str>,
        ui: &mut dyn RunUi,
    ) -> Result<Self, RunError> {
        let inspected = found(request.spec, place)?;
        ui.check_device(board, &inspected)?;
        Self::of(request, inspected)
    }

    /// How the trials of a run use this device.
    pub(super) fn of(
        request: RunRequest<'_>,
        inspected: InspectedTarget,
    ) -> Result<Self, RunError> {
        let spec = request.spec;
        let known =
            |bytes: Option<Bytes>| bytes.map(|bytes| Sourced::new(bytes, QuantitySource::Given));
        let given = Geometry::of_sizes(known(spec.erase_block), known(spec.write_unit));
        let declared = inspected.declared_geometry();
        let (agreed, disagreements) = units::combine(&spec.probed, &declared);
        let geometry = given.or(agreed.used);
        let target = &inspected.target;
        let start = match inspected.partition_start() {
            Some(_)
                if spec.start != "auto"
                    || spec.table.is_some()
                    || spec.second.is_some()
                    || request.end_requested =>
            {
                return Err(RunError::PartitionStart { target: target.clone() });
            }
            Some(_) => flashfit_filesystem::LayoutStart::Whole,
            None => spec.start.parse().map_err(RunError::Start)?,
        };
        let table = spec.table.unwrap_or_default();
        let end = spec.end.unwrap_or_else(PartitionEnd::formerly);
        let mut layout = plan_layout_in(
            table,
            inspected.capacity().0,
            inspected.sector_bytes(),
            &geometry,
            (start, end),
        )?;
        if let Some(second) = &spec.second {
            layout = with_second_partition(layout, &second.content, second.size_bytes, end)?;
            let size = layout.second.map_or(0, |second| second.size_bytes);
            let behind =
                format!("; behind it a partition of {} for {}", Bytes(size), second.content);
            layout.reason.push_str(&behind);
        }
        if let Some(start) = inspected.partition_start() {
            layout.reason = partition_reason(start, &geometry);
        }
        Ok(Self {
            conditions: conditions(&inspected.source, &geometry),
            schedulers: schedulers(&inspected.source),
            inspected,
            geometry,
            disagreements,
            layout,
        })
    }

    /// What the place of the file systems offers this one, where the device offers `conditions`:
    /// the same with the numbers of a plan.
    pub fn conditions_for(&self, filesystem: &FileSystem, conditions: &Conditions) -> Conditions {
        let start_bytes = match self.layout.layout {
            PartitionLayout::Partition { start_bytes, .. } => start_bytes,
            PartitionLayout::WholeDevice => {
                self.inspected.partition_start().map_or(0, |start| start.0)
            }
        };
        let place = PlannedPlacement { start_bytes, size_bytes: self.filesystem_size().0 };
        fitted_conditions(filesystem, conditions, place, self.inspected.sector_bytes())
    }

    /// The size of the place where the file system goes.
    pub fn filesystem_size(&self) -> Bytes {
        match &self.layout.layout {
            PartitionLayout::Partition { size_bytes, .. } => Bytes(*size_bytes),
            PartitionLayout::WholeDevice => self.inspected.capacity(),
        }
    }

    /// Leave to write to it; `named` is what the user called a device whose data may be lost.
    pub(super) fn grant(&self, named: Option<String>) -> WriteGrant {
        match (&self.inspected.source, &self.inspected.target, named) {
            (TargetSource::Card(model), Target::Simulated(name), _) => {
                WriteGrant::Card { name: name.clone(), model: model.clone() }
            }
            (TargetSource::Device(device), _, Some(named)) => {
                WriteGrant::Named { device: device.clone(), name: named }
            }
            _ => unreachable!("a device comes with a name, a card model with a simulated target"),
        }
    }
}

/// A card of the catalog, or a device where the trials will be made.
fn found(
    spec: &RunSpec,
    place: &mut dyn flashfit_testbed::Host,
) -> Result<InspectedTarget, RunError> {
    match spec.target.strip_prefix(SIMULATED) {
        Some(name) => Ok(InspectedTarget::card(name, spec.catalog_dir.as_deref())?),
        None => Ok(InspectedTarget::of_device(place.inspect(&spec.target)?)),
    }
}

fn partition_reason(start: Bytes, geometry: &Geometry) -> String {
    let place = format!("the partition stays where it is, {} bytes into its device", start.0);
    let Some(grid) = geometry.grid() else {
        return format!("{place}; whether that is aligned cannot be told without an erase block");
    };
    let unit = Bytes(grid.block_bytes());
    match (grid.is_boundary(start.0), grid.first_bytes()) {
        (true, 0) => format!("{place}, on a multiple of the erase block of {unit}"),
        (true, _) => format!("{place}, on a boundary of erase blocks of {unit}"),
        (false, 0) => format!(
            "{place}, which is NOT on a multiple of the erase block of {unit}: moving it would help"
        ),
        (false, _) => format!(
            "{place}, which is NOT on a boundary of erase blocks of {unit}: moving it would help"
        ),
    }
}

fn conditions(source: &TargetSource, geometry: &Geometry) -> Conditions {
    let (discard, volatile_cache) = match source {
        TargetSource::Device(device) if device.disk.is_empty() => (true, true),
        TargetSource::Device(device) => (device.queue.discards, device.queue.volatile_cache()),
        TargetSource::Card(model) => (model.discard.is_some(), model.declares_cache()),
    };
    Conditions { geometry: geometry.clone(), discard, volatile_cache, ..Conditions::default() }
}

fn schedulers(source: &TargetSource) -> Vec<Scheduler> {
    match source {
        TargetSource::Device(device) if !device.disk.is_empty() => {
            device.queue.schedulers.iter().map(Scheduler::new).collect()
        }
        _ => LOOP_SCHEDULERS.into_iter().map(Scheduler::new).collect(),
    }
}
