//! The device of a probe before it is opened: what it is, and what is declared of it.

use std::path::Path;

use flashfit_card::CardModel;
use flashfit_device::{Bytes, DeclaredBytes, DeclaredFacts, Target};
use flashfit_filesystem::plan::PlannedMedium;
use flashfit_geometry::Geometry;
use flashfit_host::SystemRunner;
use flashfit_testbed::writable_device;
use flashfit_user_error::ExitClass;

use super::args::DeviceRegion;
use super::document::ProbedMedium;
use crate::command_error::CommandError;
use crate::commands::plan;
use crate::tune::subject::{TuneTarget, look_at};

/// A device that is known and not opened.
pub struct ProbeSubject {
    /// As the user named it.
    pub name: String,
    /// The device itself.
    pub what: TuneTarget,
    /// The same as the planner takes it.
    pub planned: plan::PlanSubject,
    /// What it, the kernel or its model says.
    pub declared: DeclaredFacts,
}

impl ProbeSubject {
    /// Looks at a target without opening it for writing.
    pub fn look(name: &str, catalog: Option<&Path>) -> Result<Self, CommandError> {
        let what = look_at(&Target::parse(name)?, &SystemRunner::default(), catalog)?;
        let (medium, geometry, scheduler, declared) = match &what {
            TuneTarget::Medium(medium) => (
                PlannedMedium::of(medium),
                writable_device::declared_geometry(medium),
                medium.queue.scheduler.clone(),
                medium.declared.clone(),
            ),
            TuneTarget::Card(model) => {
                let geometry = writable_device::modeled_geometry(model);
                let declared = modelled(model, &geometry);
                (
                    plan::simulated(name.strip_prefix("sim:").unwrap_or(name), model),
                    geometry,
                    None,
                    declared,
                )
            }
        };
        let planned = plan::PlanSubject { medium, declared: geometry, scheduler, objection: None };
        Ok(Self { name: name.to_owned(), what, planned, declared })
    }

    /// Whether its figures are simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self.what, TuneTarget::Card(_))
    }

    /// The part that is probed: the given one, or all of it.
    pub fn region(&self, given: Option<DeviceRegion>) -> Result<[u64; 2], CommandError> {
        let medium = &self.planned.medium;
        let Some(given) = given else { return Ok([0, medium.capacity_bytes]) };
        let sector = medium.sector_bytes;
        let whole = given.start.0 % sector == 0 && given.length.0 % sector == 0;
        if !whole || given.range().end > medium.capacity_bytes {
            return Err(CommandError::new(
                ExitClass::Usage,
                format!(
                    "the region {}+{} is not whole sectors of {sector} bytes of {}, which has {} \
                     ({} bytes)",
                    given.start,
                    given.length,
                    self.name,
                    Bytes(medium.capacity_bytes),
                    medium.capacity_bytes
                ),
                Some("a region is START+LENGTH, such as --region 1GiB+512MiB"),
            ));
        }
        Ok([given.start.0, given.length.0])
    }

    /// The device as the document keeps it.
    pub fn medium(&self) -> ProbedMedium {
        let medium = &self.planned.medium;
        ProbedMedium {
            kind: medium.kind,
            identity: medium.identity.clone(),
            capacity_bytes: medium.capacity_bytes,
            sector_bytes: medium.sector_bytes,
            partition_start_bytes: medium.partition_start_bytes,
        }
    }
}

/// What a card model states, in the form of what devices declare. Probes are not told.
fn modelled(model: &CardModel, geometry: &Geometry) -> DeclaredFacts {
    let stated = |bytes: Bytes| DeclaredBytes {
        bytes,
        source: "the card model".to_owned(),
        is_guess: false,
    };
    DeclaredFacts {
        erase_block: geometry.erase_unit.iter().map(|known| stated(known.bytes)).collect(),
        write_unit: geometry.write_unit.iter().map(|known| stated(known.bytes)).collect(),
        capacity: vec![stated(model.capacity)],
        cache: model.cache.iter().map(|cache| stated(cache.bytes)).collect(),
        ..DeclaredFacts::default()
    }
}
