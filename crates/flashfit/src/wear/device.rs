//! The device whose counters are read.

use std::path::Path;

use flashfit_device::{Device, SystemRoots, Target};
use flashfit_host::Runner;
use flashfit_host::program::quote;
use flashfit_user_error::ExitClass;
use flashfit_wear_counters::{AtaAttributes, WearSources};

use crate::command_error::CommandError;

/// Describes the device whose counters are read.
pub fn device(
    text: &str,
    system: &SystemRoots,
    runner: &dyn Runner,
    catalog: Option<&Path>,
) -> Result<Device, CommandError> {
    match Target::parse(text)? {
        Target::Node(path) => Ok(Device::from_node(system, runner, &path)?),
        Target::Image(path) => Err(CommandError::new(
            ExitClass::Usage,
            format!("{} is an image file, which has no counters", path.display()),
            Some("flashfit list shows the devices"),
        )),
        Target::Simulated(name) => {
            flashfit_card::catalog::load(&name, catalog)?;
            Err(CommandError::new(
                ExitClass::Usage,
                format!("sim:{name} is a model; only a card that is being served counts"),
                Some(&format!("serve it: flashfit card serve {}", quote(&name))),
            ))
        }
    }
}

/// All sources, without flags of the user.
pub fn usual_sources<'a>(
    system: &'a SystemRoots,
    runner: &'a dyn Runner,
    attributes: &'a AtaAttributes,
) -> WearSources<'a> {
    WearSources {
        system,
        runner,
        attributes,
        is_root: rustix::process::geteuid().is_root(),
        smartctl_type: None,
        unlisted_logs: false,
    }
}
