//! The programs of a plan, to run and to print.

use std::path::{Path, PathBuf};

use flashfit_host::{Program, path_text};

use crate::layout::{
    EXAMPLE_NODE, EXAMPLE_PARTITION, PartitionContent, PartitionLayout, PartitionTable,
    TablePartition, run_sfdisk,
};
use crate::recipe::Recipe;

use super::document::{Plan, PlanChoices, PlannedCommand, PlannedPartition};
use super::second::content_of;

/// What is run, in this order. Only the programs before `mount` write to the device.
#[derive(Debug, Clone)]
pub struct Programs {
    /// Writes the partition table, where there is one.
    pub partitioning: Option<Program>,
    /// Where the file system goes.
    pub place_node: PathBuf,
    /// Makes the file system.
    pub mkfs: Program,
    pub tune: Vec<Program>,
    pub mount: Program,
}

/// The programs for a device at `node` (the partition, where that is the target).
pub(super) fn programs(
    table: PartitionTable,
    partitions: &[TablePartition],
    sector_bytes: u64,
    recipe: &Recipe,
    node: &Path,
    mount_point: &Path,
) -> Programs {
    let script = table.sfdisk_script(partitions, sector_bytes);
    let layout = match (&script, partitions.first()) {
        (Some(_), Some(first)) => PartitionLayout::Partition {
            start_bytes: first.start_bytes,
            size_bytes: first.size_bytes,
            table,
        },
        _ => PartitionLayout::WholeDevice,
    };
    let place_node = layout.node(node);
    Programs {
        partitioning: script.map(|script| run_sfdisk(node, script)),
        mkfs: recipe.mkfs(&place_node),
        tune: recipe.tune(&place_node),
        mount: recipe.mount(&place_node, mount_point),
        place_node,
    }
}

/// The longest name of a partition in a GPT, in units of UTF-16.
const MOST_NAME: usize = 36;

/// The name in a GPT of the partition whose file system has this label; `None` if it is too long.
pub fn partition_name(label: &str) -> Option<String> {
    (label.encode_utf16().count() <= MOST_NAME).then(|| label.to_owned())
}

/// The partitions as a table has them; in a GPT, the first one is named as its file system.
pub(super) fn table_partitions(
    partitions: &[PlannedPartition],
    kind: &str,
    choices: &PlanChoices,
) -> Vec<TablePartition> {
    let name = choices.label.as_deref().and_then(partition_name);
    let one = |(partition, content, name): (&PlannedPartition, _, _)| TablePartition {
        start_bytes: partition.start_bytes,
        size_bytes: partition.size_bytes,
        content,
        name,
    };
    let behind = choices.second.as_ref().map(|second| (content_of(&second.content), None));
    let contents = std::iter::once((content(kind), name)).chain(behind);
    partitions.iter().zip(contents).map(|(p, (content, name))| one((p, content, name))).collect()
}

/// What a partition for this file system is marked to hold.
pub(super) fn content(kind: &str) -> PartitionContent {
    match kind {
        "vfat" => PartitionContent::Fat32,
        "exfat" => PartitionContent::Exfat,
        _ => PartitionContent::Linux,
    }
}

/// A program as it is written down.
pub(super) fn one(purpose: &str, program: &Program, writes: bool) -> PlannedCommand {
    PlannedCommand {
        purpose: purpose.to_owned(),
        program: program.name().to_owned(),
        args: program.arguments().iter().map(|arg| path_text::to_text(Path::new(arg))).collect(),
        stdin: program.standard_input().map(str::to_owned),
        writes,
    }
}

/// The programs as they are written down.
pub(super) fn written(programs: &Programs) -> Vec<PlannedCommand> {
    let mut list = Vec::new();
    list.extend(programs.partitioning.as_ref().map(|p| one("partition the device", p, true)));
    list.push(one("make the file system", &programs.mkfs, true));
    list.extend(programs.tune.iter().map(|program| one("adjust it", program, true)));
    list.push(one("mount it", &programs.mount, false));
    list
}

impl PlannedCommand {
    /// The command as a user could type it.
    pub fn line(&self) -> String {
        self.words().join(" ")
    }

    /// The same in the words between which it may be broken.
    pub fn words(&self) -> Vec<String> {
        let args = self.args.iter().map(|arg| path_text::from_text(arg));
        let program = Program::new(&self.program).args(args);
        match &self.stdin {
            Some(text) => program.stdin(text).shell_words(),
            None => program.shell_words(),
        }
    }
}

impl Plan {
    /// The node that its commands name.
    pub fn example_node(&self) -> PathBuf {
        if self.device.disk.is_empty() {
            PathBuf::from(EXAMPLE_NODE)
        } else {
            self.device.path.clone()
        }
    }
}

/// What stood for a partition in plans that were written before [`EXAMPLE_PARTITION`].
const FORMER_PARTITION: &str = "/dev/YOUR-CARD1";

/// Whether two plans have the same commands, whichever of the two names they use for the
/// partition of a device that is not there.
pub(super) fn are_same(one: &[PlannedCommand], other: &[PlannedCommand]) -> bool {
    let renamed = |commands: &[PlannedCommand]| -> Vec<PlannedCommand> {
        let mut commands = commands.to_vec();
        for arg in commands.iter_mut().flat_map(|command| &mut command.args) {
            *arg = arg.replace(FORMER_PARTITION, EXAMPLE_PARTITION);
        }
        commands
    };
    renamed(one) == renamed(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_with_the_former_name_of_the_partition_stay_the_same() {
        let mkfs = |node: &str| vec![one("make it", &Program::new("mkfs.ext4").arg(node), true)];
        assert!(are_same(&mkfs(FORMER_PARTITION), &mkfs(EXAMPLE_PARTITION)));
        assert!(!are_same(&mkfs("/dev/sda1"), &mkfs(EXAMPLE_PARTITION)));
    }
}
