//! From wishes to choices: what the user left open is filled with what is usual and safe.

use std::path::PathBuf;

use flashfit_geometry::Geometry;

use crate::catalog::FileSystemCatalog;
use crate::conditions::Conditions;
use crate::durability::Durability;
use crate::filesystem::FileSystem;
use crate::layout::PartitionTable;
use crate::scheduler::Scheduler;
use crate::setup::Setup;

use super::document::{PlanChoices, PlanInputs, PlannedMedium, StripeWidth};
use super::error::PlanError;
use super::layers::is_host;
use super::packing;
use super::placement::{Placement, ground};
use super::units;

/// The option of a file system that takes the numbers of a plan.
pub const GEOMETRY: &str = "geometry";

/// What is set where the user names no options, as far as it is usable here.
const USUAL: [&str; 2] = ["noatime", GEOMETRY];

/// What the user wishes; what is `None` is left to the planner.
#[derive(Debug, Clone)]
pub struct PlanRequest {
    /// The partition table.
    pub table: Option<PartitionTable>,
    /// Where the partition starts, in bytes.
    pub start_bytes: Option<u64>,
    /// The options; `base` alone for none.
    pub options: Option<Vec<String>>,
    /// The I/O scheduler.
    pub scheduler: Scheduler,
    /// What the stripe width counts.
    pub stripe_width: StripeWidth,
    /// The recipe that some of it was taken from.
    pub recipe: Option<String>,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The least safety at a power cut that is allowed.
    pub allow: Durability,
}

/// Makes choices of wishes for one file system.
///
/// # Errors
/// As [`PlanError`] tells.
pub fn choose(
    filesystem: &FileSystem,
    medium: PlannedMedium,
    given: Geometry,
    declared: Geometry,
    wish: &PlanRequest,
) -> Result<PlanInputs, PlanError> {
    let (geometry, _) = units::combine(&given, &declared);
    let ground = ground(
        filesystem,
        &medium,
        &geometry.used,
        wish.table,
        wish.start_bytes,
        wish.stripe_width,
    )?;
    let conditions = ground.conditions(filesystem, &medium, &geometry.used);
    let options = match &wish.options {
        Some(options) => options.clone(),
        None => {
            must_fit(filesystem, &ground)?;
            usual(filesystem, &conditions)
        }
    };
    let setup = Setup::new(filesystem, &options, wish.scheduler.clone(), &conditions)?;
    let choices = PlanChoices {
        table: wish.table,
        start_bytes: wish.start_bytes,
        setup,
        image: None,
        stripe_width: wish.stripe_width,
        recipe: wish.recipe.clone(),
        mount_point: wish.mount_point.clone(),
        allow: wish.allow,
    };
    Ok(PlanInputs { medium, given, declared, choices })
}

/// Makes choices of wishes for a file system that is packed into an image, on the host file system
/// of that name, or on the first that is safe enough. Options that the image does not have are the
/// host's.
///
/// # Errors
/// As [`PlanError`] tells.
pub fn choose_layered(
    catalogue: &FileSystemCatalog,
    filesystem: &FileSystem,
    host: Option<&str>,
    medium: PlannedMedium,
    [given, declared]: [Geometry; 2],
    wish: &PlanRequest,
) -> Result<PlanInputs, PlanError> {
    let host = match host {
        Some(name) => catalogue.filesystem(name)?,
        None => usual_host(catalogue, filesystem, wish.allow)?,
    };
    is_host(filesystem, &host.name)?;
    let (for_image, for_host) = divided(filesystem, host, wish.options.as_deref());
    let (geometry, _) = units::combine(&given, &declared);
    let write_unit = geometry.used.write_unit.as_ref().map(|known| known.bytes.0);
    let conditions =
        Conditions { geometry: geometry.used, discard: medium.discard, ..Conditions::default() };
    let options = for_image.unwrap_or_else(|| packing::usual(filesystem, write_unit));
    let image = Setup::new(filesystem, &options, wish.scheduler.clone(), &conditions)?;
    let wish = PlanRequest { options: for_host, ..wish.clone() };
    let mut inputs = choose(host, medium, given, declared, &wish)?;
    inputs.choices.image = Some(image);
    Ok(inputs)
}

fn usual_host<'a>(
    catalogue: &'a FileSystemCatalog,
    filesystem: &FileSystem,
    allow: Durability,
) -> Result<&'a FileSystem, PlanError> {
    let hosts = filesystem.layered.iter().flat_map(|layered| &layered.hosts);
    let known: Result<Vec<_>, _> = hosts.map(|name| catalogue.filesystem(name)).collect();
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
fn must_fit(filesystem: &FileSystem, ground: &Placement) -> Result<(), PlanError> {
    match &ground.fitted {
        Ok(_) => Ok(()),
        Err(reason) => {
            Err(PlanError::Unfit { filesystem: filesystem.name.clone(), reason: reason.clone() })
        }
    }
}

fn usual(filesystem: &FileSystem, conditions: &Conditions) -> Vec<String> {
    let usable = |name: &&str| {
        filesystem.option(name).is_ok_and(|option| {
            option.durability == Durability::Safe
                && filesystem.why_not(option, conditions).is_none()
        })
    };
    USUAL.into_iter().filter(usable).map(str::to_owned).collect()
}
