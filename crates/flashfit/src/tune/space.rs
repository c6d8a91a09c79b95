//! From a specification and a device to the space that is searched: what cannot be used here is
//! left out, with the reason.

use flashfit_device::Bytes;
use flashfit_filesystem::{
    Conditions, FileSystem, FileSystemCatalog, FsOption, Recipe, Scheduler, Setup,
};
use flashfit_testbed::Capabilities;
use flashfit_tune::{FileSystemChoices, Problem, RunSpec, Space};
use flashfit_user_error::ExitClass;
use std::path::Path;

use crate::command_error::CommandError;
use crate::tune::option_findings::RunOptionFindings;

/// A space and what the user should know about what is not in it.
pub struct BuiltSpace {
    pub space: Space,
    pub problem: Problem,
    pub notes: Vec<String>,
}

/// What is known of the place of the trials.
#[derive(Clone, Copy)]
pub struct HostKnowledge<'a> {
    pub validity: &'a RunOptionFindings,
    pub offers: &'a Capabilities,
}

/// Builds the space; `conditions` tells what the place offers a file system.
pub fn build(
    spec: &RunSpec,
    catalogue: &FileSystemCatalog,
    conditions: &dyn Fn(&FileSystem) -> Conditions,
    schedulers: &[Scheduler],
    default_scheduler: &Scheduler,
    room: Bytes,
    known: HostKnowledge<'_>,
) -> Result<BuiltSpace, CommandError> {
    let HostKnowledge { validity, offers } = known;
    let mut notes = validity.notes.clone();
    let schedulers = chosen_schedulers(spec, schedulers)?;
    let mut choices = Vec::new();
    for name in &spec.filesystems {
        let filesystem = catalogue.filesystem(name)?;
        if let Some(reason) = unusable(filesystem, room, offers) {
            if spec.filesystems.len() == 1 {
                return Err(reason.into_failure(filesystem));
            }
            notes.push(format!("{name} is left out: {}", reason.message));
            continue;
        }
        let conditions = conditions(filesystem);
        choices.push(choices_of(spec, filesystem, &conditions, &schedulers, validity, &mut notes)?);
    }
    if choices.is_empty() {
        return Err(CommandError::new(
            ExitClass::Environment,
            format!("none of the file systems can be used here: {}", notes.join("; ")),
            Some("apt-get install e2fsprogs btrfs-progs"),
        ));
    }
    let space = Space { choices, allow: spec.allow, default_scheduler: default_scheduler.clone() };
    let problem = Problem::of_run(&space, spec)?;
    Ok(BuiltSpace { space, problem, notes })
}

/// The user's schedulers, all of which the kernel must have; or the kernel's.
fn chosen_schedulers(
    spec: &RunSpec,
    offered: &[Scheduler],
) -> Result<Vec<Scheduler>, CommandError> {
    if spec.schedulers.is_empty() {
        return Ok(offered.to_vec());
    }
    for wanted in &spec.schedulers {
        if !offered.contains(wanted) {
            let names: Vec<&str> = offered.iter().map(Scheduler::name).collect();
            return Err(CommandError::new(
                ExitClass::Environment,
                format!("the kernel does not offer the scheduler {wanted} for this medium"),
                Some(&format!("it offers {}", names.join(", "))),
            ));
        }
    }
    Ok(spec.schedulers.clone())
}

struct Unusable {
    message: String,
    class: ExitClass,
    hint: Option<String>,
}

impl Unusable {
    fn into_failure(self, filesystem: &FileSystem) -> CommandError {
        let message = format!("{} cannot be used here: {}", filesystem.name, self.message);
        CommandError::new(self.class, message, self.hint.as_deref())
    }
}

fn unusable(filesystem: &FileSystem, room: Bytes, offers: &Capabilities) -> Option<Unusable> {
    if let Some(reason) = &filesystem.plan_only {
        return Some(Unusable {
            message: format!("it can be planned and not tried: {reason}"),
            class: ExitClass::Usage,
            hint: Some("name another one with --fs".to_owned()),
        });
    }
    let program = &filesystem.mkfs.tool.program;
    if !offers.has_program(program) {
        let missing = flashfit_host::ProgramError::Missing { name: program.clone() };
        return Some(Unusable {
            message: missing.to_string(),
            class: ExitClass::Environment,
            hint: flashfit_user_error::UserError::hint(&missing),
        });
    }
    if !offers.has_kind(&filesystem.kind) {
        return Some(Unusable {
            message: format!("the kernel {} has no {}", offers.kernel, filesystem.kind),
            class: ExitClass::Environment,
            hint: Some("try it in a virtual machine, whose kernel has it: --on vm".to_owned()),
        });
    }
    (room < filesystem.least_medium).then(|| Unusable {
        message: format!("it needs {}, and there are {room}", filesystem.least_medium),
        class: ExitClass::Usage,
        hint: Some("use a larger medium, or another file system with --fs".to_owned()),
    })
}

fn choices_of(
    spec: &RunSpec,
    filesystem: &FileSystem,
    conditions: &Conditions,
    schedulers: &[Scheduler],
    validity: &RunOptionFindings,
    notes: &mut Vec<String>,
) -> Result<FileSystemChoices, CommandError> {
    let choice = spec.options.get(&filesystem.name).cloned().unwrap_or_default();
    // Options that are always on must be possible together, whichever scheduler.
    let first = schedulers.first().cloned().unwrap_or_else(|| Scheduler::new("none"));
    let always = Setup::new(filesystem, &choice.always, first, conditions)?;
    for name in &always.options {
        if let Some(reason) = filesystem.option(name)?.untriable() {
            return Err(CommandError::new(
                ExitClass::Usage,
                format!("{} {name} cannot be tried: {reason}", filesystem.name),
                Some(&format!("take `{name}` out of `always`")),
            ));
        }
    }
    let durability = always.durability(filesystem)?.durability;
    if durability > spec.allow {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!(
                "the options always on of {}, {}, are `{durability}` at a power cut, and only \
                 `{}` is allowed",
                filesystem.name,
                choice.always.join(", "),
                spec.allow
            ),
            Some(&format!("add --allow {durability}, or take them out")),
        ));
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

/// Why an option is no choice here: it cannot be used, or it changes no command.
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
        format!("on this medium it is the same as {}", flashfit_filesystem::filesystem::BASE)
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
