//! Plans: the position of a file system on a device, its parameters with reasons, and the commands.
//! Nothing here accesses a device.
//!
//! [`choose()`] turns a request into choices, and [`Plan::of`] turns choices into a plan. A plan is
//! a pure function of device, geometry and choices, so it can be rebuilt and compared.

pub mod advice;
pub mod arithmetic;
mod choose;
mod commands;
mod conditions;
mod device;
pub mod document;
mod error;
pub mod file;
mod given_sizes;
mod layers;
mod make;
pub mod numbers;
mod packing;
mod placement;
mod published;
mod second;
mod several;
mod standing;
pub mod units;
mod usual;

pub use crate::layout::{EXAMPLE_NODE, EXAMPLE_PARTITION};
pub use choose::{GEOMETRY, PlanRequest, choose, choose_layered};
pub use commands::{Programs, partition_name};
pub use conditions::fitted_conditions;
pub use document::{
    NumberUnit, Plan, PlanChoices, PlanInputs, PlanNumber, PlannedCommand, PlannedDevice,
    PlannedGeometry, PlannedPartition, PlannedPlacement, StripeWidth, Trim, TrimAdvice,
};
pub use error::PlanError;
pub use given_sizes::{GivenSizeError, check_given_sizes};
pub use layers::{ImagePacking, NAME_THE_FOLDER, PlannedLayers, PlannedSetting};
pub use make::{SECOND_COMMANDS, differences, label_flag, labeled};
pub use published::{PublishedRecipe, PublishedRecipes};
pub use second::{
    EXAMPLE_SECOND, PlannedSecond, SECOND_UUID_PLACE, SWAP, SecondChoice, SecondPartition,
    SecondPrograms, with_second_partition,
};
pub use several::{
    PlanNote, PlanningDevice, SeveralPlans, SeveralPlansError, SeveralPlansRequest,
    UnplannedReason, plan_several,
};
pub use standing::{PlanStanding, standings};
pub use usual::usual_write_unit;
