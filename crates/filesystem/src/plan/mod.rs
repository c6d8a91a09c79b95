//! The plan: where a file system goes on a device, which numbers it is made with and why, and the
//! commands for it. Nothing here touches a device.
//!
//! [`choose()`] makes choices of wishes, [`Plan::of`] a plan of choices. A plan is a pure
//! function of device, geometry and choices, so that it can be made again and compared.

pub mod advice;
pub mod arithmetic;
mod choose;
mod commands;
mod conditions;
mod device;
pub mod document;
mod error;
pub mod file;
mod layers;
mod make;
pub mod numbers;
mod packing;
mod placement;
mod published;
mod several;
pub mod units;

pub use crate::layout::EXAMPLE_NODE;
pub use choose::{GEOMETRY, PlanRequest, choose, choose_layered};
pub use commands::Programs;
pub use conditions::fitted_conditions;
pub use document::{
    NumberUnit, Plan, PlanChoices, PlanInputs, PlanNumber, PlannedCommand, PlannedGeometry,
    PlannedMedium, PlannedPartition, PlannedPlacement, StripeWidth, Trim, TrimAdvice,
};
pub use error::PlanError;
pub use layers::{PlannedLayers, PlannedSetting};
pub use make::differences;
pub use published::{PublishedRecipe, PublishedRecipes};
pub use several::{
    PlanNote, PlanningDevice, SeveralPlans, SeveralPlansError, SeveralPlansRequest,
    UnplannedReason, plan_several,
};
