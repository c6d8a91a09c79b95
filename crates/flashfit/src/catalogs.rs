//! The file systems and workloads that a run's specification names; of a recorded run those of the
//! catalog that the command line names, if they are what the run used.

use std::path::{Path, PathBuf};

use flashfit_bench::{Workload, Workloads};
use flashfit_filesystem::FileSystemCatalog;
use flashfit_host::program::quote;
use flashfit_tune::{CatalogUsed, RunHeader, RunSpec};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;

/// The catalogs of a run.
pub struct Catalogs {
    pub filesystems: FileSystemCatalog,
    pub workloads: Vec<Workload>,
}

impl Catalogs {
    /// Loads what a run's specification names.
    pub fn load(spec: &RunSpec) -> Result<Self, CommandError> {
        let user = spec.catalog_dir.as_deref();
        let all = Workloads::load(user)?;
        let workloads =
            spec.workloads.iter().map(|name| all.find(name).cloned()).collect::<Result<_, _>>()?;
        Ok(Self { filesystems: FileSystemCatalog::load(user)?, workloads })
    }

    /// Loads what a recorded run used.
    pub fn of_run(header: &RunHeader, catalog: Option<&Path>) -> Result<Self, CommandError> {
        Self::load(&recorded(header, catalog)?)
    }
}

/// The specification of a recorded run, with the catalog that the command line names in place of
/// the folder that the record names: a definition says which programs run as root, and a run
/// directory can be anybody's.
pub fn recorded(header: &RunHeader, catalog: Option<&Path>) -> Result<RunSpec, CommandError> {
    let now = CatalogUsed::of(&header.spec, catalog)?;
    let spec = RunSpec { catalog_dir: catalog.map(Path::to_owned), ..header.spec.clone() };
    let named = header.spec.catalog_dir.as_deref();
    match &header.catalog {
        Some(used) if used.sha256 == now.sha256 => Ok(spec),
        // The built-in catalog of another version: what it lacks is named where it is looked up.
        Some(used) if used.built_in && now.built_in => Ok(spec),
        Some(used) if used.built_in => Err(needs_built_in()),
        // An earlier run does not say what it used, only where it was.
        None if named.is_none() && now.built_in => Ok(spec),
        None if named.is_none() => Err(needs_built_in()),
        None if catalog.is_some() => Ok(spec),
        _ if catalog.is_none() => Err(needs_catalog(named)),
        _ => Err(CommandError::new(
            ExitClass::Usage,
            "the run used other definitions of its file systems or workloads than the catalog has \
             that --catalog or FLASHFIT_CATALOG names",
            Some("name the catalog as it was when the run began, with --catalog DIR"),
        )),
    }
}

fn needs_built_in() -> CommandError {
    CommandError::new(
        ExitClass::Usage,
        "the run used the built-in catalog, and the one that --catalog or FLASHFIT_CATALOG names \
         has other definitions of its file systems or workloads",
        Some("leave --catalog out, or: unset FLASHFIT_CATALOG"),
    )
}

fn needs_catalog(named: Option<&Path>) -> CommandError {
    let named = named.map_or_else(|| PathBuf::from("DIR"), Path::to_owned);
    CommandError::new(
        ExitClass::Usage,
        format!(
            "the run used a catalog of its user's, {}, and a run directory alone does not decide \
             which programs run",
            named.display()
        ),
        Some(&format!("if you trust it, add: --catalog {}", quote(&named.display().to_string()))),
    )
}
