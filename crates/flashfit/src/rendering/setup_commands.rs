//! The commands that make a setup true on a medium, as a user would type them.

use std::path::Path;

use flashfit_filesystem::{Layout, Recipe, Setup, scheduler};
use flashfit_host::program::quote;
use flashfit_report::Command;
use flashfit_tune::{Choices, RunHeader};

/// The node that stands in the commands for a simulated card or an image.
const EXAMPLE_NODE: &str = "/dev/mmcblk0";
const SECTOR_BYTES: u64 = 512;

/// The line that partitions `node`; `None` when there is no partition table.
pub fn partitioning_line(layout: &Layout, node: &Path) -> Option<String> {
    let program = layout.partitioning(node, SECTOR_BYTES)?;
    let script = layout.sfdisk_script(SECTOR_BYTES)?.trim_end().replace('\n', "\\n");
    Some(format!("printf {} | {}", quote(&format!("{script}\\n")), program.command_line()))
}

/// All commands, in order, each with what it does.
pub fn commands(header: &RunHeader, choices: &Choices, setup: &Setup) -> Vec<Command> {
    let Ok(recipe) = Recipe::new(&choices.filesystem, setup, &choices.conditions) else {
        return Vec::new();
    };
    let facts = &header.facts;
    let is_real = facts.medium.kind != flashfit_medium::describe::Kind::Loop;
    let node = if is_real { facts.medium.path.as_path() } else { Path::new(EXAMPLE_NODE) };
    let aside = if is_real { "" } else { ", were it /dev/mmcblk0" };
    let mut list = Vec::new();
    let mut command = |caption: String, line: String| list.push(Command { caption, line });
    let place = facts.layout.layout.node(node);
    if let Some(line) = partitioning_line(&facts.layout.layout, node) {
        command(format!("Partition the medium (erases it{aside})"), line);
    }
    command("Make the file system".to_owned(), recipe.mkfs(&place).command_line());
    for program in recipe.tune(&place) {
        command("Adjust it".to_owned(), program.command_line());
    }
    command(
        "Mount it at every start (a line of /etc/fstab)".to_owned(),
        recipe.fstab_line(&place.display().to_string(), Path::new("/mnt/flash")),
    );
    let disk = node.file_name().unwrap_or_default().to_string_lossy();
    command(
        format!("Use the I/O scheduler {} now", setup.scheduler),
        format!("echo {} > /sys/block/{disk}/queue/scheduler", setup.scheduler),
    );
    command(
        "and at every start (a line of /etc/udev/rules.d/60-flashfit.rules)".to_owned(),
        scheduler::udev_rule(&disk, &setup.scheduler).trim_end().to_owned(),
    );
    list
}
