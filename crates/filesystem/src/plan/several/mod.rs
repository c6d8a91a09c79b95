//! Plans for several file systems on one device, from what the user chose, what is known about the
//! device and a published recipe.

mod request;

use flashfit_device::Bytes;
use flashfit_geometry::{Geometry, QuantitySource};

use crate::catalog::FileSystemCatalog;
use crate::durability::Durability;
use crate::filesystem::FileSystem;
use crate::layout::{LayoutStart, PartitionTable};
use crate::scheduler::{self, Scheduler};

use super::choose::{PlanRequest, choose, choose_layered};
use super::document::{Plan, StripeWidth};
use super::error::PlanError;
use super::given_sizes::{check_given_sizes, check_within};
use super::published::PublishedRecipes;
use super::units;

pub use request::{
    PlanNote, PlanningDevice, SeveralPlans, SeveralPlansError, SeveralPlansRequest, UnplannedReason,
};

/// The scheduler of a device that is not attached yet: what the kernel gives a device with one
/// queue.
const USUAL_SCHEDULER: &str = "mq-deadline";

/// Plans every file system that was named, or every one that is safe and fits.
///
/// # Errors
/// If a named file system has no plan, or the choices do not fit the device.
pub fn plan_several(
    catalog: &FileSystemCatalog,
    recipes: &PublishedRecipes,
    device: &PlanningDevice,
    request: &SeveralPlansRequest<'_>,
) -> Result<SeveralPlans, SeveralPlansError> {
    let (sector_bytes, capacity) = (device.planned.sector_bytes, device.planned.capacity_bytes);
    check_given_sizes(request.erase_block, request.write_unit, sector_bytes, Bytes(capacity))?;
    let recipe = request.recipe;
    let mut notes = Vec::new();
    let given = given(request, device, &mut notes);
    let used = units::combine(&given, &device.declared).0.used;
    if let Some((write_unit, erase_block)) = request.write_unit.zip(used.erase_block) {
        check_within(write_unit, erase_block.bytes)?;
    }
    let choices = choices(request, device, &mut notes)?;
    let of_recipe = recipe.map(|recipe| std::slice::from_ref(&recipe.filesystem));
    let names = request.filesystems.or(of_recipe);
    let chosen = chosen(catalog, names)?;
    let host = host(request, &chosen)?;
    let (mut plans, mut unplanned) = (Vec::new(), Vec::new());
    for filesystem in &chosen {
        let choices = permitted(filesystem, &choices, recipe.is_some(), &mut notes);
        if names.is_none() {
            if let Some(reason) = unrequested(filesystem, request.allow) {
                unplanned.push((filesystem.name.clone(), reason));
                continue;
            }
        }
        match plan_one(catalog, filesystem, host.as_deref(), device, &given, &choices) {
            Ok(plan) => plans.push(plan),
            Err(error) if names.is_some() => return Err(error.into()),
            Err(error) => {
                unplanned.push((filesystem.name.clone(), UnplannedReason::Failed(error)));
            }
        }
    }
    notes.extend(plans.first().and_then(|plan| fitting_recipe(plan, recipes)));
    Ok(SeveralPlans { plans, unplanned, notes })
}

/// The geometry that was given, or else found by a probe. That of a recipe is its author's card's,
/// so it is used only if nothing else is known; a recipe without a write unit wants none.
fn given(
    request: &SeveralPlansRequest<'_>,
    device: &PlanningDevice,
    notes: &mut Vec<PlanNote>,
) -> Geometry {
    let given =
        Geometry::of_sizes(units::given(request.erase_block), units::given(request.write_unit));
    let given = given.or(request.probed.clone());
    let Some(recipe) = request.recipe else {
        let usual = request.usual_write_unit.clone().filter(|_| {
            let known = given.clone().or(device.declared.clone());
            known.erase_block.is_some() && known.write_unit.is_none()
        });
        return given.or(Geometry { write_unit: usual, ..Geometry::default() });
    };
    if given.erase_block.is_some() || device.declared.erase_block.is_some() {
        return given;
    }
    notes.push(PlanNote::RecipeGeometry { erase_block: recipe.erase_block });
    given.or(recipe.geometry())
}

fn choices(
    request: &SeveralPlansRequest<'_>,
    device: &PlanningDevice,
    notes: &mut Vec<PlanNote>,
) -> Result<PlanRequest, SeveralPlansError> {
    let recipe = request.recipe;
    let (table, start_bytes) = placement(request, device);
    let of_recipe = recipe.and_then(|recipe| recipe.scheduler.as_deref());
    let scheduler = match request.scheduler.or(of_recipe) {
        Some(name) => {
            let understood = scheduler::understand(name)?;
            notes.extend(understood.note.map(PlanNote::Scheduler));
            understood.scheduler
        }
        None => Scheduler::new(device.scheduler.as_deref().unwrap_or(USUAL_SCHEDULER)),
    };
    let options = request.options.map(<[String]>::to_vec);
    Ok(PlanRequest {
        table,
        start_bytes,
        end: request.end,
        options: options.or(recipe.map(|recipe| recipe.options.clone())),
        scheduler,
        label: request.label.map(str::to_owned),
        second: request.second.cloned(),
        stripe_width: recipe.map_or(StripeWidth::Blocks, |recipe| recipe.stripe_width),
        recipe: recipe.map(|recipe| recipe.name.clone()),
        mount_point: request.mount_point.clone(),
        allow: request.allow,
    })
}

/// Table and start as given, or else, on a whole device, as the recipe has them.
fn placement(
    request: &SeveralPlansRequest<'_>,
    device: &PlanningDevice,
) -> (Option<PartitionTable>, Option<u64>) {
    let table = request.table;
    match request.start {
        Some(LayoutStart::Whole) => (Some(PartitionTable::None), None),
        Some(LayoutStart::At(at)) => (table, Some(at.0)),
        Some(LayoutStart::Auto) => (table, None),
        None if table.is_some() || device.planned.partition_start_bytes.is_some() => (table, None),
        None => request.recipe.map_or((None, None), |recipe| {
            let start = (recipe.table != PartitionTable::None).then_some(recipe.start.0);
            (Some(recipe.table), start)
        }),
    }
}

/// The choices without those options of a recipe that are less safe than is allowed: naming a
/// recipe is not naming each of its options.
fn permitted(
    filesystem: &FileSystem,
    choices: &PlanRequest,
    by_recipe: bool,
    notes: &mut Vec<PlanNote>,
) -> PlanRequest {
    let mut choices = choices.clone();
    let (Some(options), true) = (&mut choices.options, by_recipe) else { return choices };
    options.retain(|name| {
        let Ok(option) = filesystem.option(name) else { return true };
        let allowed = option.durability <= choices.allow;
        if !allowed {
            let (durability, risk) = (option.durability, option.risk.clone());
            notes.push(PlanNote::RecipeOption { option: name.clone(), durability, risk });
        }
        allowed
    });
    choices
}

fn chosen<'a>(
    catalog: &'a FileSystemCatalog,
    names: Option<&[String]>,
) -> Result<Vec<&'a FileSystem>, SeveralPlansError> {
    match names {
        None => Ok(catalog.filesystems().iter().collect()),
        Some(names) => names.iter().map(|name| Ok(catalog.filesystem(name)?)).collect(),
    }
}

/// The file system for an image: the one that was named, or the first suitable one among
/// those that are planned anyway.
fn host(
    request: &SeveralPlansRequest<'_>,
    chosen: &[&FileSystem],
) -> Result<Option<String>, SeveralPlansError> {
    let layered = chosen.iter().find_map(|filesystem| filesystem.layered.as_ref());
    match (layered, request.host) {
        (None, Some(name)) => Err(SeveralPlansError::HostWithoutImage { host: name.to_owned() }),
        (_, Some(name)) => Ok(Some(name.to_owned())),
        (None, None) => Ok(None),
        (Some(_), None) if request.filesystems.is_none() => Ok(None),
        (Some(layered), None) => {
            let can = |filesystem: &&&FileSystem| {
                layered.hosts.contains(&filesystem.name) && filesystem.durability <= request.allow
            };
            Ok(chosen.iter().find(can).map(|filesystem| filesystem.name.clone()))
        }
    }
}

/// Why a file system is not planned without being named.
fn unrequested(filesystem: &FileSystem, allow: Durability) -> Option<UnplannedReason> {
    if filesystem.layered.is_some() {
        return Some(UnplannedReason::NeedsImage);
    }
    (filesystem.durability > allow).then(|| UnplannedReason::TooRisky {
        durability: filesystem.durability,
        risk: filesystem.risk.clone(),
    })
}

fn plan_one(
    catalog: &FileSystemCatalog,
    filesystem: &FileSystem,
    host: Option<&str>,
    device: &PlanningDevice,
    given: &Geometry,
    choices: &PlanRequest,
) -> Result<Plan, PlanError> {
    let planned = device.planned.clone();
    let (given, declared) = (given.clone(), device.declared.clone());
    let inputs = if filesystem.layered.is_some() {
        choose_layered(catalog, filesystem, host, planned, [given, declared], choices)?
    } else {
        choose(filesystem, planned, given, declared, choices)?
    };
    Plan::of(catalog, &inputs)
}

/// A recipe that was made for a device built like this one.
fn fitting_recipe(plan: &Plan, recipes: &PublishedRecipes) -> Option<PlanNote> {
    let used = &plan.geometry.used;
    // Numbers that are the recipe's own say nothing about this device.
    let source = used.erase_block.as_ref().map(|known| &known.source);
    if matches!(source, Some(QuantitySource::Published(_))) {
        return None;
    }
    let recipe = recipes.all().find(|recipe| recipe.is_for(used))?;
    Some(PlanNote::RecipeFits {
        name: recipe.name.clone(),
        is_used: plan.choices.recipe.as_deref() == Some(&recipe.name),
        differs: recipe.differs.clone(),
    })
}
