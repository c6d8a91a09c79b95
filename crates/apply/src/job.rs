//! What is to be done to one block device.

use std::path::{Path, PathBuf};

use flashfit_filesystem::plan::{ImagePacking, SECOND_UUID_PLACE};
use flashfit_host::Program;

use crate::partition::NewPartition;

/// The placeholder in a plan's line for fstab(5) where the file system's UUID goes.
pub const UUID_PLACE: &str = "UUID=YOUR-UUID";

/// The second partition: swap space, or a file system for data.
#[derive(Debug, Clone)]
pub struct SecondJob {
    /// It is made with the first, by the same program.
    pub partition: NewPartition,
    /// What makes it, in this order.
    pub format_commands: Vec<Program>,
    /// What blkid(8) calls it.
    pub kind: String,
    /// The line for fstab(5), with [`SECOND_UUID_PLACE`] at its start.
    pub fstab_line: String,
}

/// A folder of the user that is packed into an image on the file system.
#[derive(Debug, Clone)]
pub struct ImageJob {
    pub folder: PathBuf,
    pub packing: ImagePacking,
    /// The lines for fstab(5) that mount image and layer.
    pub fstab_lines: Vec<String>,
}

/// One file system on one block device.
#[derive(Debug, Clone)]
pub struct ApplyJob {
    /// The partition to make; `None` where the file system takes the whole device.
    pub partition: Option<NewPartition>,
    /// The partition behind it, if there is to be one.
    pub second: Option<SecondJob>,
    /// What is packed into it.
    pub image: Option<ImageJob>,
    /// The label that the file system is to have.
    pub label: Option<String>,
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
    /// The lines for fstab(5), with the UUIDs of the file system and of the second partition.
    pub(crate) fn fstab_lines(&self, uuid: &str, second_uuid: Option<&str>) -> String {
        let first = self.fstab_line.replace(UUID_PLACE, &format!("UUID={uuid}"));
        let image = self.image.iter().flat_map(|image| image.fstab_lines.clone());
        let second = self.second.iter().zip(second_uuid).map(|(second, uuid)| {
            second.fstab_line.replace(SECOND_UUID_PLACE, &format!("UUID={uuid}"))
        });
        let lines: Vec<String> = std::iter::once(first).chain(image).chain(second).collect();
        lines.join("\n")
    }

    /// Itself as lines that do not depend on how the device is called today.
    pub(crate) fn lines(&self, disk: &Path) -> Vec<String> {
        let node = self.node.display().to_string();
        let disk = disk.display().to_string();
        let general = |text: String| text.replace(&node, "PLACE").replace(&disk, "MEDIUM");
        let sfdisk = self.partition.as_ref().map(|partition| {
            let NewPartition { start, size, .. } = partition;
            format!("{} at {} of {}", partition.sfdisk.command_line(), start.0, size.0)
        });
        let second = self.second.iter().flat_map(|second| &second.format_commands);
        let making = self.format_commands.iter().chain(second).map(Program::command_line);
        let mount = format!("mount -t {} -o {}", self.kind, self.mount_options.join(","));
        let packed = self.image.iter().map(|image| {
            let programs = image.packing.programs(&image.folder, Path::new("HOST"));
            programs.iter().map(Program::command_line).collect::<Vec<_>>().join("; ")
        });
        sfdisk.into_iter().chain(making).chain([mount]).chain(packed).map(general).collect()
    }
}
