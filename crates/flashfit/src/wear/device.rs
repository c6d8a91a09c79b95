//! The device whose counters are read.

use std::path::Path;

use flashfit_device::units::SECTOR_BYTES;
use flashfit_device::{Bytes, Device, SystemRoots, Target};
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

/// The size of the whole disk, also if the device is one of its partitions: its registers and its
/// erase blocks are those of the disk.
pub fn disk_capacity(system: &SystemRoots, device: &Device) -> Bytes {
    disk_size(system, &device.disk).unwrap_or(device.capacity)
}

fn disk_size(system: &SystemRoots, disk: &str) -> Option<Bytes> {
    let sectors = system.number(&system.block(disk).join("size"))?;
    Some(Bytes(sectors.saturating_mul(SECTOR_BYTES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_the_size_that_the_kernel_states_in_sectors() {
        let folder = tempfile::tempdir().unwrap();
        let system = SystemRoots { sys: folder.path().to_owned(), ..SystemRoots::default() };
        let disk = system.block("mmcblk0");
        std::fs::create_dir_all(&disk).unwrap();
        std::fs::write(disk.join("size"), "131072\n").unwrap();
        assert_eq!(disk_size(&system, "mmcblk0"), Some(Bytes::mib(64)));
        assert_eq!(disk_size(&system, "sda"), None);
    }
}
