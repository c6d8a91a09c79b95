//! The work of a plan, for the block device that the device is today.
//!
//! Of the plan only what was chosen is used: every program is made again from it.

use std::path::Path;
use std::time::Duration;

use flashfit_device::{Bytes, making_timeout};
use flashfit_filesystem::plan::{Plan, PlanError, PlannedPartition};
use flashfit_filesystem::{FileSystemCatalog, Recipe};
use flashfit_host::Program;
use flashfit_user_error::{ExitClass, Hint, Task, UserError};

use crate::job::{ApplyJob, ImageJob, SecondJob};
use crate::partition::NewPartition;

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

fn timed(programs: impl IntoIterator<Item = Program>, limit: Duration) -> Vec<Program> {
    programs.into_iter().map(|program| program.timeout(limit)).collect()
}

impl ApplyJob {
    /// The work of `plan` on the block device `disk`; `folder` is packed into its image, where it
    /// has one.
    ///
    /// # Errors
    /// See [`InfeasiblePlan`].
    pub fn of(
        plan: &Plan,
        catalog: &FileSystemCatalog,
        disk: &Path,
        folder: Option<&Path>,
    ) -> Result<Self, InfeasiblePlan> {
        let image = match (plan.packing(catalog)?, folder) {
            (None, None) => None,
            (Some(packing), Some(folder)) => Some(ImageJob {
                packing,
                folder: folder.to_owned(),
                fstab_lines: plan.layers.iter().flat_map(|l| l.fstab_lines.clone()).collect(),
            }),
            (Some(_), None) => {
                let reason =
                    format!("{} is packed from one of your directories", plan.filesystem());
                return Err(InfeasiblePlan::Kind(reason));
            }
            (None, Some(folder)) => {
                let reason = format!("it has no image to pack {} into", folder.display());
                return Err(InfeasiblePlan::Kind(reason));
            }
        };
        let programs = plan.programs(catalog, disk)?;
        let recipe: Recipe = plan.recipe(catalog)?;
        let second = plan.second_programs(catalog, disk)?;
        let new = |sfdisk: &Program, node: &Path, partition: &PlannedPartition| NewPartition {
            sfdisk: sfdisk.clone(),
            node: node.to_owned(),
            start: Bytes(partition.start_bytes),
            size: Bytes(partition.size_bytes),
        };
        let node = &programs.place_node;
        let limit = making_timeout(Bytes(plan.device.capacity_bytes));
        let (partition, second) = match (&programs.partitioning, plan.partitions.as_slice(), second)
        {
            (None, [], None) => (None, None),
            (Some(sfdisk), [first], None) => (Some(new(sfdisk, node, first)), None),
            (Some(sfdisk), [first, behind], Some(second)) => {
                let job = SecondJob {
                    partition: new(sfdisk, &second.node, behind),
                    format_commands: timed(second.format, limit),
                    kind: second.kind,
                    fstab_line: second.fstab_line,
                };
                (Some(new(sfdisk, node, first)), Some(job))
            }
            _ => return Err(InfeasiblePlan::Kind("its partitions do not match".to_owned())),
        };
        Ok(Self {
            partition,
            second,
            image,
            label: plan.choices.label.clone(),
            format_commands: timed(std::iter::once(programs.mkfs).chain(programs.tune), limit),
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
