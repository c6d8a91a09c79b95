//! What the user can type when something fails: the only place that names flags and commands for
//! errors of other crates.

use std::any::Any;

use flashfit_apply::InfeasiblePlan;
use flashfit_filesystem::plan::{PlanError, SeveralPlansError};
use flashfit_probe::{ProbeFileError, ProbeRunError};
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
