//! Mounts what a trial measures: a file system of the device, or an image and a writable layer on
//! one of its hosts.
//!
//! The image has the tree that the workload reads (`flashfit_bench::lay_out_for_image`). What other
//! workloads read or write lies on the writable layer. Limit: the host is the first that the file
//! system names, without options.

use std::path::Path;

use flashfit_bench::{Workload, lay_out_for_image};
use flashfit_filesystem::{Conditions, FileSystem, Layers, Recipe, Setup};
use flashfit_host::mount::Mounted;

use super::{LocalTestBed, RunPlan};
use crate::TrialRequest;
use crate::trial_failure::Failure;

/// Below the mount point of the host.
const TO_PACK: &str = "to-pack";
const WHOLE: &str = "whole";
/// The source of the writable layer in the table of mounts.
const LAYER_SOURCE: &str = "overlay";

/// What a trial makes.
pub(super) struct TrialRecipe {
    /// On the device.
    pub base: Recipe,
    /// In an image on it, if the file system is layered.
    pub image: Option<Recipe>,
}

impl TrialRecipe {
    /// The one with the options of the setup.
    pub fn of_setup(&self) -> &Recipe {
        self.image.as_ref().unwrap_or(&self.base)
    }
}

/// What is mounted. The fields are in the order in which they have to be dropped.
pub(super) struct TrialMount {
    layer: Option<Mounted>,
    image: Option<Mounted>,
    base: Mounted,
}

impl TrialMount {
    /// Where the workload works.
    pub fn whole(&self) -> &Mounted {
        self.layer.as_ref().unwrap_or(&self.base)
    }

    /// What is mounted there, if `node` is the device of the trial.
    pub fn source<'a>(&self, node: &'a Path) -> &'a Path {
        if self.layer.is_some() { Path::new(LAYER_SOURCE) } else { node }
    }

    pub fn unmount(self) -> Result<(), Failure> {
        let parts = [self.layer, self.image, Some(self.base)];
        // All are tried, whatever happens to the first.
        let results: Vec<_> = parts.into_iter().flatten().map(Mounted::unmount).collect();
        results.into_iter().collect::<Result<(), _>>().map_err(Failure::from)
    }
}

impl LocalTestBed<'_> {
    /// The host of a layered file system.
    pub(super) fn host_of(&self, filesystem: &FileSystem) -> Result<Option<&FileSystem>, Failure> {
        let Some(layered) = &filesystem.layered else { return Ok(None) };
        let name = layered.hosts.first().expect("the catalog checks that there is one");
        let host = self.catalog.filesystem(name);
        host.map(Some).map_err(|error| Failure::Setup(error.to_string()))
    }

    /// The setup of the host, for a setup of an image on it.
    pub(super) fn host_setup(
        host: &FileSystem,
        of: &Setup,
        conditions: &Conditions,
    ) -> Result<Setup, Failure> {
        Setup::new::<&str>(host, [], of.scheduler.clone(), conditions)
            .map_err(|error| Failure::Setup(error.to_string()))
    }

    /// Mounts what was made; `pack` makes the image first.
    pub(super) fn mount_trial(
        &self,
        request: &TrialRequest<'_>,
        recipe: &TrialRecipe,
        node: &Path,
        pack: bool,
    ) -> Result<TrialMount, Failure> {
        let base = self.mount(&recipe.base, node)?;
        let Some(image) = &recipe.image else {
            return Ok(TrialMount { layer: None, image: None, base });
        };
        let filesystem = self
            .catalog
            .filesystem(&request.setup.filesystem)
            .map_err(|error| Failure::Setup(error.to_string()))?;
        if !Layers::can_be_at(base.point()) {
            let reason = "overlayfs cannot use this mount point; choose another `mount_dir`";
            return Err(Failure::Setup(format!("{}: {reason}", base.point().display())));
        }
        let layers = Layers::new(filesystem, base.point()).expect("it has an image");
        let whole = base.point().join(WHOLE);
        if pack {
            self.pack(request, (image, &layers), &base, &whole)?;
        }
        let [(_, mount_image), (_, mount_layer)] = layers.mounts(image, &whole);
        let image = Mounted::by(self.runner, &mount_image, layers.lower())?;
        let layer = Mounted::by(self.runner, &mount_layer, &whole)?;
        Ok(TrialMount { layer: Some(layer), image: Some(image), base })
    }

    fn pack(
        &self,
        request: &TrialRequest<'_>,
        (image, layers): (&Recipe, &Layers),
        base: &Mounted,
        whole: &Path,
    ) -> Result<(), Failure> {
        let folder = base.point().join(TO_PACK);
        let workload: &Workload = request.workload;
        lay_out_for_image(self.runner, workload, &self.run_plan(request), &folder)?;
        for (_, program) in layers.steps(image, &folder, whole).into_iter().take(2) {
            self.runner.run_checked(&self.timed(program))?;
        }
        std::fs::remove_dir_all(&folder)
            .map_err(|error| Failure::Setup(format!("{}: {error}", folder.display())))
    }

    pub(super) fn run_plan(&self, request: &TrialRequest<'_>) -> RunPlan {
        let whole = RunPlan {
            points: super::Points::Profile(request.profile),
            data_size_bytes: request.data_bytes,
            memory_bytes: request.memory_bytes,
            runtime_ns: request.runtime_ns,
            seed: request.seed,
            scratch: self.scratch_dir.clone(),
        };
        whole.of_length(request.length, request.workload)
    }
}
