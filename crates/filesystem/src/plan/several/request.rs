//! What plans for several file systems are made from, and what comes back.

use std::path::PathBuf;

use flashfit_catalog::CatalogEntryError;
use flashfit_device::Bytes;
use flashfit_geometry::{Geometry, Sourced};
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::durability::Durability;
use crate::layout::{LayoutStart, PartitionEnd, PartitionTable};
use crate::plan::{GivenSizeError, Plan, PlanError, PlannedDevice, PublishedRecipe, SecondChoice};

/// The user's choices for several plans; what is `None` is left to the recipe or the planner.
#[derive(Debug, Clone)]
pub struct SeveralPlansRequest<'a> {
    /// Names of file systems; all that are safe and fit if `None`.
    pub filesystems: Option<&'a [String]>,
    /// Options; `base` alone for none.
    pub options: Option<&'a [String]>,
    /// The file system for a read-only image.
    pub host: Option<&'a str>,
    /// Name of the I/O scheduler, current or former.
    pub scheduler: Option<&'a str>,
    pub table: Option<PartitionTable>,
    /// Where the file system starts.
    pub start: Option<LayoutStart>,
    /// Where its partition ends.
    pub end: Option<PartitionEnd>,
    /// The label of each file system.
    pub label: Option<&'a str>,
    /// A second partition.
    pub second: Option<&'a SecondChoice>,
    /// Takes precedence over `probed`.
    pub erase_block: Option<Bytes>,
    /// Takes precedence over `probed`.
    pub write_unit: Option<Bytes>,
    /// What a probe found.
    pub probed: Geometry,
    /// The write unit of most devices, for one that shows none, unless a recipe decides.
    pub usual_write_unit: Option<Sourced>,
    /// Where the file system is mounted.
    pub mount_point: PathBuf,
    /// Used for everything that is not given.
    pub recipe: Option<&'a PublishedRecipe>,
    /// The lowest safety that is allowed.
    pub allow: Durability,
}

/// A device as plans need it.
#[derive(Debug, Clone)]
pub struct PlanningDevice {
    pub planned: PlannedDevice,
    /// What it declares, or its model states.
    pub declared: Geometry,
    /// The scheduler in use, if the device is attached.
    pub scheduler: Option<String>,
}

/// The plans that can be made, and why the others cannot.
#[derive(Debug)]
pub struct SeveralPlans {
    /// In the catalog's order.
    pub plans: Vec<Plan>,
    /// File systems without a plan.
    pub unplanned: Vec<(String, UnplannedReason)>,
    /// What the user should know.
    pub notes: Vec<PlanNote>,
}

/// Why a file system that was not named has no plan.
#[derive(Debug)]
pub enum UnplannedReason {
    /// It is packed from a folder of the user.
    NeedsImage,
    /// A power cut may do more than is allowed.
    TooRisky {
        /// What a power cut may do.
        durability: Durability,
        /// The same as a sentence.
        risk: String,
    },
    /// No plan is possible.
    Failed(PlanError),
}

/// What the user should know about plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanNote {
    /// A former name of a scheduler was translated, as this sentence says.
    Scheduler(String),
    /// Nothing is known about the device's erase blocks, so the recipe's are used.
    RecipeGeometry {
        /// The recipe's erase block.
        erase_block: Bytes,
    },
    /// An option of the recipe is less safe than is allowed.
    RecipeOption {
        option: String,
        /// What a power cut may do with it.
        durability: Durability,
        /// The same as a sentence.
        risk: String,
    },
    /// A recipe was made for such a device.
    RecipeFits {
        name: String,
        /// Whether the plan uses it.
        is_used: bool,
        /// Where it differs from the plan's rules, as a sentence; empty if nowhere.
        differs: String,
    },
}

/// Why there are no plans.
#[derive(Debug, thiserror::Error)]
pub enum SeveralPlansError {
    /// A named file system has no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A size that was given cannot be that of the device.
    #[error(transparent)]
    Size(#[from] GivenSizeError),
    /// A host was named, but no file system is an image.
    #[error("{host}: none of the file systems is an image that would lie on it")]
    HostWithoutImage { host: String },
}

impl From<CatalogEntryError> for SeveralPlansError {
    fn from(error: CatalogEntryError) -> Self {
        Self::Plan(error.into())
    }
}

impl UserError for SeveralPlansError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Plan(error) => error.class(),
            Self::Size(error) => error.class(),
            Self::HostWithoutImage { .. } => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Plan(error) => error.hint(),
            Self::Size(error) => error.hint(),
            Self::HostWithoutImage { .. } => None,
        }
    }
}
