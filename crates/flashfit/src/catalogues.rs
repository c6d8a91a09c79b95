//! The file systems and workloads that a run's specification names.

use flashfit_bench::{Workload, Workloads};
use flashfit_filesystem::Catalogue;
use flashfit_tune::RunSpec;

use crate::failure::Failure;

/// The catalogues of a run.
pub struct Catalogues {
    pub filesystems: Catalogue,
    pub workloads: Vec<Workload>,
}

impl Catalogues {
    /// Loads what a run's specification names.
    pub fn load(spec: &RunSpec) -> Result<Self, Failure> {
        let user = spec.catalog_dir.as_deref();
        let all = Workloads::load(user)?;
        let workloads =
            spec.workloads.iter().map(|name| all.find(name).cloned()).collect::<Result<_, _>>()?;
        Ok(Self { filesystems: Catalogue::load(user)?, workloads })
    }
}
