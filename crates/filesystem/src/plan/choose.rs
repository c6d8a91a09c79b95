//! Turns a request into choices; open questions get usual and safe answers.

use std::path::PathBuf;

use flashfit_geometry::Geometry;

use crate::catalog::FileSystemCatalog;
use crate::conditions::Conditions;
use crate::durability::Durability;
use crate::filesystem::FileSystem;
use crate::layout::{PartitionEnd, PartitionTable};
use crate::scheduler::Scheduler;
use crate::setup::Setup;

use super::document::{PlanChoices, PlanInputs, PlannedDevice, StripeWidth};
use super::error::PlanError;
use super::layers::is_host;
use super::packing;
use super::placement::{Placement, PlacementChoice, find_placement};
use super::second::SecondChoice;
use super::units;

/// The option of a file system that takes the numbers of a plan.
pub const GEOMETRY: &str = "geometry";

/// The option of a file system that is the format of vendors.
pub(super) const VENDOR: &str = "vendor";

/// What is set where the user names no options, as far as it is usable here.
const USUAL: [&str; 2] = ["noatime", GEOMETRY];

/// What the user requests; what is `None` is left to the planner.
#[derive(Debug, Clone)]
pub struct PlanRequest {
    pub table: Option<PartitionTable>,
    /// Where the partition starts, in bytes.
    pub start_bytes: Option<u64>,
    pub end: Option<PartitionEnd>,
    /// The options; `base` alone for none.
    pub options: Option<Vec<String>>,
    pub scheduler: Scheduler,
    /// The label of the file system.
    pub label: Option<String>,
    /// A second partition.
    pub second: Option<SecondChoice>,
    /// What the stripe width counts.
    pub stripe_width: StripeWidth,
    /// The recipe that some of it was taken from.
    pub recipe: Option<String>,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The least safety at a power cut that is allowed.
    pub allow: Durability,
}

/// Makes choices of requests for one file system.
///
/// # Errors
/// See [`PlanError`].
pub fn choose(
    filesystem: &FileSystem,
    device: PlannedDevice,
    given: Geometry,
    declared: Geometry,
    request: &PlanRequest,
) -> Result<PlanInputs, PlanError> {
    let (geometry, _) = units::combine(&given, &declared);
    let placement = find_placement(
        filesystem,
        &device,
        &geometry.used,
        PlacementChoice {
            table: request.table,
            start_bytes: request.start_bytes,
            end: request.end,
            stripe_width: request.stripe_width,
            second: request.second.as_ref(),
        },
    )?;
    let conditions = placement.conditions(filesystem, &device, &geometry.used);
    let options = match &request.options {
        Some(options) => options.clone(),
        None => {
            must_fit(filesystem, &placement)?;
            usual(filesystem, &conditions)
        }
    };
    let setup = Setup::new(filesystem, &options, request.scheduler.clone(), &conditions)?;
    let choices = PlanChoices {
        table: request.table,
        start_bytes: request.start_bytes,
        end: request.end,
        setup,
        image: None,
        label: request.label.clone(),
        second: request.second.clone(),
        stripe_width: request.stripe_width,
        recipe: request.recipe.clone(),
        mount_point: request.mount_point.clone(),
        allow: request.allow,
    };
    Ok(PlanInputs { device, given, declared, choices })
}

/// Makes choices of requests for a file system that is packed into an image, on the host file
/// system of that name, or on the first that is safe enough. Options that the image does not have
/// are the host's.
///
/// # Errors
/// See [`PlanError`].
pub fn choose_layered(
    catalog: &FileSystemCatalog,
    filesystem: &FileSystem,
    host: Option<&str>,
    device: PlannedDevice,
    [given, declared]: [Geometry; 2],
    request: &PlanRequest,
) -> Result<PlanInputs, PlanError> {
    let host = match host {
        Some(name) => catalog.filesystem(name)?,
        None => usual_host(catalog, filesystem, request.allow)?,
    };
    is_host(filesystem, &host.name)?;
    let (for_image, for_host) = divided(filesystem, host, request.options.as_deref());
    let (geometry, _) = units::combine(&given, &declared);
    let write_unit = geometry.used.write_unit.as_ref().map(|known| known.bytes.0);
    let conditions =
        Conditions { geometry: geometry.used, discard: device.discard, ..Conditions::default() };
    let options = for_image.unwrap_or_else(|| packing::usual(filesystem, write_unit));
    let image = Setup::new(filesystem, &options, request.scheduler.clone(), &conditions)?;
    let request = PlanRequest { options: for_host, ..request.clone() };
    let mut inputs = choose(host, device, given, declared, &request)?;
    inputs.choices.image = Some(image);
    Ok(inputs)
}

fn usual_host<'a>(
    catalog: &'a FileSystemCatalog,
    filesystem: &FileSystem,
    allow: Durability,
) -> Result<&'a FileSystem, PlanError> {
    let hosts = filesystem.layered.iter().flat_map(|layered| &layered.hosts);
    let known: Result<Vec<_>, _> = hosts.map(|name| catalog.filesystem(name)).collect();
    let known = known?;
    let safe = known.iter().find(|host| host.durability <= allow);
    safe.or(known.first()).copied().ok_or_else(|| PlanError::Host {
        filesystem: filesystem.name.clone(),
        host: "nothing".to_owned(),
        hosts: Vec::new(),
    })
}

/// Options for the image and for the host; what neither has is the image's, to be refused. `None`
/// where nothing is named for it.
fn divided(
    filesystem: &FileSystem,
    host: &FileSystem,
    options: Option<&[String]>,
) -> (Option<Vec<String>>, Option<Vec<String>>) {
    let is_hosts = |name: &&String| filesystem.option(name).is_err() && host.option(name).is_ok();
    let (of_host, of_image): (Vec<&String>, Vec<&String>) =
        options.unwrap_or_default().iter().partition(is_hosts);
    let named = |names: Vec<&String>| {
        (!names.is_empty()).then(|| names.into_iter().cloned().collect::<Vec<String>>())
    };
    (named(of_image), named(of_host))
}

/// A file system that cannot be brought on the grid is not planned off it without being asked.
fn must_fit(filesystem: &FileSystem, placement: &Placement) -> Result<(), PlanError> {
    match &placement.fitted {
        Ok(_) => Ok(()),
        Err(reason) => {
            Err(PlanError::Unfit { filesystem: filesystem.name.clone(), reason: reason.clone() })
        }
    }
}

pub(super) fn usual(filesystem: &FileSystem, conditions: &Conditions) -> Vec<String> {
    let usable = |name: &&str| {
        filesystem.option(name).is_ok_and(|option| {
            option.durability == Durability::Safe
                && filesystem.why_not(option, conditions).is_none()
        })
    };
    USUAL.into_iter().filter(usable).map(str::to_owned).collect()
}
