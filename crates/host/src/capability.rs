//! Checks whether this process may use loop devices and FUSE.

use std::path::Path;

/// Why loop devices, mounts and exclusive opens are unavailable; `None` if they are available.
pub fn missing_for_block_devices() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not running as root".to_owned());
    }
    missing_node("/dev/loop-control", "loop devices")
}

/// Why simulated cards cannot be attached; `None` if they can.
pub fn missing_for_simulated_cards() -> Option<String> {
    missing_for_block_devices().or_else(|| missing_node("/dev/fuse", "FUSE"))
}

fn missing_node(node: &str, what: &str) -> Option<String> {
    (!Path::new(node).exists()).then(|| format!("this kernel or container has no {what} ({node})"))
}
