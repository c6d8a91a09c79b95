//! The device of a run before anything is written to it: what it is, and what it offers.

use std::path::Path;

use flashfit_card::CardModel;
use flashfit_device::{Bytes, Device, DeviceKind, SystemRoots, Target};
use flashfit_filesystem::plan::{PlannedPlacement, fitted_conditions, units};
use flashfit_filesystem::{
    Conditions, FileSystem, LayoutPlan, PartitionLayout, Scheduler, plan_layout,
};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use flashfit_host::Runner;
use flashfit_testbed::{WriteGrant, writable_device};
use flashfit_tune::RunSpec;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::tune::resolve;

/// How the name of a simulated card begins.
pub const SIMULATED: &str = "sim:";

/// What a loop device offers that is not attached yet.
const LOOP_SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// A device, known but not taken.
#[derive(Debug)]
pub struct TuneSubject {
    /// What the user named.
    pub target: Target,
    /// The device; of a simulated card what its device will be like.
    pub what: TuneTarget,
    /// What is known of how it is built.
    pub geometry: Geometry,
    /// Where what was probed and what is declared disagree, and what is used then.
    pub disagreements: Vec<String>,
    /// Its sector, in bytes.
    pub sector_bytes: u64,
    /// Where on it the file systems go.
    pub layout: LayoutPlan,
    /// What it offers, as far as that is known before it is attached.
    pub conditions: Conditions,
    /// Schedulers, as far as they are known before it is attached.
    pub schedulers: Vec<Scheduler>,
}

/// The device itself.
#[derive(Debug)]
pub enum TuneTarget {
    /// A device or an image.
    Medium(Box<Device>),
    /// A simulated card.
    Card(Box<CardModel>),
}

impl TuneSubject {
    /// Looks at the target of a run.
    pub fn look(
        spec: &RunSpec,
        place: &mut dyn flashfit_testbed::Host,
    ) -> Result<Self, CommandError> {
        let (target, what) = found(spec, place)?;
        let known =
            |bytes: Option<Bytes>| bytes.map(|bytes| Sourced::new(bytes, QuantitySource::Given));
        let given =
            Geometry { erase_unit: known(spec.erase_unit), write_unit: known(spec.write_unit) };
        let (capacity, sector_bytes, declared) = match &what {
            TuneTarget::Medium(medium) => (
                medium.capacity,
                medium.queue.logical_sector_bytes.max(512),
                writable_device::declared_geometry(medium),
            ),
            TuneTarget::Card(model) => (
                model.capacity,
                u64::from(model.sector_bytes),
                writable_device::modeled_geometry(model),
            ),
        };
        let (agreed, disagreements) = units::combine(&spec.probed, &declared);
        let geometry = given.or(agreed.used);
        let start = match partition_start(&what) {
            Some(_) if spec.start != "auto" => {
                return Err(CommandError::new(
                    ExitClass::Usage,
                    format!("{target} is a partition, which is left where it is"),
                    Some("leave --start out, or name the whole medium"),
                ));
            }
            Some(_) => flashfit_filesystem::LayoutStart::Whole,
            None => resolve::start(&spec.start)?,
        };
        let mut layout = plan_layout(capacity.0, sector_bytes, &geometry, start)?;
        if let Some(start) = partition_start(&what) {
            layout.reason = partition_reason(start, &geometry);
        }
        Ok(Self {
            conditions: conditions(&what, &geometry),
            schedulers: schedulers(&what),
            target,
            what,
            geometry,
            disagreements,
            sector_bytes,
            layout,
        })
    }

    /// What the place of the file systems offers this one, where the device offers `conditions`:
    /// the same with the numbers of a plan.
    pub fn conditions_for(&self, filesystem: &FileSystem, conditions: &Conditions) -> Conditions {
        let start_bytes = match self.layout.layout {
            PartitionLayout::Partition { start_bytes, .. } => start_bytes,
            PartitionLayout::WholeMedium => partition_start(&self.what).map_or(0, |start| start.0),
        };
        let place = PlannedPlacement { start_bytes, size_bytes: self.filesystem_size().0 };
        fitted_conditions(filesystem, conditions, place, self.sector_bytes)
    }

    /// The size of the place where the file system goes.
    pub fn filesystem_size(&self) -> Bytes {
        match (&self.layout.layout, &self.what) {
            (PartitionLayout::Partition { size_bytes, .. }, _) => Bytes(*size_bytes),
            (_, TuneTarget::Medium(medium)) => medium.capacity,
            (_, TuneTarget::Card(model)) => model.capacity,
        }
    }

    /// Leave to write to it; `named` is what the user called a device whose data may be lost.
    pub fn leave(&self, named: Option<String>) -> WriteGrant {
        match (&self.what, &self.target, named) {
            (TuneTarget::Card(model), Target::Simulated(name), _) => {
                WriteGrant::Card { name: name.clone(), model: model.clone() }
            }
            (TuneTarget::Medium(medium), _, Some(named)) => {
                WriteGrant::Named { device: medium.clone(), name: named }
            }
            _ => unreachable!("a medium comes with a name, a card model with a simulated target"),
        }
    }

    /// Whether its figures are simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self.what, TuneTarget::Card(_))
    }
}

/// A card of the catalog, or a device where the trials will be made.
fn found(
    spec: &RunSpec,
    place: &mut dyn flashfit_testbed::Host,
) -> Result<(Target, TuneTarget), CommandError> {
    if let Some(name) = spec.target.strip_prefix(SIMULATED) {
        let model = flashfit_card::catalog::load(name, spec.catalog_dir.as_deref())?;
        return Ok((Target::Simulated(name.to_owned()), TuneTarget::Card(Box::new(model))));
    }
    let medium = place.inspect(&spec.target)?;
    let target = match medium.kind {
        DeviceKind::Image => Target::Image(medium.path.clone()),
        _ => Target::Node(medium.path.clone()),
    };
    Ok((target, TuneTarget::Medium(Box::new(medium))))
}

/// Looks at a target without opening it for writing.
pub fn look_at(
    target: &Target,
    runner: &dyn Runner,
    catalog: Option<&Path>,
) -> Result<TuneTarget, CommandError> {
    Ok(match target {
        Target::Simulated(name) => {
            TuneTarget::Card(Box::new(flashfit_card::catalog::load(name, catalog)?))
        }
        Target::Node(path) => {
            TuneTarget::Medium(Box::new(Device::from_node(&SystemRoots::default(), runner, path)?))
        }
        Target::Image(path) => TuneTarget::Medium(Box::new(Device::from_image(runner, path)?)),
    })
}

/// Where a partition starts; only a whole device is partitioned, a partition stays as it is.
fn partition_start(what: &TuneTarget) -> Option<Bytes> {
    match what {
        TuneTarget::Medium(medium) => medium.partition_start,
        TuneTarget::Card(_) => None,
    }
}

fn partition_reason(start: Bytes, geometry: &Geometry) -> String {
    let place = format!("the partition stays where it is, {} bytes into its medium", start.0);
    match &geometry.erase_unit {
        None => format!("{place}; whether that is aligned cannot be told without an erase unit"),
        Some(unit) if flashfit_filesystem::aligned(start.0, unit.bytes.0) => {
            format!("{place}, on a multiple of the erase unit of {}", unit.bytes)
        }
        Some(unit) => format!(
            "{place}, which is NOT on a multiple of the erase unit of {}: moving it would help",
            unit.bytes
        ),
    }
}

fn conditions(what: &TuneTarget, geometry: &Geometry) -> Conditions {
    let (discard, volatile_cache) = match what {
        TuneTarget::Medium(medium) if medium.disk.is_empty() => (true, true),
        TuneTarget::Medium(medium) => (medium.queue.discards, medium.queue.volatile_cache()),
        TuneTarget::Card(model) => (model.discard.is_some(), model.declares_cache()),
    };
    Conditions { geometry: geometry.clone(), discard, volatile_cache, ..Conditions::default() }
}

fn schedulers(what: &TuneTarget) -> Vec<Scheduler> {
    match what {
        TuneTarget::Medium(medium) if !medium.disk.is_empty() => {
            medium.queue.schedulers.iter().map(Scheduler::new).collect()
        }
        _ => LOOP_SCHEDULERS.into_iter().map(Scheduler::new).collect(),
    }
}
