//! Which of several plans is suggested, where nothing was measured on the device.
//!
//! The order is the catalog's ([`crate::filesystem::Suggestion`]), with file systems last that the
//! kernel lacks. Limit: it says nothing about speed; trials do.

use schemars::JsonSchema;
use serde::Serialize;

use super::Plan;
use crate::catalog::FileSystemCatalog;
use crate::filesystem::FileSystem;

/// A plan among the others.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PlanStanding {
    pub filesystem: String,
    /// Whether the running kernel can mount it.
    pub in_kernel: bool,
    /// What it is good for; empty if the catalog does not say.
    pub why: String,
    #[serde(skip)]
    rank: u32,
}

/// The plans' file systems, the suggested one first. `in_kernel` decides whether the
/// running kernel mounts one.
pub fn standings(
    plans: &[Plan],
    catalog: &FileSystemCatalog,
    in_kernel: impl Fn(&FileSystem) -> bool,
) -> Vec<PlanStanding> {
    let known = plans.iter().filter_map(|plan| catalog.filesystem(plan.filesystem()).ok());
    let standing = |filesystem: &FileSystem| PlanStanding {
        filesystem: filesystem.name.clone(),
        in_kernel: in_kernel(filesystem),
        why: filesystem.suggested.as_ref().map_or_else(String::new, |place| place.why.clone()),
        rank: filesystem.suggested.as_ref().map_or(u32::MAX, |place| place.rank),
    };
    let mut standings: Vec<PlanStanding> = known.map(standing).collect();
    standings.sort_by_key(|standing| (!standing.in_kernel, standing.rank));
    standings
}
