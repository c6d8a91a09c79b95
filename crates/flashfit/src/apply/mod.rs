//! `flashfit apply PLAN|RUN TARGET` makes a plan true, `flashfit restore DIR TARGET` takes it back.

mod additions;
pub mod args;
mod context;
mod feasible;
mod install;
mod interrupted;
mod keep_data;
mod keep_earlier;
mod keep_run;
pub mod restore;
pub mod restore_keep_data;
mod run_source;
pub(crate) mod source;
mod unfinished;

use std::path::Path;

use flashfit_apply::{Applied, ApplyJob, ApplyRequest};
use flashfit_device::{Device, DeviceKind, SystemRoots, Target};
use flashfit_host::SystemRunner;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::consent;
use crate::output::{note, note_with_commands};
use crate::rendering::apply as show;
use args::ApplyArgs;
use context::{ApplyContext, environment};
use feasible::{existing_folder, refuse_absent, refuse_pages, refuse_unmountable, to_pack};
use interrupted::{backup_folder, note_unfinished};
use source::PlanSource;
use unfinished::{left, only_not_mounted, restore_command, resume_command};

pub use restore::run as restore;
pub use unfinished::{unfinished_apply, unfinished_improvement};

pub fn run(args: &ApplyArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    if let Some(device) = &args.keep_data {
        return keep_data::run(args, device, catalog);
    }
    let (Some(from), Some(target)) = (&args.source, &args.target) else {
        unreachable!("both are required without --keep-data");
    };
    let runner = SystemRunner::default();
    let device = look(target, &runner)?;
    let point = args.mount_point.as_deref().map(existing_folder).transpose()?;
    let source = PlanSource::read(from, &device, (point.as_deref(), &args.additions), catalog)?;
    refuse_pages(&source)?;
    refuse_unmountable(&source, point.as_deref())?;
    refuse_absent(&source, &runner, catalog.is_some())?;
    let packed = to_pack(args.from.as_deref(), &source.plan)?;
    // Also a plan that cannot be carried out is found now.
    let job = |node: &Path| ApplyJob::of(&source.plan, &source.fs_catalog, node, packed.as_deref());
    let shown_job = job(&source.plan.example_node())?;
    let install = install::install(args, &device);
    let replaced = install::replaced_lines(install.as_ref(), &shown_job)?;
    let (backup, is_made) = backup_folder(args, &device);
    let lost = show::lost(&runner, &device);
    let doing = show::doing(
        &device,
        &source.plan,
        (&backup, is_made),
        install.as_ref().map(|install| (install, replaced.as_slice())),
        [point.as_deref(), packed.as_deref()],
    );
    if args.agreed.dry_run {
        let lost = with_objection(lost, &device);
        let price = show::price(&device, &source.plan);
        return show::dry_run(args.agreed.json, &source.plan, &price, &lost, &doing);
    }
    consent::refuse_early(&device)?;
    let programs = source.plan.all_commands().map(|command| command.program.as_str());
    environment(programs.chain(["blkid", "partx", "wipefs"]))?;
    note_with_commands(&lost);
    note_unfinished(&device);
    note_with_commands(&doing);
    note(&show::price_text(&show::price(&device, &source.plan)));
    let means = ApplyContext::take(&device, &args.agreed)?;
    let consent = means.held.consent();
    let work = job(consent.path())?;
    let (resume_command, restore_command) = (
        |folder: &Path| resume_command(args, from, &device, folder),
        |folder: &Path| restore_command(&device, folder),
    );
    let request = ApplyRequest {
        consent,
        work: &work,
        backup,
        backup_is_given: args.backup.is_some(),
        has_queue: device.kind != DeviceKind::Image,
        install: install.as_ref(),
        resume_command: &resume_command,
        restore_command: &restore_command,
    };
    let applied = flashfit_apply::apply(&means.tools(), &request)
        .map_err(|error| left(error.into(), consent.device()))?;
    if let Some(point) = &point {
        let mounted = flashfit_apply::mount(&means.tools(), &request, point);
        mounted.map_err(|error| only_not_mounted(error.into(), &device, &applied.backup))?.keep();
    }
    present(args, &source, &applied, &device, point.as_deref())
}

/// What a dry run shows: first that the guard would refuse.
fn with_objection(lost: String, device: &Device) -> String {
    match consent::would_be_refused(device) {
        Some(refusal) => format!("{refusal}\n{lost}"),
        None => lost,
    }
}

fn look(target: &str, runner: &SystemRunner) -> Result<Device, CommandError> {
    match Target::parse(target)? {
        Target::Node(path) => Ok(Device::from_node(&SystemRoots::default(), runner, &path)?),
        Target::Image(path) => Ok(Device::from_image(runner, &path)?),
        Target::Simulated(_) => Err(CommandError::new(
            ExitClass::Usage,
            "a simulated card and its contents exist only until flashfit ends",
            Some("name a device node or an image file, such as one of: truncate -s 1G card.img"),
        )),
    }
}

fn present(
    args: &ApplyArgs,
    source: &PlanSource,
    applied: &Applied,
    device: &Device,
    point: Option<&Path>,
) -> Result<(), CommandError> {
    let restore_command = restore_command(device, &applied.backup);
    show::done(args.agreed.json, source, applied, point, &restore_command)
}
