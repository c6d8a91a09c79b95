//! From a specification and a device to the space that is searched: what cannot be used here is
//! left out, with the reason.

use flashfit_device::Bytes;
use flashfit_filesystem::{
    Conditions, FileSystem, FileSystemCatalog, FsOption, Recipe, Scheduler, Setup,
};
use flashfit_host::ProgramError;
use flashfit_testbed::Capabilities;
use std::path::Path;

use super::{RunError, RunOptionFindings, UnusableReason};
use crate::problem::Problem;
use crate::space::{FileSystemChoices, Space};
use crate::spec::RunSpec;

/// A space and what the user should know about what is not in it.
pub struct BuiltSpace {
    pub space: Space,
    pub problem: Problem,
    pub notes: Vec<String>,
}

/// The properties of the test bed.
#[derive(Clone, Copy)]
pub(super) struct HostKnowledge<'a> {
    pub findings: &'a RunOptionFindings,
    pub offers: &'a Capabilities,
}

/// Builds the space; `conditions` are what the test bed offers a file system.
pub(super) fn build(
    spec: &RunSpec,
    fs_catalog: &FileSystemCatalog,
    conditions: &dyn Fn(&FileSystem) -> Conditions,
    schedulers: &[Scheduler],
    default_scheduler: &Scheduler,
    room: Bytes,
    known: HostKnowledge<'_>,
) -> Result<BuiltSpace, RunError> {
    let HostKnowledge { findings: validity, offers } = known;
    let mut notes = validity.notes.clone();
    let schedulers = chosen_schedulers(spec, schedulers)?;
    let mut choices = Vec::new();
    for name in &spec.filesystems {
        let filesystem = fs_catalog.filesystem(name)?;
        if let Some(reason) = unusable(filesystem, room, offers) {
            if spec.filesystems.len() == 1 {
                let filesystem = filesystem.name.clone();
                return Err(RunError::Unusable { filesystem, reason });
            }
            notes.push(format!("{name} is left out: {reason}"));
            continue;
        }
        let conditions = conditions(filesystem);
        choices.push(choices_of(spec, filesystem, &conditions, &schedulers, validity, &mut notes)?);
    }
    if choices.is_empty() {
        return Err(RunError::NoFileSystem { notes });
    }
    let space = Space { choices, allow: spec.allow, default_scheduler: default_scheduler.clone() };
    let problem = Problem::of_run(&space, spec)?;
    Ok(BuiltSpace { space, problem, notes })
}

/// The user's schedulers, all of which the kernel must have; or the kernel's.
fn chosen_schedulers(spec: &RunSpec, offered: &[Scheduler]) -> Result<Vec<Scheduler>, RunError> {
    if spec.schedulers.is_empty() {
        return Ok(offered.to_vec());
    }
    for wanted in &spec.schedulers {
        if !offered.contains(wanted) {
            let (wanted, offered) = (wanted.clone(), offered.to_vec());
            return Err(RunError::NoScheduler { wanted, offered });
        }
    }
    Ok(spec.schedulers.clone())
}

/// Those of the run's file systems that can be used there.
pub(super) fn usable(
    spec: &RunSpec,
    fs_catalog: &FileSystemCatalog,
    room: Bytes,
    offers: &Capabilities,
) -> Result<Vec<String>, RunError> {
    let mut found = Vec::new();
    for name in &spec.filesystems {
        if unusable(fs_catalog.filesystem(name)?, room, offers).is_none() {
            found.push(name.clone());
        }
    }
    Ok(found)
}

fn unusable(filesystem: &FileSystem, room: Bytes, offers: &Capabilities) -> Option<UnusableReason> {
    if let Some(reason) = &filesystem.plan_only {
        return Some(UnusableReason::PlanOnly(reason.clone()));
    }
    let program = &filesystem.mkfs.tool.program;
    if !offers.has_program(program) {
        return Some(UnusableReason::Program(ProgramError::Missing { name: program.clone() }));
    }
    if !offers.has_kind(&filesystem.kind) {
        let (kernel, kind) = (offers.kernel.clone(), filesystem.kind.clone());
        return Some(UnusableReason::Kernel { kernel, kind });
    }
    if let Some(reason) = filesystem.why_not_with_pages(offers.page_bytes) {
        return Some(UnusableReason::Pages(reason));
    }
    let least = filesystem.min_device_size;
    (room < least).then_some(UnusableReason::TooSmall { least, room })
}

fn choices_of(
    spec: &RunSpec,
    filesystem: &FileSystem,
    conditions: &Conditions,
    schedulers: &[Scheduler],
    validity: &RunOptionFindings,
    notes: &mut Vec<String>,
) -> Result<FileSystemChoices, RunError> {
    let choice = spec.options.get(&filesystem.name).cloned().unwrap_or_default();
    // Options that are always on must be possible together, whichever scheduler.
    let first = schedulers.first().cloned().unwrap_or_else(|| Scheduler::new("none"));
    let always = Setup::new(filesystem, &choice.always, first, conditions)?;
    for name in &always.options {
        if let Some(reason) = filesystem.option(name)?.untriable() {
            let (filesystem, option) = (filesystem.name.clone(), name.clone());
            return Err(RunError::UntriableOption { filesystem, option, reason });
        }
    }
    let durability = always.durability(filesystem)?.durability;
    if durability > spec.allow {
        return Err(RunError::TooRisky {
            filesystem: filesystem.name.clone(),
            options: choice.always,
            durability,
            allow: spec.allow,
        });
    }
    validity.check_named(&filesystem.name, choice.always.iter().chain(&choice.include))?;
    let mut free = Vec::new();
    for option in &filesystem.options {
        let asked_for = choice.include.contains(&option.name);
        if always.options.contains(&option.name)
            || choice.exclude.contains(&option.name)
            || !(option.tried || asked_for)
        {
            continue;
        }
        let why = why_left_out(filesystem, option, &always, conditions)
            .or_else(|| validity.why_no_choice(&filesystem.name, &option.name));
        match why {
            None => free.push(option.name.clone()),
            Some(reason) => {
                notes.push(format!("{} {} is left out: {reason}", filesystem.name, option.name));
            }
        }
    }
    Ok(FileSystemChoices {
        filesystem: filesystem.clone(),
        always: choice.always,
        free,
        schedulers: schedulers.to_vec(),
        conditions: conditions.clone(),
    })
}

/// Why an option is not a choice here: it cannot be used, or it changes no command.
fn why_left_out(
    filesystem: &FileSystem,
    option: &FsOption,
    always: &Setup,
    conditions: &Conditions,
) -> Option<String> {
    if let Some(reason) = filesystem.why_not(option, conditions).or_else(|| option.untriable()) {
        return Some(reason);
    }
    let with = |options: &[String]| {
        let setup = Setup::new(filesystem, options, always.scheduler.clone(), conditions).ok()?;
        commands(filesystem, &setup, conditions)
    };
    let mut options = always.options.clone();
    let before = with(&options)?;
    options.push(option.name.clone());
    (with(&options)? == before).then(|| {
        format!("on this device it is the same as {}", flashfit_filesystem::filesystem::BASE)
    })
}

/// Everything that a setup makes the machine do.
fn commands(
    filesystem: &FileSystem,
    setup: &Setup,
    conditions: &Conditions,
) -> Option<Vec<String>> {
    let recipe = Recipe::new(filesystem, setup, conditions).ok()?;
    let node = Path::new("/dev/node");
    let mut lines = vec![recipe.mkfs(node).command_line()];
    lines.extend(recipe.tune(node).iter().map(flashfit_host::Program::command_line));
    lines.push(recipe.mount_options().join(","));
    lines.extend(
        recipe.sysctl().iter().chain(recipe.sysfs()).map(|(key, value)| format!("{key}={value}")),
    );
    Some(lines)
}
