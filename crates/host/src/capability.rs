//! What this process may do here: whether the parts of flashfit that need rights or devices can
//! run.

use std::path::Path;

/// Why loop devices, mounts and exclusive opens are out of reach; `None` when they are not.
pub fn missing_for_block_devices() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not running as root".to_owned());
    }
    missing_node("/dev/loop-control", "loop devices")
}

/// Why a simulated card cannot be attached to this kernel; `None` when it can.
pub fn missing_for_simulated_cards() -> Option<String> {
    missing_for_block_devices().or_else(|| missing_node("/dev/fuse", "FUSE"))
}

fn missing_node(node: &str, what: &str) -> Option<String> {
    (!Path::new(node).exists())
        .then(|| format!("this kernel or container offers no {what} ({node})"))
}
