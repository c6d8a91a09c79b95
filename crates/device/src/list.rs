//! Lists the block devices of this machine.

use std::path::Path;

use crate::describe::Device;
use crate::system::SystemRoots;

/// Describes every block device that has a size and is not made of memory or of other devices,
/// without opening any.
pub fn devices(system: &SystemRoots) -> Vec<Device> {
    system
        .names(&system.sys.join("block"))
        .into_iter()
        .filter(|name| {
            !["ram", "zram", "dm-", "md", "sr"].iter().any(|prefix| name.starts_with(prefix))
        })
        .filter_map(|name| Device::from_sysfs(system, &Path::new("/dev").join(name)).ok())
        .collect()
}
