//! Finds the recorded traces of a setup in the catalog.

use std::path::Path;

use flashfit_filesystem::FileSystemCatalog;
use flashfit_user_error::ExitClass;
use flashfit_wear::{SetupTraces, UsageModel, trace_file};

use crate::command_error::CommandError;
use crate::wear::record_command::of_missing;
use crate::wear::setup_name::SetupName;

/// The recorded traces of a setup, one for each workload of the usage model.
pub fn find(
    name: &str,
    usage: &UsageModel,
    catalog: Option<&Path>,
) -> Result<SetupTraces, CommandError> {
    find_known(name, usage, catalog)?
}

/// The same; the inner error is that a trace of a setup of the catalog is missing.
pub fn find_known(
    name: &str,
    usage: &UsageModel,
    catalog: Option<&Path>,
) -> Result<Result<SetupTraces, CommandError>, CommandError> {
    let setup: SetupName = name.parse()?;
    // A trace of an unknown option cannot be recorded either.
    let filesystems = FileSystemCatalog::load(catalog)?;
    let options = filesystems.filesystem(&setup.filesystem)?.closure(&setup.options)?;
    let found = search(name, &setup, usage, catalog)?;
    Ok(found.map_err(|missing| {
        let command = of_missing(&missing, name, &options, catalog);
        let then = if catalog.is_none() { "; then add --catalog CATALOG" } else { "" };
        CommandError::new(
            ExitClass::Usage,
            missing.reason(name),
            Some(&format!("record it into your own catalog: {command}{then}")),
        )
    }))
}

/// A trace that is not in the catalog.
#[derive(Debug)]
pub struct MissingTrace {
    pub file: String,
    pub workload: String,
}

impl MissingTrace {
    /// As a sentence.
    pub fn reason(&self, setup: &str) -> String {
        let Self { file, workload } = self;
        format!("no recorded trace of {workload} on {setup}: `{file}` is not in the catalog")
    }
}

/// The same, or the first trace that is missing.
pub fn search(
    name: &str,
    setup: &SetupName,
    usage: &UsageModel,
    catalog: Option<&Path>,
) -> Result<Result<SetupTraces, MissingTrace>, CommandError> {
    let mut traces = Vec::new();
    for (workload, _) in &usage.writes {
        let file = trace_file::name_of(&setup.filesystem, &setup.options, workload);
        match trace_file::find(&file, catalog)? {
            Some(trace) => traces.push(trace),
            None => return Ok(Err(MissingTrace { file, workload: workload.clone() })),
        }
    }
    Ok(Ok(SetupTraces { name: name.to_owned(), traces }))
}
