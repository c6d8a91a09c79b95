//! The commands that make a setup true on a device, as a user would type them.

use std::path::Path;

use flashfit_device::describe::DeviceKind;
use flashfit_filesystem::plan::{EXAMPLE_NODE, SecondPartition, labeled, partition_name};
use flashfit_filesystem::scheduler::EXAMPLE_DISK;
use flashfit_filesystem::{
    Durability, LayoutPlan, PartitionEnd, PartitionLayout, Recipe, Setup, scheduler,
};
use flashfit_host::path_text;
use flashfit_host::program::{quote, quote_path};
use flashfit_report::ReportCommand;
use flashfit_testbed::TestBedSpec;
use flashfit_tune::{FileSystemChoices, RunHeader};

use super::check::size_argument;

const MOUNT_POINT: &str = "/mnt/flash";

/// The words that partition `node`, where the file system gets this label; `None` when there is no
/// partition table.
pub fn partitioning(
    layout: &LayoutPlan,
    node: &Path,
    sector_bytes: u64,
    label: Option<&str>,
) -> Option<Vec<String>> {
    let name = label.and_then(partition_name);
    Some(layout.partitioning(node, sector_bytes, name)?.shell_words())
}

/// All commands, in order, each with what it does. For a file system that is to be kept, those that
/// erase it are left out.
pub fn commands(
    header: &RunHeader,
    choices: &FileSystemChoices,
    setup: &Setup,
    keep: bool,
) -> Vec<ReportCommand> {
    let Ok(recipe) = Recipe::new(&choices.filesystem, setup, &choices.conditions) else {
        return Vec::new();
    };
    let label = header.spec.label.as_deref();
    let recipe = match label {
        None => recipe,
        Some(label) => match labeled(recipe, &choices.filesystem, label) {
            Ok(recipe) => recipe,
            Err(_) => return Vec::new(),
        },
    };
    let facts = &header.facts;
    let real = real_node(header);
    let node = real.unwrap_or(Path::new(EXAMPLE_NODE));
    let disk = if real.is_some() { &facts.device.disk } else { EXAMPLE_DISK };
    let aside =
        if real.is_some() { "" } else { "; insert the names of your card and its partition" };
    let mut list = Vec::new();
    let mut command = |caption: String, line: String| {
        let caption = if real.is_some() { at(&header.spec.on, caption) } else { caption };
        list.push(ReportCommand { caption, line });
    };
    if choices.filesystem.layered.is_some() {
        command(
            "Show the commands that pack your directory into an image and mount it".to_owned(),
            plan_command(node, setup),
        );
        return list;
    }
    if let Some(second) = facts.layout.second.and(header.spec.second.as_ref()).filter(|_| !keep) {
        let words = [plan_command(node, setup), placement_arguments(header, second)];
        command("Show the commands that make both partitions".to_owned(), words.join(" "));
        return list;
    }
    let place = facts.layout.layout.node(node);
    let sector_bytes = facts.device.queue.logical_sector_bytes;
    let words = partitioning(&facts.layout, node, sector_bytes, label);
    if let Some(words) = words.filter(|_| !keep) {
        command(format!("Partition the device (erases it{aside})"), words.join(" "));
    }
    let make = if place == node {
        format!("Make the file system (erases it{aside})")
    } else {
        "Make the file system".to_owned()
    };
    if !keep {
        command(make, recipe.mkfs(&place).command_line());
        for program in recipe.tune(&place) {
            command("Adjust it".to_owned(), program.command_line());
        }
    }
    command("Mount it at every start".to_owned(), fstab_command(&recipe, &place));
    if let Some(line) = sysctl_command(&recipe) {
        command("Set the kernel's limits, now and at every start".to_owned(), line);
    }
    for (path, value) in recipe.sysfs() {
        let line = format!("echo {value} > /sys/block/{disk}/{path}");
        command("Set up its queue now".to_owned(), line);
    }
    for timer in recipe.timers() {
        command("Have it done every week".to_owned(), format!("systemctl enable --now {timer}"));
    }
    command(
        format!("Use the I/O scheduler {} now", setup.scheduler),
        format!("echo {} > /sys/block/{disk}/queue/scheduler", setup.scheduler),
    );
    let rule = scheduler::udev_rule(disk, &setup.scheduler);
    // The file may have the rules of other devices.
    command(
        format!("and at every start, for the device that is {disk} then"),
        format!("echo {} >> /etc/udev/rules.d/60-flashfit.rules", quote(rule.trim_end())),
    );
    list
}

/// What only the user can do: which directory is packed, and when, a plan cannot know.
fn plan_command(node: &Path, setup: &Setup) -> String {
    let options = match setup.options.is_empty() {
        true => String::new(),
        false => {
            format!(" --options {}", setup.options.join(","))
        }
    };
    let scheduler = &setup.scheduler;
    format!(
        "flashfit plan {} --fs {}{options} --scheduler {scheduler}",
        quote_path(node),
        setup.filesystem
    )
}

/// The flags by which a plan has the partitions of the run.
fn placement_arguments(header: &RunHeader, second: &SecondPartition) -> String {
    let (facts, spec) = (&header.facts, &header.spec);
    let mut words = Vec::new();
    if let PartitionLayout::Partition { start_bytes, table, .. } = facts.layout.layout {
        words.push(format!("--table {} --start {}", table.name(), size_argument(start_bytes)));
    }
    if spec.end.unwrap_or_else(PartitionEnd::formerly) == PartitionEnd::Grid {
        words.push("--align-end".to_owned());
    }
    words.extend(spec.label.as_ref().map(|label| format!("--label {}", quote(label))));
    let behind = format!("{}:{}", second.content, size_argument(second.size_bytes));
    words.push(format!("--second {}", quote(&behind)));
    let geometry = &facts.geometry;
    for (flag, known) in
        [("--erase-block", &geometry.erase_block), ("--write-unit", &geometry.write_unit)]
    {
        let size = known.as_ref().map(|known| size_argument(known.bytes.0));
        words.extend(size.map(|size| format!("{flag} {size}")));
    }
    words.push("--no-probe".to_owned());
    if spec.allow != Durability::Safe {
        words.push(format!("--allow {}", spec.allow));
    }
    words.join(" ")
}

/// The node that the user named; `None` for a card or an image, whose loop device is detached by
/// now.
fn real_node(header: &RunHeader) -> Option<&Path> {
    let (facts, path) = (&header.facts, header.facts.device.path.as_path());
    let is_named = path_text::from_text(&header.spec.target) == path;
    let is_node = match facts.device.kind {
        DeviceKind::Image => false,
        DeviceKind::Loop => is_named,
        _ => true,
    };
    (facts.card.is_none() && is_node).then_some(path)
}

/// The caption of a command for the device of this test bed. Typed here, the command of a board
/// would change this machine's device of the same name.
fn at(on: &TestBedSpec, caption: String) -> String {
    let board = match on {
        TestBedSpec::Here | TestBedSpec::Vm(_) => return caption,
        TestBedSpec::Ssh { host } => host,
        TestBedSpec::Lab { .. } => "the board",
    };
    let mut rest = caption.chars();
    let first = rest.next().map(|first| first.to_ascii_lowercase());
    format!("On {board}: {}{}", first.into_iter().collect::<String>(), rest.as_str())
}

/// Adds the line to fstab(5): by UUID, since nodes change their names.
fn fstab_command(recipe: &Recipe, place: &Path) -> String {
    let line = recipe.installed_line("NODE", Path::new(MOUNT_POINT));
    let uuid = format!("UUID=$(blkid -s UUID -o value {})", quote_path(place));
    format!("echo \"{}\" >> /etc/fstab", line.replacen("NODE", &uuid, 1))
}

fn sysctl_command(recipe: &Recipe) -> Option<String> {
    let line = |(key, value): &(String, String)| quote(&format!("{key}={value}"));
    let settings: Vec<String> = recipe.sysctl().iter().map(line).collect();
    let file = "/etc/sysctl.d/60-flashfit.conf";
    (!settings.is_empty())
        .then(|| format!("printf '%s\\n' {} >> {file} && sysctl -p {file}", settings.join(" ")))
}

#[cfg(test)]
mod tests {
    use flashfit_filesystem::{Conditions, FileSystemCatalog, Scheduler};

    use super::*;

    #[test]
    fn a_recommended_image_is_planned_with_the_options_of_the_setup() {
        let catalog = FileSystemCatalog::load(None).unwrap();
        let squashfs = catalog.filesystem("squashfs").unwrap();
        let command = |options: &[&str]| {
            let none = Scheduler::new("none");
            let setup = Setup::new(squashfs, options, none, &Conditions::default()).unwrap();
            plan_command(Path::new("/dev/sdb"), &setup)
        };
        assert_eq!(command(&[]), "flashfit plan /dev/sdb --fs squashfs --scheduler none");
        let options = "flashfit plan /dev/sdb --fs squashfs --options block-16k,zstd";
        assert_eq!(command(&["zstd", "block-16k"]), format!("{options} --scheduler none"));
    }

    #[test]
    fn the_commands_for_a_device_of_a_board_name_the_board() {
        let path = "../tune/tests/runs/v1-sim-greedy/run.json";
        let text = std::fs::read_to_string(path).unwrap();
        let mut header: RunHeader = serde_json::from_str(&text).unwrap();
        header.facts.card = None;
        header.facts.device.kind = DeviceKind::SdCard;
        let captions = |on: &str, header: &mut RunHeader| -> Vec<String> {
            header.spec.on = on.parse().unwrap();
            let fs_catalog = FileSystemCatalog::load(None).unwrap();
            let ext4 = fs_catalog.filesystem("ext4").unwrap();
            let choices = FileSystemChoices {
                filesystem: ext4.clone(),
                always: Vec::new(),
                free: Vec::new(),
                schedulers: Vec::new(),
                conditions: Conditions::default(),
            };
            let (scheduler, conditions) = (Scheduler::new("none"), &choices.conditions);
            let setup = Setup::new::<&str>(ext4, [], scheduler, conditions).unwrap();
            let list = commands(header, &choices, &setup, false);
            list.into_iter().map(|command| command.caption).collect()
        };
        let here = captions("here", &mut header);
        assert!(here.contains(&"Partition the device (erases it)".to_owned()), "{here:?}");
        let there = captions("ssh:root@board", &mut header);
        let first = "On root@board: partition the device (erases it)".to_owned();
        assert!(there.contains(&first), "{there:?}");
        for (on, place) in [("ssh:root@board", "On root@board: "), ("lab:a=b", "On the board: ")] {
            let there = captions(on, &mut header);
            assert_eq!(there.len(), here.len());
            assert!(there.iter().all(|caption| caption.starts_with(place)), "{there:?}");
        }
    }

    #[test]
    fn a_second_partition_is_planned_in_the_layout_of_the_run() {
        let path = "../tune/tests/runs/v1-sim-greedy/run.json";
        let text = std::fs::read_to_string(path).unwrap();
        let mut header: RunHeader = serde_json::from_str(&text).unwrap();
        header.spec.label = Some("my data".to_owned());
        let second: SecondPartition = "swap:8MiB".parse().unwrap();
        assert_eq!(
            placement_arguments(&header, &second),
            "--table gpt --start 1MiB --align-end --label 'my data' --second swap:8MiB \
             --erase-block 1MiB --write-unit 16KiB --no-probe"
        );
    }

    #[test]
    fn limits_of_the_kernel_are_kept_in_a_file_and_set_at_once() {
        let fs_catalog = FileSystemCatalog::load(None).unwrap();
        let ext4 = fs_catalog.filesystem("ext4").unwrap();
        let line = |options: &[&str]| {
            let conditions = Conditions::default();
            let setup = Setup::new(ext4, options, Scheduler::new("none"), &conditions).unwrap();
            sysctl_command(&Recipe::new(ext4, &setup, &conditions).unwrap())
        };
        assert_eq!(line(&["noatime"]), None);
        assert_eq!(
            line(&["dirty-16m"]).as_deref(),
            Some(
                "printf '%s\\n' vm.dirty_background_bytes=4194304 vm.dirty_bytes=16777216 \
                 >> /etc/sysctl.d/60-flashfit.conf && sysctl -p /etc/sysctl.d/60-flashfit.conf"
            )
        );
    }
}
