//! How a file system that was just made is mounted with the options of its setup: the commands for
//! now, and the lines for the system's files.

use std::path::Path;

use flashfit_apply::Applied;
use flashfit_apply::job::UUID_PLACE;
use flashfit_device::DeviceKind;
use flashfit_filesystem::plan::{Plan, PlannedCommand, SECOND_UUID_PLACE};
use flashfit_filesystem::scheduler::{self, EXAMPLE_DISK};
use flashfit_host::program::{quote, quote_path};
use flashfit_option_probe::kernel;
use flashfit_report::text::fold_command;

use crate::output;

const MOUNT: &str = "mount";
/// Of `mount`.
const OPTIONS: &str = "-o";
const KIND: &str = "-t";

/// What the user can type and copy after `plan` was applied; `point` is where the file system is
/// mounted already.
pub fn how_to_mount(plan: &Plan, applied: &Applied, point: Option<&Path>) -> Vec<String> {
    let mut lines = Vec::new();
    let layers = plan.layers.as_ref();
    let mount = plan.commands.iter().find(|command| command.program == MOUNT);
    let of_device = mount.filter(|_| point.is_none()).into_iter().flat_map(|command| {
        let missing = !plan.mount_point.is_dir();
        let folder = missing.then(|| format!("mkdir -p {}", quote_path(&plan.mount_point)));
        folder.into_iter().chain([command_line(command, plan, applied)])
    });
    let of_layers = layers.iter().flat_map(|layers| &layers.commands);
    let of_layers = of_layers.filter(|command| command.program == MOUNT);
    let commands: Vec<String> = of_device.chain(of_layers.map(PlannedCommand::line)).collect();
    if !commands.is_empty() {
        lines.push(match layers {
            Some(_) => "The directory is packed. To mount the whole now, as root:".to_owned(),
            None if why_not_here(plan).is_some() => {
                "To mount it on a machine whose kernel has the file system, as root:".to_owned()
            }
            None => "To mount it now, as root:".to_owned(),
        });
        lines.extend(commands.into_iter().map(|line| format!("  {line}")));
    }
    if applied.installed.is_none() {
        let fstab = fstab_lines(plan, applied);
        let (noun, what) = if fstab.len() == 1 { ("Line", "it") } else { ("Lines", "them") };
        lines.push(format!("{noun} for /etc/fstab (--install writes {what}):"));
        lines.extend(fstab.into_iter().map(|line| format!("  {line}")));
    }
    lines.extend(rule(plan, applied));
    lines
}

/// Why the file system cannot be mounted on this machine; `None` if it can. It may be meant for
/// another one.
pub fn why_not_here(plan: &Plan) -> Option<String> {
    let mount = plan.commands.iter().find(|command| command.program == MOUNT)?;
    let at = mount.args.iter().position(|word| word == KIND)?;
    let kind = mount.args.get(at + 1).filter(|kind| !kernel::has(kind))?;
    Some(format!("This kernel has no {kind}: the file system cannot be mounted on this machine."))
}

/// The planned command, for the file system that was made.
fn command_line(command: &PlannedCommand, plan: &Plan, applied: &Applied) -> String {
    let [options @ .., node, point] = &command.args[..] else { return command.line() };
    let mut words = options.to_vec();
    let node = if plan.device.kind == DeviceKind::Image {
        let options = loop_options(plan);
        match words.iter().position(|word| word == OPTIONS) {
            Some(at) => words[at + 1] = format!("{options},{}", words[at + 1]),
            None => words.extend([OPTIONS.to_owned(), options]),
        }
        quote_path(&plan.device.path)
    } else {
        let uuid = applied.verified.uuid.as_deref();
        quote(&uuid.map_or_else(|| node.clone(), |uuid| format!("UUID={uuid}")))
    };
    words.insert(0, command.program.clone());
    let mut words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    words.extend([node, quote(point)]);
    words.join(" ")
}

/// With which an image is mounted by its name.
fn loop_options(plan: &Plan) -> String {
    plan.partitions.first().map_or_else(
        || "loop".to_owned(),
        |first| format!("loop,offset={},sizelimit={}", first.start_bytes, first.size_bytes),
    )
}

fn fstab_lines(plan: &Plan, applied: &Applied) -> Vec<String> {
    let with = |line: &str, place: &str, uuid: Option<&String>| {
        uuid.map_or_else(|| line.to_owned(), |uuid| line.replace(place, &format!("UUID={uuid}")))
    };
    let verified = &applied.verified;
    let host = with(&plan.fstab_line, UUID_PLACE, verified.uuid.as_ref());
    let layers = plan.layers.iter().flat_map(|layers| layers.fstab_lines.clone());
    let second = plan
        .second
        .iter()
        .map(|second| with(&second.fstab_line, SECOND_UUID_PLACE, verified.second_uuid.as_ref()));
    [host].into_iter().chain(layers).chain(second).collect()
}

/// The rule for the scheduler, unless it is in the system's files already.
fn rule(plan: &Plan, applied: &Applied) -> Vec<String> {
    let is_image = plan.device.kind == DeviceKind::Image;
    let mut rule = plan.udev_rule.clone();
    let head = match (&applied.installed, is_image) {
        (Some(installed), false) if installed.has_rule => return Vec::new(),
        (Some(_), false) => {
            rule = scheduler::udev_rule(EXAMPLE_DISK, &plan.setup.scheduler);
            "Rule for etc/udev/rules.d/60-flashfit.rules of that system, with the name of the \
             device there:"
        }
        (None, false) => "Rule for /etc/udev/rules.d/60-flashfit.rules (--install writes it):",
        (_, true) => {
            "Rule for /etc/udev/rules.d/60-flashfit.rules, with the name of the device that the \
             image is copied to:"
        }
    };
    let words: Vec<String> = rule.trim_end().split(' ').map(str::to_owned).collect();
    [head.to_owned()].into_iter().chain(fold_command(&words, "  ", output::width())).collect()
}
