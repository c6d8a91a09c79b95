//! The part of a plan that an image adds: a folder packed and compressed, on the file system that
//! the plan makes, under a layer that can be written to.
//!
//! The image is a file and not a partition: its size is known when it is packed,
//! and a new one takes the place of the earlier one by renaming. Limits: which folder is packed is
//! the user's to say.

use std::path::{Path, PathBuf};

use flashfit_host::Program;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::FileSystemCatalog;
use crate::conditions::Conditions;
use crate::durability::DurabilityVerdict;
use crate::filesystem::FileSystem;
use crate::layered::{LayerCommand, Layers};
use crate::recipe::Recipe;
use crate::setup::Setup;

use super::commands;
use super::document::{Plan, PlanInputs, PlannedCommand};
use super::error::PlanError;
use super::packing;
use super::second::with_second;

/// The folder that is packed, for the user to replace; where there is none of that name, packing
/// fails and harms nothing.
const FOLDER: &str = "FOLDER";
/// The warning of a plan whose folder is not named yet.
pub const NAME_THE_FOLDER: &str = "Only you know which directory is packed, and when: name it \
                                   when you apply the plan, or run these commands yourself.";
/// Below the host file system's mount point.
const WHOLE: &str = "merged";

/// Something that was chosen for the image.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PlannedSetting {
    /// What it is: `image block` or `compressor`.
    pub name: String,
    /// How it is set.
    pub value: String,
    /// Why, as a sentence.
    pub reason: String,
}

/// An image and the layer over it.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PlannedLayers {
    pub image: PathBuf,
    /// Why it lies there, as a sentence.
    pub image_reason: String,
    /// How it is packed.
    pub settings: Vec<PlannedSetting>,
    /// Where the whole appears, and can be written to.
    pub point: PathBuf,
    /// What packs and mounts it, once the host file system is mounted.
    pub commands: Vec<PlannedCommand>,
    /// Lines for fstab(5), behind that of the host file system.
    pub fstab_lines: Vec<String>,
    /// What packs it again with what was changed.
    pub renewal: Vec<PlannedCommand>,
    /// What to know of that, as sentences.
    pub renewal_note: String,
    /// What a power cut does to image and layer, as sentences.
    pub power_cut: String,
}

/// Packs a folder into the image of a plan, once the host file system is mounted somewhere.
#[derive(Debug, Clone)]
pub struct ImagePacking {
    filesystem: FileSystem,
    recipe: Recipe,
}

impl ImagePacking {
    /// The programs that pack `folder` into the image on the host file system at `host` and make
    /// the folders of the layers, in order.
    pub fn programs(&self, folder: &Path, host: &Path) -> Vec<Program> {
        let steps = self.layers(host).steps(&self.recipe, folder, &host.join(WHOLE));
        let is_made = |program: &Program| program.name() != "mount";
        steps.into_iter().map(|(_, program)| program).filter(is_made).collect()
    }

    /// The image on the host file system at `host`.
    pub fn image(&self, host: &Path) -> PathBuf {
        self.layers(host).image().to_owned()
    }

    /// What mount(8) calls the image's file system.
    pub fn kind(&self) -> &str {
        self.recipe.kind()
    }

    fn layers(&self, host: &Path) -> Layers {
        Layers::new(&self.filesystem, host).expect("it is known to have hosts")
    }
}

impl Plan {
    /// What packs its image; `None` where it has none.
    ///
    /// # Errors
    /// When the catalog no longer has its file system, or that does not take the options.
    pub fn packing(&self, catalog: &FileSystemCatalog) -> Result<Option<ImagePacking>, PlanError> {
        let Some(setup) = &self.choices.image else { return Ok(None) };
        let filesystem = catalog.filesystem(&setup.filesystem)?.clone();
        let recipe = Recipe::new(&filesystem, setup, &image_conditions(self))?;
        Ok(Some(ImagePacking { filesystem, recipe }))
    }

    /// Makes the plan that follows from these inputs, with the image where one is chosen.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn of(catalog: &FileSystemCatalog, inputs: &PlanInputs) -> Result<Self, PlanError> {
        let host = catalog.filesystem(&inputs.choices.setup.filesystem)?;
        let plan = with_second(Self::make(host, inputs)?, catalog)?;
        match &inputs.choices.image {
            None => Ok(plan),
            Some(setup) => {
                let filesystem = catalog.filesystem(&setup.filesystem)?;
                with_image(plan, host, filesystem, setup)
            }
        }
    }
}

fn with_image(
    mut plan: Plan,
    host: &FileSystem,
    filesystem: &FileSystem,
    setup: &Setup,
) -> Result<Plan, PlanError> {
    is_host(filesystem, &host.name)?;
    let mount_point = plan.mount_point.clone();
    if !Layers::can_be_at(&mount_point) {
        return Err(PlanError::MountPoint { path: mount_point.display().to_string() });
    }
    super::make::allowed(filesystem, setup, plan.choices.allow)?;
    let recipe = Recipe::new(filesystem, setup, &image_conditions(&plan))?;
    let layers = Layers::new(filesystem, &mount_point).expect("it is known to have hosts");
    let whole = mount_point.join(WHOLE);
    let write_unit = plan.geometry.used.write_unit.as_ref().map(|known| known.bytes.0);
    plan.layers = Some(PlannedLayers {
        image: layers.image().to_owned(),
        image_reason: why_a_file(host),
        settings: packing::settings(filesystem, setup, &recipe, write_unit),
        commands: written(&layers.steps(&recipe, Path::new(FOLDER), &whole)),
        fstab_lines: layers.fstab_lines(&recipe, &whole),
        renewal: written(&layers.renewal(&recipe, &whole)),
        renewal_note: "The device needs room for both images. After a cut before the renaming, \
                       the earlier image and all changes are there; after a cut behind it, go on \
                       at that step: what is still in the writable layer is in the new image too."
            .to_owned(),
        power_cut: power_cut(host),
        point: whole,
    });
    plan.warnings.extend(packing::warnings(filesystem, setup));
    plan.warnings.push(NAME_THE_FOLDER.to_owned());
    plan.durability = worst(plan.durability, setup.durability(filesystem)?);
    Ok(plan)
}

fn image_conditions(plan: &Plan) -> Conditions {
    Conditions {
        geometry: plan.geometry.used.clone(),
        discard: plan.device.discard,
        volatile_cache: plan.device.volatile_cache,
        ..Conditions::default()
    }
}

/// Whether the image of `filesystem` and its layer can lie on this host.
pub(super) fn is_host(filesystem: &FileSystem, host: &str) -> Result<(), PlanError> {
    let hosts = filesystem.layered.as_ref().map(|layered| layered.hosts.clone());
    let hosts = hosts.unwrap_or_default();
    if hosts.iter().any(|name| name == host) {
        return Ok(());
    }
    Err(PlanError::Host { filesystem: filesystem.name.clone(), host: host.to_owned(), hosts })
}

fn why_a_file(host: &FileSystem) -> String {
    format!(
        "a file on {}: its size is known only when it is packed, and a new image takes its place \
         by renaming, which a power cut leaves done or not done. A separate partition would need its \
         size guessed, and a second one to be renewed; what it would gain is little, since the \
         image is written once, from start to end, and shares an erase block with other files at \
         its ends only",
        host.name
    )
}

fn power_cut(host: &FileSystem) -> String {
    format!(
        "The image is never written to, so a power cut can only affect the writable layer: \
         what was changed and not synced, as on {} without an image. A file of the image that is \
         changed is first copied and then renamed, so it is whole afterwards, old or new.",
        host.name
    )
}

fn worst(host: DurabilityVerdict, image: DurabilityVerdict) -> DurabilityVerdict {
    DurabilityVerdict {
        durability: host.durability.max(image.durability),
        risks: [host.risks, image.risks].concat(),
    }
}

fn written(steps: &[LayerCommand]) -> Vec<PlannedCommand> {
    // The device is written to by all of them but mounting.
    let is_mount = |name: &str| matches!(name, "mount" | "umount");
    let one = |(purpose, program): &LayerCommand| {
        commands::one(purpose, program, !is_mount(program.name()))
    };
    steps.iter().map(one).collect()
}
