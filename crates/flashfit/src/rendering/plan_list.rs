//! The plans of a device as a document: which is suggested, and why there are no others.

use std::collections::BTreeSet;
use std::path::PathBuf;

use flashfit_filesystem::FileSystemCatalog;
use flashfit_filesystem::plan::{Plan, PlanNote, PlanStanding, SeveralPlans, UnplannedReason};
use flashfit_wear::MeasuredLives;
use schemars::JsonSchema;
use serde::Serialize;

use super::plan_life::PlanLives;

/// The plans of a device as they are shown.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PlanList {
    /// The device as the user named it.
    pub target: String,
    /// The arguments that make the same plans again.
    #[serde(skip)]
    pub arguments: Vec<String>,
    /// The file that the plan was written to.
    #[serde(skip)]
    pub written: Option<PathBuf>,
    /// File systems that are rated safe, but broke promises in crash tests.
    #[serde(skip)]
    pub with_exceptions: BTreeSet<String>,
    /// That and why the device would be refused, if it would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// The file systems of the plans, the suggested one first.
    pub standings: Vec<PlanStanding>,
    /// The plans, in the catalog's order.
    pub plans: Vec<Plan>,
    /// What the file systems and options of the plans cost or save in the life of simulated
    /// devices.
    pub lives: PlanLives,
    /// File systems without a plan.
    pub others: Vec<UnplannedFileSystem>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// A device as the user named it, and the arguments that make the same plans again.
#[derive(Debug)]
pub struct NamedTarget {
    pub name: String,
    pub arguments: Vec<String>,
}

/// A file system that has no plan here.
#[derive(Debug, JsonSchema, Serialize)]
pub struct UnplannedFileSystem {
    pub filesystem: String,
    pub reason: String,
}

impl PlanList {
    /// The plans of `target`; `notes` come before those of the plans.
    pub fn new(
        target: NamedTarget,
        refusal: Option<String>,
        (found, standings): (SeveralPlans, Vec<PlanStanding>),
        catalog: &FileSystemCatalog,
        measured: &MeasuredLives,
        mut notes: Vec<String>,
    ) -> Self {
        notes.extend(found.notes.iter().map(note));
        let others = found.unplanned.into_iter().map(|(filesystem, reason)| {
            let reason = unplanned(&filesystem, &reason);
            UnplannedFileSystem { filesystem, reason }
        });
        Self {
            target: target.name,
            arguments: target.arguments,
            written: None,
            with_exceptions: with_exceptions(&found.plans, catalog),
            refusal,
            standings,
            lives: PlanLives::of(&found.plans, measured),
            plans: found.plans,
            others: others.collect(),
            notes,
        }
    }
}

fn with_exceptions(plans: &[Plan], catalog: &FileSystemCatalog) -> BTreeSet<String> {
    let names = plans.iter().map(Plan::filesystem);
    let found = names.filter_map(|name| catalog.filesystem(name).ok());
    found
        .filter(|filesystem| !filesystem.promises.exceptions.is_empty())
        .map(|filesystem| filesystem.name.clone())
        .collect()
}

fn unplanned(filesystem: &str, reason: &UnplannedReason) -> String {
    match reason {
        UnplannedReason::NeedsImage => {
            format!("it is packed from one of your directories. Name it with --fs {filesystem}.")
        }
        UnplannedReason::TooRisky { durability, risk } => {
            format!("{durability}: {risk} Name it with --fs {filesystem}.")
        }
        UnplannedReason::Failed(error) => error.to_string(),
    }
}

fn note(note: &PlanNote) -> String {
    match note {
        PlanNote::Scheduler(text) => text.clone(),
        PlanNote::RecipeGeometry { erase_block } => format!(
            "nothing is known of this device's erase block, so {erase_block} of the recipe is \
             used, which was measured on its author's card"
        ),
        PlanNote::RecipeOption { option, durability, risk } => {
            format!(
                "`{option}` of the recipe is omitted: {risk} Accept it with --allow \
                     {durability}."
            )
        }
        PlanNote::RecipeFits { name, is_used, differs } => {
            let see = if *is_used { String::new() } else { format!("; see --recipe {name}") };
            let mut text = format!("The recipe `{name}` was made for a device like this{see}.");
            if !differs.is_empty() {
                text.push(' ');
                text.push_str(differs);
            }
            text
        }
    }
}
