//! The recommended setup of a run, as what a plan is made of.

use std::path::Path;

use flashfit_device::identity::DeviceIdentity;
use flashfit_device::{Device, DeviceKind};
use flashfit_filesystem::plan::{PlanChoices, PlanInputs, PlannedDevice, StripeWidth};
use flashfit_filesystem::{
    Conditions, FileSystemCatalog, PartitionEnd, PartitionLayout, PartitionTable, Setup,
};
use flashfit_geometry::Geometry;
use flashfit_host::path_text;
use flashfit_host::program::quote_path;
use flashfit_tune::run::Catalogs;
use flashfit_tune::{RunHeader, Space, StoredRun};
use flashfit_user_error::ExitClass;

use super::source::NEW_PLAN_HINT;
use crate::command_error::CommandError;
use crate::rendering::{RunView, verdict};

/// The recommended setup of a run, where it was measured.
pub fn of_run(
    dir: &Path,
    device: &Device,
    catalog: Option<&Path>,
) -> Result<(FileSystemCatalog, PlanInputs), CommandError> {
    let (header, filesystems, setup) = found(dir, catalog)?;
    let inputs = PlanInputs {
        device: measured(&header, device),
        given: header.facts.geometry.clone(),
        declared: Geometry::default(),
        choices: layered(&filesystems, choices(&header, setup))?,
    };
    Ok((filesystems, inputs))
}

/// The recommended setup of a run, and the catalog that it was made of.
pub fn recommended(
    dir: &Path,
    catalog: Option<&Path>,
) -> Result<(FileSystemCatalog, Setup), CommandError> {
    found(dir, catalog).map(|(_, filesystems, setup)| (filesystems, setup))
}

fn found(
    dir: &Path,
    catalog: Option<&Path>,
) -> Result<(RunHeader, FileSystemCatalog, Setup), CommandError> {
    let run = StoredRun::read(dir)?;
    if run.header.facts.card.is_some() {
        return Err(CommandError::new(
            ExitClass::Usage,
            "the run was made on a simulated card, which no longer exists",
            Some(NEW_PLAN_HINT),
        ));
    }
    let catalogs = Catalogs::of_run(&run.header, catalog)?;
    let space = Space::of_run(&run.header, &catalogs.filesystems)?;
    let view = RunView::new(&run.header, &run.trials, &catalogs.workloads, &space)?;
    let Some(found) = view.recommendation() else {
        let why = verdict::verdict(&view, &catalogs.filesystems).headline;
        return Err(CommandError::new(
            ExitClass::BadVerdict,
            format!("the run has no result: {why}"),
            Some("continue it: flashfit tune --resume DIR"),
        )
        .in_dir(&quote_path(dir)));
    };
    let setup = found.recommended().clone();
    Ok((run.header.clone(), catalogs.filesystems, setup))
}

/// The choices with the host that trials gave an image, where the recommended setup is one.
fn layered(catalog: &FileSystemCatalog, choices: PlanChoices) -> Result<PlanChoices, CommandError> {
    let filesystem = catalog.filesystem(&choices.setup.filesystem)?;
    let Some(host) = filesystem.layered.as_ref().and_then(|layered| layered.hosts.first()) else {
        return Ok(choices);
    };
    let host = catalog.filesystem(host)?;
    let scheduler = choices.setup.scheduler.clone();
    let setup = Setup::new::<&str>(host, [], scheduler, &Conditions::default())?;
    Ok(PlanChoices { image: Some(choices.setup), setup, ..choices })
}

/// The device of the run. An image was measured as the loop device over it.
fn measured(header: &RunHeader, now: &Device) -> PlannedDevice {
    let mut device = PlannedDevice::of(&header.facts.device);
    let is_named = path_text::from_text(&header.spec.target) == header.facts.device.path;
    if device.kind == DeviceKind::Loop && !is_named && now.kind == DeviceKind::Image {
        device.kind = DeviceKind::Image;
        device.identity = DeviceIdentity::default();
        device.sector_bytes = PlannedDevice::of(now).sector_bytes;
    }
    device
}

fn choices(header: &RunHeader, setup: flashfit_filesystem::Setup) -> PlanChoices {
    let is_partition = header.facts.device.partition_start.is_some();
    let (table, start_bytes) = match header.facts.layout.layout {
        _ if is_partition => (None, None),
        PartitionLayout::WholeDevice => (Some(PartitionTable::None), None),
        PartitionLayout::Partition { start_bytes, table, .. } => (Some(table), Some(start_bytes)),
    };
    PlanChoices {
        table,
        start_bytes,
        end: start_bytes.map(|_| header.spec.end.unwrap_or_else(PartitionEnd::formerly)),
        setup,
        image: None,
        label: header.spec.label.clone(),
        second: header.spec.second.clone().map(Into::into),
        stripe_width: StripeWidth::Blocks,
        recipe: None,
        mount_point: "/mnt/flash".into(),
        allow: header.spec.allow,
    }
}
