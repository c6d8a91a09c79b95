//! `flashfit apply --keep-data DEVICE`: makes the changes that need no mkfs.

use std::path::Path;

use flashfit_apply::keep_data::{
    DeviceAccess, ImproveRequest, ImprovementPlan, PinnedDevice, PlanContext, improve,
};
use flashfit_check::VolumeNodes;
use flashfit_device::{Device, DeviceLock, Refusal, SystemRoots};
use flashfit_filesystem::FileSystemCatalog;
use flashfit_filesystem::check::{check, examine};
use flashfit_filesystem::improvement::{RequestedImprovements, requested};
use flashfit_filesystem::plan::units;
use flashfit_geometry::Geometry;
use flashfit_host::{SystemRunner, path_text};
use flashfit_target::InspectedTarget;

use super::args::ApplyArgs;
use super::context::{ApplyMeans, environment};
use super::keep_earlier::{EarlierChange, absolute, asked};
use super::keep_run::with_run;
use super::look;
use super::unfinished::{keep_data_command, left_improvement, restore_command};
use crate::command_error::CommandError;
use crate::consent;
use crate::output::note_with_commands;
use crate::rendering::keep_data as show;

pub fn run(args: &ApplyArgs, name: &str, own: Option<&Path>) -> Result<(), CommandError> {
    let (runner, system) = (SystemRunner::default(), SystemRoots::default());
    let device = look(name, &runner)?;
    let dry_run = args.agreed.dry_run;
    let is_exclusive = match consent::refuse_early(&device) {
        Ok(()) => true,
        Err(Refusal::InUse { .. }) => false,
        Err(other) => return Err(other.into()),
    };
    let earlier = EarlierChange::of(args, &device)?;
    let (plan, folder) = match &earlier {
        Some(earlier) => (earlier.journal.rest(), earlier.found.folder.clone()),
        None => {
            let now = flashfit_host::calendar::unix_seconds();
            let new = || flashfit_apply::backup::default_folder(&device, now);
            (plan(args, &device, is_exclusive, own)?, args.backup.clone().unwrap_or_else(new))
        }
    };
    let root = earlier.as_ref().and_then(EarlierChange::root).unwrap_or(&args.root);
    let back = restore_command(&device, &absolute(&folder));
    if let Some(complete) = earlier.as_ref().filter(|_| plan.steps.is_empty() && !dry_run) {
        return show::done(args.agreed.json, &device, &plan, &complete.improved(), &back);
    }
    let found = earlier.as_ref().map(|earlier| &earlier.found);
    let what = show::announcement(&device, &plan, found, &folder);
    if args.agreed.json && !dry_run && plan.steps.is_empty() {
        return show::nothing_to_do(&device, &plan);
    }
    if dry_run || plan.steps.is_empty() {
        return show::not_done(args.agreed.json, &device, is_exclusive, &plan, &what);
    }
    environment(show::programs(&plan))?;
    // Mount points are opened before the user agrees.
    let pinned = (!is_exclusive).then(|| PinnedDevice::open(&system, &device)).transpose()?;
    note_with_commands(&what);
    let consent = consent::for_settings(&device, args.agreed.confirm.as_deref(), is_exclusive)?;
    let means = ApplyMeans::new()?;
    let access = match (pinned, consent) {
        (None, Some(consent)) => {
            DeviceAccess::Exclusive(DeviceLock::acquire(&means.runner, consent)?)
        }
        (Some(pinned), _) => DeviceAccess::in_use(&system, pinned)?,
        (None, None) => unreachable!("the guard gives its consent or refuses"),
    };
    let request = ImproveRequest {
        access: &access,
        steps: plan.steps.clone(),
        asked: asked(args, &plan.improvements),
        resume_command: keep_data_command(root, &device, &folder),
        restore_command: back,
        folder,
    };
    let improved = improve(&means.tools(), &request)
        .map_err(|error| left_improvement(error.into(), &device))?;
    show::done(args.agreed.json, &device, &plan, &improved, &request.restore_command)
}

/// What the checks propose and the user asks for, on the device as it is now.
fn plan(
    args: &ApplyArgs,
    device: &Device,
    is_exclusive: bool,
    own_catalog: Option<&Path>,
) -> Result<ImprovementPlan, CommandError> {
    let catalog = &FileSystemCatalog::load(own_catalog)?;
    let runner = SystemRunner::default();
    let target = InspectedTarget::of_device(device.clone());
    let given =
        Geometry::of_sizes(units::given(args.keep.erase_block), units::given(args.keep.write_unit));
    // An image is attached read-only, and detached before the user is asked.
    let volumes = VolumeNodes::attach(&runner, device);
    volumes.warnings.iter().for_each(|warning| crate::output::warn(warning));
    let declared = target.declared_geometry();
    // The commands that are shown can be typed in any directory, also from the journal.
    let name = path_text::to_text(&device.path);
    let examined = examine(&runner, &name, device, &volumes.nodes, (&given, &declared), None);
    drop(volumes);
    let request = RequestedImprovements {
        options: args.keep.with.clone(),
        scheduler: args.keep.scheduler.clone(),
        read_ahead: args.keep.read_ahead,
    };
    let request = match &args.keep.run {
        None => request,
        Some(dir) => with_run(dir, own_catalog, &examined, request)?,
    };
    let requested = requested(&examined, catalog, &request)?;
    let context = PlanContext { examined: &examined, is_exclusive, root: &args.root };
    Ok(ImprovementPlan::of(&context, &check(&examined, catalog), requested)?)
}
