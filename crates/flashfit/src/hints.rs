//! What the user can type when something fails: the only place that names flags and commands for
//! errors of other crates.

use std::any::Any;

use flashfit_apply::InfeasiblePlan;
use flashfit_filesystem::Scheduler;
use flashfit_filesystem::plan::{PlanError, SeveralPlansError};
use flashfit_host::program::quote;
use flashfit_probe::{ProbeFileError, ProbeRunError};
use flashfit_tune::run::{RecordedCatalogError, RunError, UnusableReason};
use flashfit_user_error::UserError;

/// A hint for any error of the crates.
pub fn hint<E: UserError + 'static>(error: &E) -> Option<String> {
    let any: &dyn Any = error;
    if let Some(error) = any.downcast_ref() {
        return several_plans(error);
    }
    if let Some(error) = any.downcast_ref() {
        return plan(error);
    }
    if let Some(InfeasiblePlan::Plan(error)) = any.downcast_ref() {
        return plan(error);
    }
    if let Some(ProbeRunError::Region { .. }) = any.downcast_ref() {
        return Some("a region is START+LENGTH, such as --region 1GiB+512MiB".to_owned());
    }
    if let Some(error) = any.downcast_ref() {
        return probe_file(error);
    }
    if let Some(error) = any.downcast_ref() {
        return run(error);
    }
    if let Some(error) = any.downcast_ref() {
        return recorded_catalog(error);
    }
    error.hint()
}

fn probe_file(error: &ProbeFileError) -> Option<String> {
    match error {
        ProbeFileError::File(error) => error.hint(),
        ProbeFileError::Invalid { .. } | ProbeFileError::OtherSchema { .. } => {
            Some("make it with: flashfit probe TARGET --output FILE".to_owned())
        }
        ProbeFileError::OtherDevice { .. } => {
            Some("probe this one: flashfit probe TARGET --output FILE".to_owned())
        }
    }
}

fn run(error: &RunError) -> Option<String> {
    let text = match error {
        RunError::Start(_) => "--start takes auto, whole or a position such as 4MiB or 63s".into(),
        RunError::PartitionStart { .. } => "leave --start out, or name the whole medium".into(),
        RunError::OtherDevice { .. } => {
            "put that medium in, or begin a new run without --resume".into()
        }
        RunError::OtherNumbers { .. } => {
            "go on with the flashfit that began it, or begin a new run without --resume".into()
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
        RunError::Scratch(_) => "name a run directory without spaces and signs with --dir".into(),
        RunError::OtherKernel { .. } => "ask for boards of one kind by their tags".into(),
        RunError::NotAgreed { missing, .. } => {
            let names = missing.iter().map(|(board, device)| format!("{board}:{device}"));
            format!("--confirm {}", names.collect::<Vec<_>>().join(","))
        }
        RunError::OnBoard { error, .. } => return run(error),
        RunError::Catalog(error) => return recorded_catalog(error),
        other => return other.hint(),
    };
    Some(text)
}

fn unusable(reason: &UnusableReason) -> Option<String> {
    match reason {
        UnusableReason::PlanOnly(_) => Some("name another one with --fs".to_owned()),
        UnusableReason::Program(error) => error.hint(),
        UnusableReason::Kernel { .. } => {
            Some("try it in a virtual machine, whose kernel has it: --on vm".to_owned())
        }
        UnusableReason::TooSmall { .. } => {
            Some("use a larger medium, or another file system with --fs".to_owned())
        }
    }
}

fn recorded_catalog(error: &RecordedCatalogError) -> Option<String> {
    match error {
        RecordedCatalogError::Entry(error) => error.hint(),
        RecordedCatalogError::NeedsBuiltIn => {
            Some("leave --catalog out, or: unset FLASHFIT_CATALOG".to_owned())
        }
        RecordedCatalogError::NeedsCatalog { folder } => {
            let folder = quote(&folder.display().to_string());
            Some(format!("if you trust it, add: --catalog {folder}"))
        }
        RecordedCatalogError::OtherDefinitions => {
            Some("name the catalog as it was when the run began, with --catalog DIR".to_owned())
        }
    }
}

fn several_plans(error: &SeveralPlansError) -> Option<String> {
    match error {
        SeveralPlansError::Plan(error) => plan(error),
        SeveralPlansError::EraseUnit { .. } => {
            Some("4MiB are 4194304 bytes, 4MB are 4000000: --erase-block 4MiB".to_owned())
        }
        SeveralPlansError::HostWithoutImage { .. } => {
            Some("leave --host out, or name an image such as --fs squashfs".to_owned())
        }
    }
}

fn plan(error: &PlanError) -> Option<String> {
    let text = match error {
        PlanError::TooSmall { .. } => "name another file system with --fs".to_owned(),
        PlanError::Unfit { .. } => {
            "name another file system with --fs, or another --erase-block".to_owned()
        }
        PlanError::Partition { .. } => {
            "leave --table and --start out, or name the whole medium".to_owned()
        }
        PlanError::Host { hosts, .. } => format!("use --host with one of {}", hosts.join(", ")),
        PlanError::MountPoint { .. } => "name another place with --mount-point".to_owned(),
        PlanError::NotAllowed { durability, .. } => {
            format!("leave it out, or agree with --allow {durability}")
        }
        PlanError::Layout(_) | PlanError::Setup(_) | PlanError::Unknown(_) => return error.hint(),
    };
    Some(text)
}
