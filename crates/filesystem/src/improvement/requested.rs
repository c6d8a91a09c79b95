//! Changes that a user asks for: options of the catalog, a scheduler, a read-ahead.

use flashfit_catalog::CatalogEntryError;
use flashfit_device::Bytes;
use flashfit_user_error::{ExitClass, Hint, Task, UserError};

use crate::catalog::{FileSystemCatalog, FileSystemCatalogError};
use crate::check::{ExaminedDevice, Volume};
use crate::conditions::Conditions;
use crate::durability::Durability;
use crate::filesystem::{FileSystem, FsOption};
use crate::scheduler::{self, Scheduler};

use super::{ExpectedFacts, ImprovedVolume, Improvement};

/// Why a change cannot be made without mkfs.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error(transparent)]
    Catalog(#[from] FileSystemCatalogError),
    #[error(transparent)]
    Unknown(#[from] CatalogEntryError),
    #[error("{filesystem}:{option} cannot be set on an existing file system: {reason}")]
    NotPossible { filesystem: String, option: String, reason: String },
    #[error("{target} has no file system of kind {filesystem}")]
    NoSuchVolume { target: String, filesystem: String },
    #[error("{filesystem}: `{first}` and `{second}` cannot be combined")]
    Conflict { filesystem: String, first: String, second: String },
    #[error("an image has no queue, so its {what} cannot be set")]
    NoQueue { what: &'static str },
}

impl UserError for RequestError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Catalog(error) => error.class(),
            Self::Unknown(error) => error.class(),
            _ => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Catalog(error) => error.hint(),
            Self::Unknown(error) => error.hint(),
            Self::NotPossible { .. } => {
                Some(Hint::from(Task::Plan).and(" makes a new file system, which erases the old"))
            }
            Self::Conflict { first, second, .. } => {
                Some(format!("omit `{first}` or `{second}`").into())
            }
            Self::NoSuchVolume { .. } | Self::NoQueue { .. } => None,
        }
    }
}

/// What the user asks for.
#[derive(Debug, Clone, Default)]
pub struct RequestedImprovements {
    /// Names of file systems and of their options in the catalog.
    pub options: Vec<(String, String)>,
    pub scheduler: Option<String>,
    pub read_ahead: Option<Bytes>,
}

/// The changes that `request` asks for; a file system that is as asked already needs none.
///
/// # Errors
/// See [`RequestError`].
pub fn requested(
    examined: &ExaminedDevice,
    catalog: &FileSystemCatalog,
    request: &RequestedImprovements,
) -> Result<Vec<Improvement>, RequestError> {
    let mut found = Vec::new();
    for (name, option) in &request.options {
        let filesystem = catalog.filesystem(name)?;
        let option = filesystem.option(option)?;
        let chosen = request.options.iter().filter(|(other, _)| other == name);
        for (_, other) in chosen {
            let other = filesystem.option(other)?;
            if option.name != other.name && option.conflicts_with(other) {
                let (first, second) = (option.name.clone(), other.name.clone());
                return Err(RequestError::Conflict { filesystem: name.clone(), first, second });
            }
        }
        let of_kind = |volume: &&Volume| {
            let kind = ImprovedVolume::of(volume).map(|volume| volume.kind);
            kind.as_deref() == Some(filesystem.kind.as_str())
        };
        let volumes: Vec<&Volume> = examined.volumes.iter().filter(of_kind).collect();
        if volumes.is_empty() {
            let (target, filesystem) = (examined.target.clone(), name.clone());
            return Err(RequestError::NoSuchVolume { target, filesystem });
        }
        for volume in volumes {
            found.extend(of_option(examined, volume, filesystem, option)?);
        }
    }
    found.extend(of_queue(examined, request)?);
    Ok(found)
}

fn of_option(
    examined: &ExaminedDevice,
    volume: &Volume,
    filesystem: &FileSystem,
    option: &FsOption,
) -> Result<Option<Improvement>, RequestError> {
    let impossible = |reason: String| RequestError::NotPossible {
        filesystem: filesystem.name.clone(),
        option: option.name.clone(),
        reason,
    };
    let improved = ImprovedVolume::of(volume).expect("its kind was compared");
    let risk = match option.durability {
        Durability::Safe => String::new(),
        _ => option.risk.clone(),
    };
    let why = format!("you chose {}:{}: {}", filesystem.name, option.name, option.title);
    if let Some(existing) = &option.existing {
        let tool = filesystem.tune.as_ref().expect("the catalog was checked");
        let facts = volume.facts.as_ref();
        let absent = existing.removes_feature.as_deref();
        if facts.zip(absent).is_some_and(|(facts, name)| !facts.has_feature(name)) {
            return Ok(None);
        }
        let args = |more: &[String]| tool.args.iter().chain(more).cloned().collect();
        return Ok(Some(Improvement::Superblock {
            volume: improved,
            shown_node: examined.node_for_tools(volume),
            program: tool.program.clone(),
            args: args(&existing.apply),
            restore_args: args(&existing.restore),
            expected: ExpectedFacts {
                absent_feature: existing.removes_feature.clone(),
                numbers: Vec::new(),
            },
            why,
            risk,
        }));
    }
    let is_made_with_it = !option.mkfs.is_empty() || !option.tune.is_empty();
    if is_made_with_it || !option.implies.is_empty() {
        return Err(impossible("mkfs decides it".to_owned()));
    }
    if option.mount.is_empty() {
        return Err(impossible("it is a setting of the whole machine".to_owned()));
    }
    let conditions = Conditions {
        geometry: examined.geometry.clone(),
        discard: examined.queue.as_ref().is_some_and(|queue| queue.discards),
        volatile_cache: examined.queue.as_ref().is_some_and(|queue| queue.volatile_cache()),
        ..Conditions::default()
    };
    if let Some(reason) = filesystem.why_not(option, &conditions) {
        return Err(impossible(reason));
    }
    let block_bytes =
        volume.facts.as_ref().map_or(filesystem.block_bytes, |facts| facts.block_bytes.max(1));
    let filled = option.filled(block_bytes, &conditions);
    let options = filled.map_err(|error| impossible(error.to_string()))?.mount;
    let is_set = |word: &String| {
        !volume.mounts.is_empty() && volume.mounts.iter().all(|mount| mount.options.contains(word))
    };
    Ok((!options.iter().all(is_set)).then_some(Improvement::MountOptions {
        volume: improved,
        options,
        why,
        risk,
    }))
}

fn of_queue(
    examined: &ExaminedDevice,
    request: &RequestedImprovements,
) -> Result<Vec<Improvement>, RequestError> {
    let mut found = Vec::new();
    let set = |attribute: &str, before: String, value: String| Improvement::QueueAttribute {
        disk: examined.disk.clone(),
        attribute: attribute.to_owned(),
        why: format!("you chose {attribute} {value}"),
        before,
        value,
    };
    if let Some(name) = &request.scheduler {
        let queue = examined.queue.as_ref();
        let queue = queue.ok_or(RequestError::NoQueue { what: "scheduler" })?;
        let offered: Vec<Scheduler> = queue.schedulers.iter().map(Scheduler::new).collect();
        let chosen = scheduler::choose(name, &offered)?.scheduler;
        let before = queue.scheduler.clone().unwrap_or_else(|| "none".to_owned());
        if before != chosen.name() {
            found.push(set("scheduler", before, chosen.name().to_owned()));
        }
    }
    if let Some(bytes) = request.read_ahead {
        let queue = examined.queue.as_ref();
        let queue = queue.ok_or(RequestError::NoQueue { what: "read-ahead" })?;
        let kib = |bytes: u64| (bytes / 1024).to_string();
        if kib(queue.read_ahead_bytes) != kib(bytes.0) {
            found.push(set("read_ahead_kb", kib(queue.read_ahead_bytes), kib(bytes.0)));
        }
    }
    Ok(found)
}
