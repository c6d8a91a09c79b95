//! All devices that this machine has, whatever they are used for.

use std::path::Path;

use crate::describe::Device;
use crate::system::SystemRoots;

/// Describes, without opening any, every block device that has a size and is not made of memory or
/// of other devices.
pub fn media(system: &SystemRoots) -> Vec<Device> {
    system
        .names(&system.sys.join("block"))
        .into_iter()
        .filter(|name| {
            !["ram", "zram", "dm-", "md", "sr"].iter().any(|made| name.starts_with(made))
        })
        .filter_map(|name| Device::at_a_glance(system, &Path::new("/dev").join(name)).ok())
        .collect()
}
