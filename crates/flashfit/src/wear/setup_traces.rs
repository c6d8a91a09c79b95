//! Finds the recorded traces of a setup in the catalog.

use std::path::Path;

use flashfit_user_error::ExitClass;
use flashfit_wear::{SetupTraces, UsageModel, trace_file};

use crate::command_error::CommandError;
use crate::wear::setup_name::SetupName;

/// The recorded traces of a setup, one for each workload of the usage model.
pub fn find(
    name: &str,
    usage: &UsageModel,
    catalog: Option<&Path>,
) -> Result<SetupTraces, CommandError> {
    let setup: SetupName = name.parse()?;
    let mut traces = Vec::new();
    for (workload, _) in &usage.writes {
        let file = trace_file::name_of(&setup.filesystem, &setup.options, workload);
        traces.push(trace_file::find(&file, catalog)?.ok_or_else(|| {
            CommandError::new(
                ExitClass::Usage,
                format!(
                    "no recorded trace of {workload} on {name}: `{file}` is not in the catalog"
                ),
                Some(&format!(
                    "record it into your own catalog: flashfit wear record sim:usd-a1-pagemap \
                     --fs {name} --workload {workload} --output CATALOG/traces/{file}.toml; then \
                     add --catalog CATALOG"
                )),
            )
        })?);
    }
    Ok(SetupTraces { name: name.to_owned(), traces })
}
