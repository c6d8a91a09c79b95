//! Settings in addition to the file system: udev rule, kernel parameter, trimming.
//!
//! Sources: udev(7); `Documentation/admin-guide/kernel-parameters.txt` up to 4.20 (`elevator=`,
//! removed in 5.0); fstrim(8) and its timer; mount(8).

use crate::recipe::Recipe;
use crate::scheduler::{self, EXAMPLE_DISK, Scheduler};

use super::document::{PlannedDevice, Trim, TrimAdvice};

/// The rule for the scheduler of the device's disk. Read-ahead is left as the kernel has it: no
/// trial measures another.
pub fn udev_rule(device: &PlannedDevice, scheduler: &Scheduler) -> String {
    let disk = if device.disk.is_empty() { EXAMPLE_DISK } else { &device.disk };
    scheduler::udev_rule(disk, scheduler).trim_end().to_owned()
}

/// The same for kernels before 5.0, of all disks at once.
pub fn kernel_parameter(scheduler: &Scheduler) -> Option<String> {
    let earlier = match scheduler.name() {
        "none" => "noop",
        "mq-deadline" => "deadline",
        "bfq" => "cfq",
        _ => return None,
    };
    Some(format!("elevator={earlier}"))
}

/// How freed space is discarded.
pub fn trim(device: &PlannedDevice, recipe: &Recipe) -> TrimAdvice {
    let by_mount = |option: &String| option == "discard" || option.starts_with("discard=");
    let not = |option: &String| option == "nodiscard";
    let (how, command, reason) = if !device.discard {
        (Trim::None, None, "the device does not support discard")
    } else if recipe.mount_options().iter().any(by_mount) {
        (Trim::Mount, None, "the setup mounts with discard, so a timer is not needed")
    } else if recipe.kind() == "btrfs" && !recipe.mount_options().iter().any(not) {
        (Trim::Mount, None, "btrfs discards in the background by itself since kernel 6.2")
    } else if recipe.kind() == "f2fs" && !recipe.mount_options().iter().any(not) {
        (Trim::Mount, None, "F2FS discards in the background by itself")
    } else {
        (
            Trim::Timer,
            Some("systemctl enable --now fstrim.timer".to_owned()),
            "discarded once a week by fstrim, so that no write waits for a discard",
        )
    };
    TrimAdvice { how, command, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_have_their_own_names() {
        let parameter = |name: &str| kernel_parameter(&Scheduler::new(name));
        assert_eq!(parameter("none").as_deref(), Some("elevator=noop"));
        assert_eq!(parameter("kyber"), None);
    }
}
