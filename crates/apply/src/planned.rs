//! The work of a plan, for the block device that the device is today.
//!
//! Of the plan only what was chosen is used: every program is made again from it.

use std::path::Path;
use std::time::Duration;

use flashfit_device::Bytes;
use flashfit_filesystem::plan::{Plan, PlanError};
use flashfit_filesystem::{FileSystemCatalog, Recipe};
use flashfit_user_error::{ExitClass, Hint, Task, UserError};

use crate::job::ApplyJob;
use crate::partition::NewPartition;

/// Discarding a whole slow device in pieces takes long.
const MAKING_TIMEOUT: Duration = Duration::from_secs(3600);

/// Why a plan cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum InfeasiblePlan {
    /// It cannot be made again.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// It is of a kind that is not carried out.
    #[error("the plan cannot be carried out: {0}")]
    Kind(String),
}

impl UserError for InfeasiblePlan {
    fn class(&self) -> ExitClass {
        match self {
            Self::Plan(error) => error.class(),
            Self::Kind(_) => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Plan(error) => error.hint(),
            Self::Kind(_) => Some(Hint::from(Task::Plan).and(" shows its commands")),
        }
    }
}

impl ApplyJob {
    /// The work of `plan` on the block device `disk`.
    ///
    /// # Errors
    /// See [`InfeasiblePlan`].
    pub fn of(
        plan: &Plan,
        catalog: &FileSystemCatalog,
        disk: &Path,
    ) -> Result<Self, InfeasiblePlan> {
        if let Some(image) = &plan.choices.image {
            let reason = format!("{} is packed from one of your directories", image.filesystem);
            return Err(InfeasiblePlan::Kind(reason));
        }
        let programs = plan.programs(catalog, disk)?;
        let recipe: Recipe = plan.recipe(catalog)?;
        let partition = match (programs.partitioning, plan.partitions.as_slice()) {
            (None, []) => None,
            (Some(sfdisk), [partition]) => Some(NewPartition {
                sfdisk,
                node: programs.place_node.clone(),
                start: Bytes(partition.start_bytes),
                size: Bytes(partition.size_bytes),
            }),
            _ => return Err(InfeasiblePlan::Kind("it has more than one partition".to_owned())),
        };
        Ok(Self {
            partition,
            format_commands: std::iter::once(programs.mkfs)
                .chain(programs.tune)
                .map(|program| program.timeout(MAKING_TIMEOUT))
                .collect(),
            node: programs.place_node,
            kind: recipe.kind().to_owned(),
            mount_options: recipe.mount_options().to_vec(),
            scheduler: plan.setup.scheduler.name().to_owned(),
            numbers: plan.numbers.iter().map(|found| (found.name.clone(), found.value)).collect(),
            fstab_line: plan.fstab_line.clone(),
            udev_rule: plan.udev_rule.clone(),
        })
    }
}
