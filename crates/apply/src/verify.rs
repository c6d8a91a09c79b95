//! Whether a device is as planned, by what the kernel and the file system's own tools report of it.
//!
//! Limits: a kernel does not show every mount option that it took; one that it neither shows nor
//! contradicts is reported as not shown, not as wrong. Whether a kernel accepts an option and
//! ignores it is found out elsewhere, before a plan is made.

use std::path::Path;

use flashfit_device::WriteConsent;
use flashfit_filesystem::{FactsError, FileSystemFacts, facts, kernel_list};
use flashfit_host::mount::{Mounted, enter_private_namespace};
use flashfit_host::{ProgramError, Runner, mountinfo};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ApplyError;
use crate::job::{ApplyJob, SecondJob};
use crate::region;

/// Options of the kernel's own layer, which it always shows.
const ALWAYS_SHOWN: [&str; 9] =
    ["ro", "noatime", "nodiratime", "relatime", "lazytime", "sync", "dirsync", "nosuid", "noexec"];

#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Verified {
    /// What is as planned, a fact a line.
    pub as_planned: Vec<String>,
    /// What could not be compared, and why.
    #[serde(rename = "not_told")]
    pub not_reported: Vec<String>,
    /// The file system's UUID or volume number.
    pub uuid: Option<String>,
    /// The UUID of what the second partition has, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_uuid: Option<String>,
}

/// Compares the file system on `place` with the plan: first by its tools, then mounted where
/// nobody else sees it.
///
/// # Errors
/// [`ApplyError::NotAsPlanned`] with every difference; or when something cannot be read.
pub fn verify(
    runner: &dyn Runner,
    place: &WriteConsent,
    work: &ApplyJob,
) -> Result<Verified, ApplyError> {
    region::drop_cached(place)?;
    let mut found = Verified::default();
    let mut wrong = Vec::new();
    by_tools(runner, work, &mut found, &mut wrong)?;
    if let Some(second) = &work.second {
        second_by_tools(runner, second, &mut found, &mut wrong)?;
    }
    by_mount(runner, place, work, &mut found, &mut wrong)?;
    if wrong.is_empty() { Ok(found) } else { Err(ApplyError::NotAsPlanned { what: wrong }) }
}

fn second_by_tools(
    runner: &dyn Runner,
    second: &SecondJob,
    found: &mut Verified,
    wrong: &mut Vec<String>,
) -> Result<(), ApplyError> {
    let what = format!("{} in the second partition", second.kind);
    match ask(runner, &second.partition.node)? {
        ToolReport::Facts(facts) if facts.kind == second.kind => {
            found.second_uuid = facts.uuid;
            found.as_planned.push(what);
        }
        ToolReport::Facts(facts) => wrong.push(format!("{what}: it is {}", facts.kind)),
        ToolReport::NoFileSystem => wrong.push(format!("{what}: nothing is found there")),
        ToolReport::MissingTool(name) => {
            found
                .not_reported
                .push(format!("{what}: not checked, because {name} is not installed"));
        }
    }
    Ok(())
}

fn by_tools(
    runner: &dyn Runner,
    work: &ApplyJob,
    found: &mut Verified,
    wrong: &mut Vec<String>,
) -> Result<(), ApplyError> {
    let facts = match ask(runner, &work.node)? {
        ToolReport::Facts(facts) => facts,
        ToolReport::NoFileSystem => {
            wrong.push(format!("no file system is found on {}", work.node.display()));
            return Ok(());
        }
        ToolReport::MissingTool(name) => {
            let names = work.numbers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
            found.not_reported.push(format!("{}: not checked, because {name} is not installed", names.join(", \
                                                                                                        ")));
            return Ok(());
        }
    };
    found.uuid.clone_from(&facts.uuid);
    if facts.kind != work.kind {
        wrong.push(format!("the file system is {}, not {}", facts.kind, work.kind));
    }
    match (&work.label, &facts.label) {
        (None, _) => {}
        (Some(label), Some(shown)) if label == shown => {
            found.as_planned.push(format!("label {label}"));
        }
        (Some(label), shown) => {
            let shown = shown.as_deref().unwrap_or("missing");
            wrong.push(format!("the label is {shown}, not {label}"));
        }
    }
    for (name, planned) in &work.numbers {
        match told(&facts, name) {
            Some(value) if value == *planned => found.as_planned.push(format!("{name} {value}")),
            Some(value) => wrong.push(format!("{name} is {value}, not {planned}")),
            None => found.not_reported.push(format!("{name}: not reported by its tools")),
        }
    }
    Ok(())
}

/// What a file system's own tools say.
pub(crate) enum ToolReport {
    Facts(Box<FileSystemFacts>),
    NoFileSystem,
    /// The tool that is missing: the file system is none the worse for it.
    MissingTool(String),
}

/// Asks the tools of the file system on `node`.
pub(crate) fn ask(runner: &dyn Runner, node: &Path) -> Result<ToolReport, ApplyError> {
    match facts::read(runner, node) {
        Ok(Some(facts)) => Ok(ToolReport::Facts(Box::new(facts))),
        Ok(None) => Ok(ToolReport::NoFileSystem),
        Err(FactsError::Program(ProgramError::Missing { name })) => {
            Ok(ToolReport::MissingTool(name))
        }
        Err(other) => Err(other.into()),
    }
}

fn told(facts: &FileSystemFacts, name: &str) -> Option<u64> {
    facts.number(name).or(match name {
        "block_bytes" | "cluster_bytes" => Some(facts.block_bytes),
        "data_start_bytes" => facts.data_start_bytes,
        _ => None,
    })
}

fn by_mount(
    runner: &dyn Runner,
    place: &WriteConsent,
    work: &ApplyJob,
    found: &mut Verified,
    wrong: &mut Vec<String>,
) -> Result<(), ApplyError> {
    let folder = tempfile::tempdir().map_err(ApplyError::file(&std::env::temp_dir()))?;
    // A separate thread, because it takes its mounts with it; and should this process be killed,
    // nothing stays mounted.
    let shown = std::thread::scope(|scope| {
        let looking = scope.spawn(|| options_shown(runner, place, work, folder.path()));
        looking.join().expect("looking at a mount does not panic")
    });
    match shown {
        Ok(shown) => compare_options(work, &shown, found, wrong),
        // Now that mount(8) has asked for its module.
        Err(ApplyError::Mount(_)) if !kernel_list::has(&work.kind) => {
            let options = work.mount_options.join(",");
            found
                .not_reported
                .push(format!("mount options {options}: no {} in this kernel", work.kind));
        }
        Err(other) => return Err(other),
    }
    Ok(())
}

/// Mounts it, and gives the options that the kernel shows.
fn options_shown(
    runner: &dyn Runner,
    place: &WriteConsent,
    work: &ApplyJob,
    point: &Path,
) -> Result<Vec<String>, ApplyError> {
    enter_private_namespace()?;
    let mounted = mount(runner, place, work, point)?;
    let entry = mountinfo::at(mounted.point()).map_err(ApplyError::file(point))?;
    let mut shown: Vec<String> = entry
        .iter()
        .flat_map(|entry| entry.options.split(',').chain(entry.super_options.split(',')))
        .map(str::to_owned)
        .collect();
    shown.extend(options_of_ext4(&work.node));
    mounted.unmount()?;
    Ok(shown)
}

/// Mounts the file system on `place`. The kernel writes to it, so it must be the consented device
/// before and after.
pub(crate) fn mount(
    runner: &dyn Runner,
    place: &WriteConsent,
    work: &ApplyJob,
    point: &Path,
) -> Result<Mounted, ApplyError> {
    place.surrounded(|| {
        Ok(Mounted::new(runner, place.path(), &work.kind, point, &work.mount_options)?)
    })
}

/// ext4 shows all its options here, also those that are its defaults.
pub(crate) fn options_of_ext4(node: &Path) -> Vec<String> {
    let name = node.file_name().unwrap_or_default();
    let path = Path::new("/proc/fs/ext4").join(name).join("options");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn compare_options(
    work: &ApplyJob,
    shown: &[String],
    found: &mut Verified,
    wrong: &mut Vec<String>,
) {
    for planned in &work.mount_options {
        if shown.contains(planned) {
            found.as_planned.push(format!("mount option {planned}"));
        } else if ALWAYS_SHOWN.contains(&planned.as_str()) {
            wrong.push(format!("the mount option {planned} is not in effect"));
        } else if let Some(other) = otherwise(planned, shown) {
            wrong.push(format!("the mount option {planned} is in effect as {other}"));
        } else {
            found.not_reported.push(format!(
                "mount option {planned}: accepted, but not shown by the \
                                         kernel"
            ));
        }
    }
    if work.mount_options.is_empty() {
        found.as_planned.push("it could be mounted".to_owned());
    }
}

/// The same option with another whole number. Names of things (`fsync_mode=posix`) are shown in
/// their own ways.
fn otherwise<'a>(planned: &str, shown: &'a [String]) -> Option<&'a String> {
    let (name, value) = planned.split_once('=')?;
    value.parse::<u64>().ok()?;
    shown.iter().find(|option| {
        option
            .split_once('=')
            .is_some_and(|(found, number)| found == name && number.parse::<u64>().is_ok())
    })
}
