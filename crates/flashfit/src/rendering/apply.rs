//! What the user sees of applying a plan: what will be lost and done, and what was done.

use std::path::Path;

use flashfit_apply::install::Installed;
use flashfit_apply::verify::Verified;
use flashfit_apply::{Applied, InstallTarget, RulePlacement};
use flashfit_check::Price;
use flashfit_device::{Bytes, Device, DeviceKind};
use flashfit_filesystem::plan::{
    EXAMPLE_NODE, EXAMPLE_PARTITION, EXAMPLE_SECOND, NAME_THE_FOLDER, Plan, PlannedCommand,
};
use flashfit_host::program::{quote, quote_path};
use flashfit_host::{Program, Runner, path_text};
use flashfit_report::text::{fold_command, plain};
use flashfit_target::InspectedTarget;
use schemars::JsonSchema;
use serde::Serialize;

use crate::apply::source::PlanSource;
use crate::command_error::CommandError;
use crate::consent::what_is_lost;
use crate::output;
use crate::rendering::mounting::how_to_mount;
use crate::rendering::plan::power_cut_risk;
use crate::rendering::price as show_price;
use crate::rendering::run_preview::{LOOP_PARTITION, LOOP_SECOND};

/// What is on the device: its partitions, the file systems on them and their labels.
pub fn lost(runner: &dyn Runner, device: &Device) -> String {
    let mut lines: Vec<String> = what_is_lost(device).lines().map(str::to_owned).collect();
    let whole = seen(runner, device, Bytes(0), device.capacity);
    if let Some(whole) = whole {
        lines.insert(1, format!("  on the whole of it: {whole}"));
    }
    for partition in &device.partitions {
        let name = format!("  {} of ", partition.name);
        let found = seen(runner, device, partition.start, partition.size);
        if let (Some(line), Some(found)) =
            (lines.iter_mut().find(|line| line.starts_with(&name)), found)
        {
            line.push_str(&format!(": {found}"));
        }
    }
    lines.join("\n")
}

/// What belongs to the setup and is set for the whole machine: left to the user.
pub fn left_to_the_user(source: &PlanSource) -> Vec<String> {
    let Ok(recipe) = source.plan.recipe(&source.fs_catalog) else { return Vec::new() };
    let set = |(key, value): &(String, String)| quote(&format!("{key}={value}"));
    let sysctl = recipe.sysctl().iter().map(|setting| format!("sysctl -w {}", set(setting)));
    let timers = recipe.timers().iter().map(|timer| format!("systemctl enable --now {timer}"));
    let mut lines: Vec<String> = sysctl.chain(timers).collect();
    lines.extend(source.plan.trim.command.clone().filter(|line| !lines.contains(line)));
    lines
}

/// The file system at a place, with its label, as blkid(8) finds it.
fn seen(runner: &dyn Runner, device: &Device, start: Bytes, size: Bytes) -> Option<String> {
    let blkid = Program::new("blkid")
        .args(["--probe", "--output", "export", "--usages", "filesystem,raid,crypto,other"])
        .args(["--offset", &start.0.to_string(), "--size", &size.0.to_string()])
        .arg(&device.path);
    let outcome = runner.run_checked(&blkid).ok()?;
    let value = |name: &str| {
        let line = |line: &str| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        outcome.stdout.lines().find_map(line)
    };
    let kind = plain(&value("TYPE")?);
    Some(match value("LABEL").or_else(|| value("UUID")) {
        Some(label) => format!("{kind} `{}`", plain(&label)),
        None => kind,
    })
}

/// What is going to be done. With the target of an installation are the lines that it removes.
pub fn doing(
    device: &Device,
    plan: &Plan,
    (backup, is_made): (&Path, bool),
    install: Option<(&InstallTarget, &[String])>,
    [point, packed]: [Option<&Path>; 2],
) -> String {
    let (saved, folder) = (saved(plan), path_text::to_text(backup));
    let mut lines = vec![format!("What will be done: {}, {}.", plan.setup, place(plan))];
    lines.push(match is_made {
        true => format!(
            "This continues interrupted work: {saved}, as they were before it, are already saved \
             in {folder}."
        ),
        false => format!(
            "First {saved} are saved to {folder}. Your files are not saved: copy what you want to \
             keep before."
        ),
    });
    lines.extend(super::mounting::why_not_here(plan));
    let writing = plan.all_commands().filter(|command| command.writes);
    lines.extend(writing.flat_map(|command| shown(command, device)));
    if let (Some(layers), Some(packed)) = (&plan.layers, packed) {
        let (shown, quoted) = (path_text::to_text(packed), quote_path(packed));
        let name = layers.image.file_name().unwrap_or_default().to_string_lossy();
        lines.push(format!("Then {shown} is packed into the image {name} on it:"));
        let named = |word: String| if word == "FOLDER" { quoted.clone() } else { word };
        let making = layers.commands.iter().filter(|command| command.writes);
        lines.extend(making.flat_map(|command| {
            let words: Vec<String> = command.words().into_iter().map(named).collect();
            fold_command(&words, "  ", output::width())
        }));
    }
    if device.kind == DeviceKind::Image && !plan.partitions.is_empty() {
        lines.push(format!(
            "{LOOP_PARTITION} is the partition of {}, which is attached to a free loop device.",
            path_text::to_text(&device.path)
        ));
    }
    if let Some((install, replaced)) = install {
        lines.push(format!("Into {}: etc/fstab", path_text::to_text(&install.root)));
        lines.push(format!("  {}", plan.fstab_line));
        let image = plan.layers.iter().flat_map(|layers| layers.fstab_lines.clone());
        let second = plan.second.iter().map(|second| second.fstab_line.clone());
        lines.extend(image.chain(second).map(|line| format!("  {line}")));
        if !replaced.is_empty() {
            lines.push("in place of these lines from an earlier apply, which are removed:".into());
            lines.extend(replaced.iter().map(|line| format!("  {}", plain(line))));
        }
        if install.rule == RulePlacement::Written {
            lines.push("and etc/udev/rules.d/60-flashfit.rules".to_owned());
            lines.push(format!("  {}", plan.udev_rule));
        }
    }
    if let Some(point) = point {
        lines.push(format!("It stays mounted on {}.", path_text::to_text(point)));
    }
    let warnings = plan.warnings.iter().filter(|text| packed.is_none() || *text != NAME_THE_FOLDER);
    lines.extend(warnings.map(|warning| format!("warning: {warning}")));
    lines.extend(power_cut_risk(plan).map(|risk| format!("warning: at a power cut: {risk}")));
    lines.join("\n")
}

fn place(plan: &Plan) -> String {
    match plan.partitions.first() {
        None if plan.device.partition_start_bytes.is_some() => {
            "in this partition; the partition table is not changed".to_owned()
        }
        None => "without a partition table".to_owned(),
        Some(partition) => format!(
            "in a partition of {} that starts at {} ({})",
            Bytes(partition.size_bytes),
            Bytes(partition.start_bytes),
            plan.table
        ),
    }
}

/// The contents of a backup.
fn saved(plan: &Plan) -> &'static str {
    match plan.device.partition_start_bytes {
        Some(_) => "the first and last 4 MiB of the partition",
        None => "the partition table and the first and last 4 MiB",
    }
}

/// A command with the names of the device instead of those that a plan for an image has.
fn shown(command: &PlannedCommand, device: &Device) -> Vec<String> {
    let node = quote_path(&device.path);
    let real = |word: String| {
        let word = word.replace(EXAMPLE_PARTITION, LOOP_PARTITION);
        word.replace(EXAMPLE_SECOND, LOOP_SECOND).replace(EXAMPLE_NODE, &node)
    };
    let words: Vec<String> = command.words().into_iter().map(real).collect();
    fold_command(&words, "  ", output::width())
}

/// What applying the plan costs.
pub fn price(device: &Device, plan: &Plan) -> Price {
    let partition = plan.partitions.first().map(|partition| partition.size_bytes);
    let target = InspectedTarget::of_device(device.clone());
    let making = flashfit_check::of_making(&target, partition.unwrap_or(device.capacity.0));
    Price::of_making(&target, &making)
}

pub fn price_text(price: &Price) -> String {
    format!("Price: {}.", show_price::text(price))
}

#[derive(JsonSchema, Serialize)]
pub struct Would<'a> {
    lost: Vec<&'a str>,
    price: &'a Price,
    /// What a power cut can do, for a setup that is not safe.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_power_cut: Option<String>,
    plan: &'a Plan,
}

/// Everything that would be done, with nothing done.
pub fn dry_run(
    json: bool,
    plan: &Plan,
    price: &Price,
    lost: &str,
    doing: &str,
) -> Result<(), CommandError> {
    if json {
        return output::json(Would {
            lost: lost.lines().collect(),
            price,
            at_power_cut: power_cut_risk(plan),
            plan,
        });
    }
    let price = price_text(price);
    output::print_with_commands(&format!("{lost}\n{doing}\n{price}\nNothing was changed."))
}

#[derive(JsonSchema, Serialize)]
pub struct Done<'a> {
    backup: String,
    undo: &'a str,
    /// What a power cut can do, for a setup that is not safe.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_power_cut: Option<String>,
    plan: &'a Plan,
    verified: &'a Verified,
    installed: Option<&'a Installed>,
    mounted_on: Option<String>,
    left_to_the_user: Vec<String>,
    notes: &'a [String],
}

/// What was done, and how to take it back.
pub fn done(
    json: bool,
    source: &PlanSource,
    applied: &Applied,
    point: Option<&Path>,
    undo: &str,
) -> Result<(), CommandError> {
    let (plan, left_to_the_user) = (&source.plan, left_to_the_user(source));
    if json {
        return output::json(Done {
            backup: path_text::to_text(&applied.backup),
            undo,
            at_power_cut: power_cut_risk(plan),
            plan,
            verified: &applied.verified,
            installed: applied.installed.as_ref(),
            mounted_on: point.map(path_text::to_text),
            left_to_the_user,
            notes: &applied.notes,
        });
    }
    let mut lines = vec![format!(
        "{} matches the plan: {}.",
        path_text::to_text(&plan.device.path),
        plan.setup
    )];
    lines.extend(applied.verified.as_planned.iter().map(|fact| format!("  as planned: {fact}")));
    lines
        .extend(applied.verified.not_reported.iter().map(|fact| format!("  not compared: {fact}")));
    if let Some(installed) = &applied.installed {
        let list = |what: &str, paths: &[std::path::PathBuf]| {
            paths
                .iter()
                .map(|path| format!("{what} {}", path_text::to_text(path)))
                .collect::<Vec<_>>()
        };
        lines.extend(list("changed:", &installed.changed));
        lines.extend(list("unchanged copy:", &installed.kept));
        lines.extend(installed.notes.iter().map(|text| format!("note: {text}")));
    }
    lines.extend(applied.notes.iter().map(|text| format!("note: {text}")));
    if !left_to_the_user.is_empty() {
        lines.push("Settings of the whole machine, which you can make yourself:".to_owned());
        lines.extend(left_to_the_user.iter().map(|line| format!("  {line}")));
    }
    if let Some(point) = point {
        lines.push(format!("It is mounted on {}.", path_text::to_text(point)));
    }
    lines.extend(how_to_mount(plan, applied, point));
    lines.push(format!(
        "Saved in {}: {}, as they were before.",
        path_text::to_text(&applied.backup),
        saved(plan)
    ));
    lines.push("To restore them (file contents that were overwritten are lost):".to_owned());
    lines.push(format!("  {undo}"));
    output::print_with_commands(&plain_lines(&lines).join("\n"))
}

fn plain_lines(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| plain(line)).collect()
}
