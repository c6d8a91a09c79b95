//! What follows from a probe: disagreements with what is declared, and the plan of the usual file
//! system.

use std::path::PathBuf;

use flashfit_device::Bytes;
use flashfit_filesystem::plan::{Plan, PlanError, PlanRequest, StripeWidth, choose, units};
use flashfit_filesystem::{Durability, FileSystemCatalog, Scheduler};
use flashfit_geometry::Geometry;
use flashfit_target::InspectedTarget;

use crate::document::ProbeDocument;

/// The file system whose plan is shown: what distributions put on cards.
const USUAL_FILESYSTEM: &str = "ext4";

#[derive(Debug)]
pub struct FollowUp {
    /// Sentences about values that were probed and declared differently.
    pub disagreements: Vec<String>,
    /// The plan; `None` if there is no device, only tables of one.
    pub plan: Option<Result<Plan, PlanError>>,
}

impl FollowUp {
    pub fn new(
        document: &ProbeDocument,
        target: Option<&InspectedTarget>,
        fs_catalog: &FileSystemCatalog,
    ) -> Self {
        let probed = document.geometry();
        let disagreements = match target {
            Some(target) if !probed.is_unknown() => {
                units::combine(&probed, &target.declared_geometry()).1
            }
            _ => Vec::new(),
        };
        let plan = target.map(|target| plan(target, &probed, fs_catalog));
        Self { disagreements, plan }
    }
}

fn plan(
    target: &InspectedTarget,
    probed: &Geometry,
    fs_catalog: &FileSystemCatalog,
) -> Result<Plan, PlanError> {
    let filesystem = fs_catalog.filesystem(USUAL_FILESYSTEM)?;
    let request = PlanRequest {
        table: None,
        start_bytes: None,
        end: None,
        options: None,
        scheduler: Scheduler::new(target.scheduler().unwrap_or("none")),
        label: None,
        second: None,
        stripe_width: StripeWidth::Blocks,
        recipe: None,
        mount_point: PathBuf::from("/mnt/flash"),
        allow: Durability::Safe,
    };
    let (device, declared) = (target.planned(), target.declared_geometry());
    let inputs = choose(filesystem, device, probed.clone(), declared, &request)?;
    Plan::of(fs_catalog, &inputs)
}

/// The first erase block of a disk whose erase blocks do not start where it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstEraseBlock {
    /// In bytes from the start of the disk; not 0.
    pub offset: u64,
}

impl ProbeDocument {
    pub fn first_erase_block(&self) -> Option<FirstEraseBlock> {
        let Bytes(offset) = self.likeliest_geometry().erase_block_offset;
        (offset != 0).then_some(FirstEraseBlock { offset })
    }
}
