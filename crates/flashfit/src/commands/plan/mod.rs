//! `flashfit plan TARGET`: layouts and commands that fit a device, with the reason for every
//! number. Nothing is written but the plan's own file.

pub mod again;
pub mod args;

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_filesystem::plan::{
    Plan, PlanningDevice, PublishedRecipes, SeveralPlansError, SeveralPlansRequest,
    check_given_sizes, file, plan_several, standings, usual_write_unit,
};
use flashfit_geometry::Geometry;
use flashfit_host::SystemRunner;
use flashfit_host::processor::page_bytes;
use flashfit_option_probe::{Cache, absent_in_plan, kernel};
use flashfit_target::InspectedTarget;
use flashfit_user_error::ExitClass;
use flashfit_wear::MeasuredLives;

use crate::cli::partition_end;
use crate::command_error::CommandError;
use crate::consent;
use crate::output;
use crate::output_file::{OutputFile, OutputKind};
use crate::probe::{quick, saved};
use crate::rendering;
use crate::rendering::plan_list::{NamedTarget, PlanList};
use crate::signals;
use args::PlanArgs;

pub fn run(args: &PlanArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let fs_catalog = FileSystemCatalog::load(catalog)?;
    let recipes = PublishedRecipes::load(catalog)?;
    let recipe = args.recipe.as_deref().map(|name| recipes.find(name)).transpose()?;
    recipe.map_or(Ok(()), |recipe| recipes.check(recipe, &fs_catalog))?;
    let target = InspectedTarget::inspect(&args.target, &SystemRunner::default(), catalog)?;
    args.check_mount_point()?;
    let (table, start) = args.placement()?;
    let device = PlanningDevice {
        planned: target.planned(),
        declared: target.declared_geometry(),
        scheduler: target.scheduler().map(str::to_owned),
    };
    let (sector_bytes, capacity) = (device.planned.sector_bytes, device.planned.capacity_bytes);
    check_given_sizes(args.erase_block, args.write_unit, sector_bytes, Bytes(capacity))?;
    let mut notes = Vec::new();
    let request = SeveralPlansRequest {
        filesystems: args.filesystems.as_deref(),
        options: args.options.as_deref(),
        host: args.host.as_deref(),
        scheduler: args.scheduler.as_deref(),
        table,
        start,
        end: partition_end(args.align_end),
        label: args.label.as_deref(),
        second: args.second.as_ref(),
        erase_block: args.erase_block,
        write_unit: args.write_unit,
        probed: probed(args, &target, &device, &mut notes)?,
        usual_write_unit: usual_write_unit(catalog)?,
        mount_point: args.mount_point.clone(),
        recipe,
        allow: args.allow,
    };
    let made = plan_several(&fs_catalog, &recipes, &device, &request).map_err(in_words)?;
    let refusal = target.device().and_then(consent::would_be_refused);
    let standings = standings(&made.plans, &fs_catalog, |filesystem| {
        kernel::has(&filesystem.kind) && filesystem.why_not_with_pages(page_bytes()).is_none()
    });
    for plan in &made.plans {
        let filesystem = fs_catalog.filesystem(plan.filesystem())?;
        let reason = filesystem.why_not_with_pages(page_bytes());
        notes.extend(reason.map(|reason| format!("{}: {reason}", plan.filesystem())));
        // A list of other plans says it there.
        if args.filesystems.is_some() && !kernel::has(&filesystem.kind) {
            notes.push(format!("this kernel has no {}", filesystem.kind));
        }
        let runner = SystemRunner::default();
        let absent = absent_in_plan(&runner, &fs_catalog, plan, &Cache::of_user())?;
        notes.extend(absent.into_iter().map(|found| {
            format!(
                "{}: not on this machine: `{}`: {}",
                found.filesystem, found.option, found.reason
            )
        }));
    }
    let named = NamedTarget { name: args.target.clone(), arguments: again::arguments(args) };
    let measured = MeasuredLives::load(catalog)?;
    let mut shown = PlanList::new(named, refusal, (made, standings), &fs_catalog, &measured, notes);
    if let Some(path) = &args.output {
        write(path, args.force, &shown.plans)?;
        shown.written = Some(path.clone());
    }
    let is_empty = shown.plans.is_empty();
    if args.json {
        output::json(shown)?;
    } else {
        output::print(&rendering::plan::text(&shown, args.all, output::width()))?;
    }
    if is_empty {
        let text = format!("there is no plan for {}", args.target);
        return Err(CommandError::new(ExitClass::BadVerdict, text, None));
    }
    Ok(())
}

/// The geometry of the file that was named, or else of timed reads, if the device is there.
fn probed(
    args: &PlanArgs,
    target: &InspectedTarget,
    device: &PlanningDevice,
    notes: &mut Vec<String>,
) -> Result<Geometry, CommandError> {
    let given = args.geometry.is_some() || args.erase_block.is_some() || args.recipe.is_some();
    if given || args.no_probe || target.device().is_none() {
        return saved::read(args.geometry.as_deref(), &device.planned, notes);
    }
    Ok(quick::geometry(&args.target, target, signals::interrupt()?, notes))
}

fn in_words(error: SeveralPlansError) -> CommandError {
    match error {
        SeveralPlansError::HostWithoutImage { host } => CommandError::new(
            ExitClass::Usage,
            format!("--host {host}: none of the file systems is an image that would lie on it"),
            Some("leave --host out, or name an image such as --fs squashfs"),
        ),
        other => other.into(),
    }
}

fn write(path: &Path, force: bool, plans: &[Plan]) -> Result<(), CommandError> {
    let [plan] = plans else {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!("a file contains one plan, and there are {}", plans.len()),
            Some("name one file system, such as --fs ext4"),
        ));
    };
    let output = OutputFile::check(path, OutputKind::Plan, force)?;
    output.write(&file::write(plan, env!("CARGO_PKG_VERSION")))
}
