//! Hints for plans and the geometry that they use.

use flashfit_filesystem::plan::{GivenSizeError, PlanError, SeveralPlansError};
use flashfit_filesystem::{OptionRequirement, SetupError};
use flashfit_probe::ProbeFileError;

use super::of;

pub fn probe_file(error: &ProbeFileError) -> Option<String> {
    match error {
        ProbeFileError::File(error) => of(error),
        ProbeFileError::Invalid { .. } | ProbeFileError::OtherSchema { .. } => {
            Some("make it with: flashfit probe TARGET --output FILE".to_owned())
        }
        ProbeFileError::Quantity { .. } => {
            Some("probe the device again: flashfit probe TARGET --output FILE".to_owned())
        }
        // Where the device is known, its command is named.
        ProbeFileError::OtherDevice { .. } => None,
    }
}

pub fn several_plans(error: &SeveralPlansError) -> Option<String> {
    match error {
        SeveralPlansError::Plan(error) => plan(error),
        SeveralPlansError::Size(error) => given_size(error),
        SeveralPlansError::HostWithoutImage { .. } => {
            Some("leave --host out, or name an image such as --fs squashfs".to_owned())
        }
    }
}

pub fn given_size(error: &GivenSizeError) -> Option<String> {
    let text = match error {
        GivenSizeError::EraseBlockSectors { .. } | GivenSizeError::AboveDevice { .. } => {
            "4MiB are 4194304 bytes, 4MB are 4000000: --erase-block 4MiB"
        }
        GivenSizeError::WriteUnitSectors { .. }
        | GivenSizeError::NoPages { .. }
        | GivenSizeError::AboveEraseBlock { .. } => {
            "the write unit is the pages that are programmed together: --write-unit 16KiB"
        }
    };
    Some(text.to_owned())
}

pub fn plan(error: &PlanError) -> Option<String> {
    let text = match error {
        PlanError::TooSmall { .. } => "name another file system with --fs".to_owned(),
        PlanError::Unfit { .. } => {
            "name another file system with --fs, or another --erase-block".to_owned()
        }
        PlanError::Partition { .. } => {
            "leave --table, --start and --align-end out, or name the whole device".to_owned()
        }
        PlanError::Second { .. } => "leave --second out, or change it: swap:512MiB, \
                                      ext4:2GiB:/srv"
            .to_owned(),
        PlanError::Label { .. } => "use another --label".to_owned(),
        PlanError::Host { hosts, .. } => format!("use --host with one of {}", hosts.join(", ")),
        PlanError::MountPoint { .. } => "name another mount point with --mount-point".to_owned(),
        PlanError::NotAllowed { durability, .. } => {
            format!("omit it, or accept the risk with --allow {durability}")
        }
        PlanError::Setup(SetupError::Unusable { option, reason, .. })
            if reason == OptionRequirement::WriteUnit.unmet() =>
        {
            format!("name it with --write-unit, or omit `{option}`")
        }
        PlanError::Layout(_) | PlanError::Setup(_) | PlanError::Unknown(_) => return of(error),
    };
    Some(text)
}
