//! What is to be done to one block device.

use std::path::{Path, PathBuf};

use flashfit_host::Program;

use crate::partition::NewPartition;

/// The placeholder in a plan's line for fstab(5) where the file system's UUID goes.
pub const UUID_PLACE: &str = "UUID=YOUR-UUID";

/// One file system on one block device.
#[derive(Debug, Clone)]
pub struct ApplyJob {
    /// The partition to make; `None` where the file system takes the whole device.
    pub partition: Option<NewPartition>,
    /// Makes the file system on [`ApplyJob::node`], in this order.
    pub format_commands: Vec<Program>,
    /// Where the file system lies.
    pub node: PathBuf,
    /// What mount(8) calls it.
    pub kind: String,
    pub mount_options: Vec<String>,
    /// The scheduler that the queue is to have.
    pub scheduler: String,
    /// What the file system's own tools are to tell: name and value.
    pub numbers: Vec<(String, u64)>,
    /// The line for fstab(5), with [`UUID_PLACE`] at its start.
    pub fstab_line: String,
    /// The rule for udev(7).
    pub udev_rule: String,
}

impl ApplyJob {
    /// Itself as lines that do not depend on how the device is called today.
    pub(crate) fn lines(&self, disk: &Path) -> Vec<String> {
        let node = self.node.display().to_string();
        let disk = disk.display().to_string();
        let general = |text: String| text.replace(&node, "PLACE").replace(&disk, "MEDIUM");
        let sfdisk = self.partition.as_ref().map(|partition| {
            let NewPartition { start, size, .. } = partition;
            format!("{} at {} of {}", partition.sfdisk.command_line(), start.0, size.0)
        });
        let making = self.format_commands.iter().map(Program::command_line);
        let mount = format!("mount -t {} -o {}", self.kind, self.mount_options.join(","));
        sfdisk.into_iter().chain(making).chain([mount]).map(general).collect()
    }
}
