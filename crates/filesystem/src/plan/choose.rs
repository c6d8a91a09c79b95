//! From wishes to choices: what the user left open is filled with what is usual and safe.

use std::path::PathBuf;

use flashfit_geometry::Geometry;

use crate::durability::Durability;
use crate::filesystem::FileSystem;
use crate::layout::Table;
use crate::scheduler::Scheduler;
use crate::setup::Setup;

use super::document::{Choices, PlanInputs, PlannedMedium, StripeWidth};
use super::error::PlanError;
use super::ground::{Ground, ground};
use super::units;

/// The option of a file system that takes the numbers of a plan.
pub const GEOMETRY: &str = "geometry";

/// What is set where the user names no options, as far as it is usable here.
const USUAL: [&str; 2] = ["noatime", GEOMETRY];

/// What the user wishes; what is `None` is left to the planner.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The partition table.
    pub table: Option<Table>,
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
    wish: &Wish,
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
    let conditions = ground.conditions(&medium, &geometry.used);
    let options = match &wish.options {
        Some(options) => options.clone(),
        None => {
            must_fit(filesystem, &ground)?;
            usual(filesystem, &conditions)
        }
    };
    let setup = Setup::new(filesystem, &options, wish.scheduler.clone(), &conditions)?;
    let choices = Choices {
        table: wish.table,
        start_bytes: wish.start_bytes,
        setup,
        stripe_width: wish.stripe_width,
        recipe: wish.recipe.clone(),
        mount_point: wish.mount_point.clone(),
        allow: wish.allow,
    };
    Ok(PlanInputs { medium, given, declared, choices })
}

/// A file system that cannot be brought on the grid is not planned off it without being asked.
fn must_fit(filesystem: &FileSystem, ground: &Ground) -> Result<(), PlanError> {
    match &ground.fitted {
        Ok(_) => Ok(()),
        Err(reason) => {
            Err(PlanError::Unfit { filesystem: filesystem.name.clone(), reason: reason.clone() })
        }
    }
}

fn usual(filesystem: &FileSystem, conditions: &crate::Conditions) -> Vec<String> {
    let usable = |name: &&str| {
        filesystem.option(name).is_ok_and(|option| {
            option.durability == Durability::Safe
                && filesystem.why_not(option, conditions).is_none()
        })
    };
    USUAL.into_iter().filter(usable).map(str::to_owned).collect()
}
