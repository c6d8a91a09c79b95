//! File systems and their options, setups, layouts, and the commands that create a setup.
//!
//! This crate only builds commands ([`flashfit_host::Program`]); who runs them has the consent.
//! Only [`facts`] and [`check`] run programs, and those only read. An option is offered by what the
//! device is like ([`Conditions`]); what the kernel and the installed programs make of it is found
//! out by `flashfit-option-probe`.

pub mod catalog;
pub mod check;
pub mod conditions;
mod definition;
pub mod durability;
pub mod facts;
pub mod filesystem;
pub mod improvement;
pub mod kernel_list;
pub mod label;
pub mod layered;
pub mod layout;
pub mod plan;
pub mod promises;
mod quantity;
pub mod recipe;
pub mod scheduler;
pub mod setup;
pub mod template;
pub mod version;

pub use catalog::{FileSystemCatalog, FileSystemCatalogError};
pub use conditions::{Conditions, OptionRequirement};
pub use durability::{Durability, DurabilityVerdict, Risk};
pub use facts::{FactsError, FileSystemFacts};
pub use filesystem::{FileSystem, FsOption, Layered, TrialOptions};
pub use improvement::Improvement;
pub use layered::Layers;
pub use layout::{
    LayoutError, LayoutPlan, LayoutStart, PartitionEnd, PartitionLayout, PartitionTable,
    SecondPlace, aligned, plan_layout, plan_layout_in,
};
pub use plan::{Plan, PlanError};
pub use promises::{Promise, Promises};
pub use recipe::Recipe;
pub use scheduler::{ParsedScheduler, Scheduler};
pub use setup::{Setup, SetupError};
pub use template::{VARIABLES, Variable};
pub use version::{Version, Versions};
