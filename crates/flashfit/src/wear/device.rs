//! The device whose counters are read.

use flashfit_device::{Device, SystemRoots, Target};
use flashfit_host::Runner;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;

/// Describes the device whose counters are read.
pub fn device(
    text: &str,
    system: &SystemRoots,
    runner: &dyn Runner,
) -> Result<Device, CommandError> {
    match Target::parse(text)? {
        Target::Node(path) => Ok(Device::from_node(system, runner, &path)?),
        Target::Image(path) => Err(CommandError::new(
            ExitClass::Usage,
            format!("{} is an image file, which has no counters", path.display()),
            Some("flashfit list shows the devices"),
        )),
        Target::Simulated(name) => Err(CommandError::new(
            ExitClass::Usage,
            format!("sim:{name} is a model; only a card that is being served counts"),
            Some(&format!("serve it: flashfit card serve {name}")),
        )),
    }
}
