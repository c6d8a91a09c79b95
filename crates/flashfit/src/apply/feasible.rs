//! What is looked at before a plan is applied: directories that are named, and what this kernel
//! mounts.

use std::path::{Path, PathBuf};

use flashfit_filesystem::Plan;
use flashfit_host::Runner;
use flashfit_host::processor::page_bytes;
use flashfit_host::program::quote_path;
use flashfit_option_probe::{Cache, absent_in_plan, kernel, refused_in_rehearsal};
use flashfit_user_error::ExitClass;

use super::source::PlanSource;
use crate::command_error::CommandError;

/// The directory that is packed into the image of the plan; `None` where it has no image.
pub fn to_pack(from: Option<&Path>, plan: &Plan) -> Result<Option<PathBuf>, CommandError> {
    let usage =
        |message: String, hint: &str| Err(CommandError::new(ExitClass::Usage, message, Some(hint)));
    let name = plan.filesystem();
    match (&plan.layers, from) {
        (None, None) => Ok(None),
        (Some(_), None) => usage(
            format!("{name} is packed from one of your directories, and none is named"),
            "name it with --from DIRECTORY, or run the commands that flashfit plan shows",
        ),
        (None, Some(_)) => usage(
            format!("--from: {name} is not packed from a directory"),
            "leave --from out, or make a plan with --fs squashfs",
        ),
        (Some(_), Some(from)) => match from.canonicalize() {
            Ok(path) if path.is_dir() => Ok(Some(path)),
            _ => usage(
                format!("there is no directory {} to pack", from.display()),
                "name the directory that the device is to contain",
            ),
        },
    }
}

/// The directory to mount it on.
pub fn existing_folder(path: &Path) -> Result<PathBuf, CommandError> {
    path.canonicalize().ok().filter(|path| path.is_dir()).ok_or_else(|| {
        let message = format!("there is no directory {} to mount it on", path.display());
        let hint = format!("mkdir -p {}", quote_path(path));
        CommandError::new(ExitClass::Usage, message, Some(&hint))
    })
}

/// Refuses what this kernel would not mount, before anything is erased for it.
pub fn refuse_pages(source: &PlanSource) -> Result<(), CommandError> {
    let filesystem = source.fs_catalog.filesystem(source.plan.filesystem())?;
    match filesystem.why_not_with_pages(page_bytes()) {
        None => Ok(()),
        Some(reason) => Err(CommandError::new(
            ExitClass::Environment,
            format!("{}: {reason}", filesystem.name),
            Some("name another file system: flashfit plan TARGET --fs ext4 --output FILE"),
        )),
    }
}

/// Refuses to mount what this kernel does not have, before anything is erased for it.
pub fn refuse_unmountable(source: &PlanSource, point: Option<&Path>) -> Result<(), CommandError> {
    let kind = source.plan.recipe(&source.fs_catalog)?.kind().to_owned();
    match point {
        Some(point) if !kernel::has(&kind) => Err(CommandError::new(
            ExitClass::Environment,
            format!("cannot mount on {}: this kernel has no {kind}", point.display()),
            Some("leave out --mount-point: the file system is then made and not mounted"),
        )),
        _ => Ok(()),
    }
}

/// Refuses options that this kernel or the installed programs do not have, before anything is
/// erased for them. Options of the user's own catalog are tried on a scratch image.
pub fn refuse_absent(
    source: &PlanSource,
    runner: &dyn Runner,
    is_own_catalog: bool,
) -> Result<(), CommandError> {
    let (fs_catalog, plan) = (&source.fs_catalog, &source.plan);
    let mut absent = absent_in_plan(runner, fs_catalog, plan, &Cache::of_user())?;
    if absent.is_empty() && is_own_catalog {
        absent = refused_in_rehearsal(runner, fs_catalog, plan);
    }
    let Some(first) = absent.first() else { return Ok(()) };
    let sentences = absent.iter().map(|found| format!("`{}`: {}", found.option, found.reason));
    let name = &first.filesystem;
    Err(CommandError::new(
        ExitClass::Environment,
        format!("{name}: {}", sentences.collect::<Vec<_>>().join("; ")),
        Some(&format!(
            "make a plan without it: flashfit plan TARGET --fs {name} --options NAMES --output FILE; \
             flashfit options --fs {name} shows what works here"
        )),
    ))
}
