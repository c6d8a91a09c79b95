//! Hints for runs.

use std::io::{Error, ErrorKind};

use flashfit_filesystem::Scheduler;
use flashfit_host::dir::DirError;
use flashfit_host::program::quote_path;
use flashfit_tune::run::{RecordedCatalogError, RunError, UnusableReason};
use flashfit_tune::run_dir::RunDirError;

use super::of;
use super::plan::plan;
use super::recorded::{problem, run_dir, tune};

pub fn run(error: &RunError) -> Option<String> {
    let text = match error {
        RunError::Start(_) => "--start takes auto, whole or a position such as 4MiB or 63s".into(),
        RunError::PartitionStart { .. } => {
            "leave --start, --table, --align-end and --second out, or name the whole device".into()
        }
        RunError::OtherDevice { .. } => {
            "insert that device, or start a new run without --resume".into()
        }
        RunError::OtherNumbers { .. } => {
            "resume it with the version of flashfit that started it, or start a new run without \
             --resume"
                .into()
        }
        RunError::NoTrialsThere { .. } => {
            "run it as root (sudo flashfit tune ...), on a machine with loop devices and FUSE; or \
             in a virtual machine, which needs neither: flashfit doctor"
                .into()
        }
        RunError::NoScheduler { offered, .. } => {
            let names: Vec<&str> = offered.iter().map(Scheduler::name).collect();
            format!("it offers {}", names.join(", "))
        }
        RunError::Unusable { reason, .. } => return unusable(reason),
        RunError::NoFileSystem { .. } => "apt-get install e2fsprogs btrfs-progs".into(),
        RunError::UntriableOption { option, .. } => format!("take `{option}` out of `always`"),
        RunError::OptionWithoutEffect { filesystem, .. } => format!(
            "take it out of [options.{filesystem}]; flashfit options --fs {filesystem} shows what \
             was found"
        ),
        RunError::TooRisky { durability, .. } => {
            format!("add --allow {durability}, or take them out")
        }
        RunError::Scratch(_) => "name a run directory without spaces and special characters with \
                                 --dir"
            .into(),
        RunError::OtherKernel { .. } => "choose boards of one kind with more tags".into(),
        RunError::NotAgreed { missing, .. } => {
            let names = missing.iter().map(|(board, device)| format!("{board}:{device}"));
            format!("--confirm {}", names.collect::<Vec<_>>().join(","))
        }
        RunError::OnBoard { error, .. } => return run(error),
        RunError::Catalog(error) => return recorded_catalog(error),
        RunError::Plan(error) => return plan(error),
        RunError::Dir(RunDirError::Dir(DirError::System { source, .. })) if is_denied(source) => {
            "name a directory that you may write to with --dir; a run of root is continued by \
             root, with sudo"
                .into()
        }
        RunError::Dir(error) => return run_dir(error),
        RunError::Tune(error) => return tune(error),
        RunError::Problem(error) => return Some(problem(error)),
        other => return of(other),
    };
    Some(text)
}

fn is_denied(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

fn unusable(reason: &UnusableReason) -> Option<String> {
    match reason {
        UnusableReason::PlanOnly(_) | UnusableReason::Pages(_) => {
            Some("name another one with --fs".to_owned())
        }
        UnusableReason::Program(error) => of(error),
        UnusableReason::Kernel { .. } => {
            Some("try it in a virtual machine, whose kernel has it: --on vm".to_owned())
        }
        UnusableReason::TooSmall { .. } => {
            Some("use a larger device, or another file system with --fs".to_owned())
        }
    }
}

pub fn recorded_catalog(error: &RecordedCatalogError) -> Option<String> {
    match error {
        RecordedCatalogError::Entry(error) => of(error),
        RecordedCatalogError::NeedsBuiltIn => {
            Some("leave --catalog out, or: unset FLASHFIT_CATALOG".to_owned())
        }
        RecordedCatalogError::NeedsCatalog { folder } => {
            let quoted = quote_path(folder);
            Some(match folder.is_dir() {
                true => format!("if you trust it, add: --catalog {quoted}"),
                false => format!(
                    "{quoted} is not a directory here; if you have that catalog and trust it, add \
                     where it is: --catalog DIR. Without it, the trials can be read by: flashfit \
                     tune --replay RUN, or flashfit compare RUN RUN"
                ),
            })
        }
        RecordedCatalogError::OtherDefinitions => {
            Some("name the catalog as it was when the run began, with --catalog DIR".to_owned())
        }
    }
}
