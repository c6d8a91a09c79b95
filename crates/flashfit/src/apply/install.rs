//! `--install`: the system whose files are changed, looked at before anything is erased.

use flashfit_apply::{ApplyError, ApplyJob, InstallTarget, RulePlacement};
use flashfit_device::{Device, DeviceKind};

use super::args::ApplyArgs;
use crate::command_error::CommandError;

/// Where to install, if that is asked for.
pub fn install(args: &ApplyArgs, device: &Device) -> Option<InstallTarget> {
    let rule = RulePlacement::of(&args.root, device.kind == DeviceKind::Image);
    args.install.then(|| InstallTarget { root: args.root.clone(), rule })
}

/// The lines of fstab that are going to be replaced; refuses a system whose files cannot be
/// changed.
pub fn replaced_lines(
    install: Option<&InstallTarget>,
    work: &ApplyJob,
) -> Result<Vec<String>, CommandError> {
    let Some(install) = install else { return Ok(Vec::new()) };
    install.check(work).map_err(|error| {
        let is_unwritable = matches!(error, ApplyError::UnwritableFile { .. });
        let more = if is_unwritable { ", or leave out --install" } else { "" };
        CommandError::from(error).and_hint(more)
    })?;
    Ok(install.replaced_lines(work)?)
}
