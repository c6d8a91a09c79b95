//! What of a run's recommended setup needs no mkfs, for `apply --keep-data`; the rest is named.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_filesystem::check::ExaminedDevice;
use flashfit_filesystem::improvement::{
    ImprovedVolume, RequestError, RequestedImprovements, requested,
};
use flashfit_filesystem::{Conditions, FileSystem, Recipe, Setup};
use flashfit_user_error::ExitClass;

use super::run_source::recommended;
use crate::command_error::CommandError;
use crate::output::note;

const READ_AHEAD: &str = "queue/read_ahead_kb";

/// `given` with what the run in `dir` recommends and this device can have as it is. What the user
/// gave takes precedence.
pub fn with_run(
    dir: &Path,
    catalog: Option<&Path>,
    examined: &ExaminedDevice,
    given: RequestedImprovements,
) -> Result<RequestedImprovements, CommandError> {
    let (catalog, setup) = recommended(dir, catalog)?;
    let filesystem = catalog.filesystem(&setup.filesystem)?;
    let is_there = examined
        .volumes
        .iter()
        .filter_map(ImprovedVolume::of)
        .any(|volume| volume.kind == filesystem.kind);
    if !is_there {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!(
                "the run recommends {setup}, and {} has no {}",
                examined.target, filesystem.name
            ),
            Some("another file system needs mkfs: flashfit apply RUN DEVICE erases the device"),
        ));
    }
    let mut all = given;
    let mut left_out = Vec::new();
    for name in &setup.options {
        if let (Some(kib), true) = (read_ahead(filesystem, &setup, name), examined.queue.is_some())
        {
            all.read_ahead.get_or_insert(Bytes(kib << 10));
            continue;
        }
        let pair = (filesystem.name.clone(), name.clone());
        let one = RequestedImprovements { options: vec![pair.clone()], ..Default::default() };
        match requested(examined, &catalog, &one) {
            Ok(_) if all.options.contains(&pair) => {}
            Ok(_) => all.options.push(pair),
            Err(error @ (RequestError::NotPossible { .. } | RequestError::NoQueue { .. })) => {
                left_out.push(error.to_string());
            }
            Err(other) => return Err(other.into()),
        }
    }
    if examined.queue.is_some() {
        all.scheduler.get_or_insert_with(|| setup.scheduler.name().to_owned());
    } else {
        left_out.push(format!("scheduler {}: an image has no queue", setup.scheduler));
    }
    note(&format!("the run recommends {setup}"));
    left_out.iter().for_each(|reason| note(&format!("left out: {reason}")));
    Ok(all)
}

/// The read-ahead that the option sets, in KiB.
fn read_ahead(filesystem: &FileSystem, of: &Setup, option: &str) -> Option<u64> {
    let conditions = Conditions::default();
    let alone = Setup::new(filesystem, [option], of.scheduler.clone(), &conditions).ok()?;
    let recipe = Recipe::new(filesystem, &alone, &conditions).ok()?;
    let (_, value) = recipe.sysfs().iter().find(|(path, _)| path == READ_AHEAD)?;
    value.parse().ok()
}
