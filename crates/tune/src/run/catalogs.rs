//! The file systems and workloads that a run's specification names; of a recorded run those of the
//! catalog that is in use now, if they are what the run used.

use std::path::{Path, PathBuf};

use flashfit_bench::{Workload, Workloads};
use flashfit_filesystem::FileSystemCatalog;

use super::{RecordedCatalogError, RunError};
use crate::spec::{CatalogUsed, RunHeader, RunSpec};

pub struct Catalogs {
    pub filesystems: FileSystemCatalog,
    pub workloads: Vec<Workload>,
}

impl Catalogs {
    /// Loads what a run's specification names.
    ///
    /// # Errors
    /// If a file cannot be read, or something named is unknown.
    pub fn load(spec: &RunSpec) -> Result<Self, RunError> {
        let user = spec.catalog_dir.as_deref();
        let all = Workloads::load(user)?;
        let workloads =
            spec.workloads.iter().map(|name| all.find(name).cloned()).collect::<Result<_, _>>()?;
        Ok(Self { filesystems: FileSystemCatalog::load(user)?, workloads })
    }

    /// Loads what a recorded run used.
    ///
    /// # Errors
    /// If the catalog in use now lacks it.
    pub fn of_run(header: &RunHeader, catalog: Option<&Path>) -> Result<Self, RunError> {
        Self::load(&recorded(header, catalog)?)
    }

    /// The specification of a recorded run, with the catalog in use now in place of the folder that
    /// the record names: a definition says which programs run as root, and a run directory can be
    /// anybody's.
    ///
    /// # Errors
    /// If the run used other definitions.
    pub fn recorded(
        header: &RunHeader,
        catalog: Option<&Path>,
    ) -> Result<RunSpec, RecordedCatalogError> {
        recorded(header, catalog)
    }
}

/// See [`Catalogs::recorded`].
fn recorded(header: &RunHeader, catalog: Option<&Path>) -> Result<RunSpec, RecordedCatalogError> {
    let now = CatalogUsed::of(&header.spec, catalog)?;
    let spec = RunSpec { catalog_dir: catalog.map(Path::to_owned), ..header.spec.clone() };
    let named = header.spec.catalog_dir.as_deref();
    match &header.catalog {
        Some(used) if used.sha256 == now.sha256 => Ok(spec),
        // The built-in catalog of another version: what it lacks is named where it is looked up.
        Some(used) if used.built_in && now.built_in => Ok(spec),
        Some(used) if used.built_in => Err(RecordedCatalogError::NeedsBuiltIn),
        // An earlier run does not say what it used, only where it was.
        None if named.is_none() && now.built_in => Ok(spec),
        None if named.is_none() => Err(RecordedCatalogError::NeedsBuiltIn),
        None if catalog.is_some() => Ok(spec),
        _ if catalog.is_none() => Err(needs_catalog(named)),
        _ => Err(RecordedCatalogError::OtherDefinitions),
    }
}

fn needs_catalog(named: Option<&Path>) -> RecordedCatalogError {
    let folder = named.map_or_else(|| PathBuf::from("DIR"), Path::to_owned);
    RecordedCatalogError::NeedsCatalog { folder }
}
