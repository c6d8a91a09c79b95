//! The catalogue of file systems and options, setups, the layout, and the commands that make a
//! setup true.
//!
//! This room only builds commands ([`flashfit_host::Program`]); who runs them has the consent.
//! Limits: an option is offered by what the medium is like ([`Conditions`]); whether the running
//! kernel and the installed programs know it is not asked here.

pub mod catalogue;
pub mod conditions;
mod definition;
pub mod durability;
pub mod filesystem;
pub mod layout;
pub mod recipe;
pub mod scheduler;
pub mod setup;
pub mod template;

pub use catalogue::{Catalogue, CatalogueError};
pub use conditions::{Conditions, Need};
pub use durability::{Durability, DurabilityVerdict, Risk};
pub use filesystem::{FileSystem, FsOption};
pub use layout::{Layout, LayoutError, LayoutPlan, Start, aligned, plan_layout};
pub use recipe::Recipe;
pub use scheduler::{Scheduler, Understood};
pub use setup::{Setup, SetupError};
